package main

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"roomd/loadtest/audit"
	"roomd/lockmgr/redistest"
)

// entry returns an entry by hand, with the mark that its text makes.
func entry(version int, prev, changes string) (text, mark string) {
	const blank = "0000000000000000"
	text = fmt.Sprintf(`{"epoch":"e","version":%d,"mark":"%s","prev":"%s","node":"n","changes":[%s]}`, version, blank,
		prev, changes)
	sum := sha256.Sum256([]byte(text))
	mark = base64.RawURLEncoding.EncodeToString(sum[:12])
	return strings.Replace(text, blank, mark, 1), mark
}

// A journal by hand: two commits of room 42.
func TestAuditReports(t *testing.T) {
	first, m1 := entry(1, "", `{"type":"join","user":"张三","seat":0,"session":"s","at":7},{"type":"defaults","user":"","seat":0,"settings":{"capacity":4}}`)
	second, m2 := entry(2, m1, `{"type":"join","user":"李四","seat":1,"session":"s","at":8},{"type":"wave","user":"李四","seat":1}`)
	server := redistest.Start(t)
	rdb := server.Client()
	for _, args := range [][]any{
		{"XADD", "Room:42:Log", "*", "commit", first},
		{"XADD", "Room:42:Log", "*", "commit", second},
		{"HSET", "Room:42:Users", "张三", `{"seat":0,"session":"s","node":"n","at":7}`, "李四",
			`{"seat":1,"session":"s","node":"n","at":8}`},
		{"HSET", "Room:42:Meta", "epoch", "e", "version", 2, "mark", m2, "members", 2, "settings", `{"capacity":4}`},
		{"HSET", "Room:43:Meta", "epoch", "e", "version", 2},
	} {
		redistest.OK(t, rdb.Do(t.Context(), args...).Err())
	}
	start := func(more ...string) (stdout, stderr string, err error) {
		var out, errs bytes.Buffer
		err = run(t.Context(), append([]string{"audit", "--redis", server.URL()}, more...), &out, &errs)
		return out.String(), errs.String(), err
	}
	rule := regexp.MustCompile(`ACL SETUSER auditor on >secret (.+)`).FindStringSubmatch(new(auditCmd).Help())
	acl := []any{"ACL", "SETUSER", "auditor", "reset", "on", ">secret"}
	for _, right := range strings.Fields(rule[1]) {
		acl = append(acl, right)
	}
	redistest.OK(t, rdb.Do(t.Context(), acl...).Err())
	t.Setenv("ROOMLOAD_REDIS", "redis://auditor:secret@"+server.Addr())
	var as, errs bytes.Buffer
	if err := run(t.Context(), []string{"audit"}, &as, &errs); err != nil ||
		!strings.Contains(as.String(), "verdict     clean") {
		t.Errorf("as the user of the help: %v\n%s", err, &as)
	}
	t.Setenv("ROOMLOAD_REDIS", "")
	password := filepath.Join(t.TempDir(), "password")
	redistest.OK(t, os.WriteFile(password, []byte("secret\n"), 0o600))
	as.Reset()
	if err := run(t.Context(), []string{"audit", "--redis", "redis://auditor@" + server.Addr(),
		"--redis-password-file", password}, &as, &errs); err != nil ||
		!strings.Contains(as.String(), "verdict     clean") {
		t.Errorf("with a password file: %v\n%s", err, &as)
	}
	stdout, stderr, err := start()
	if err != nil || stderr != "" || !strings.Contains(stdout, "journals    1 rooms, 2 commits") ||
		!strings.Contains(stdout, "not audited: 43\nunknown     changes that change nothing, for all that this program knows: wave\nverdict     clean\n") {
		t.Errorf("%v, standard output:\n%s\nstandard error:\n%s", err, stdout, stderr)
	}
	if stdout, stderr, err = start("--quiet"); err != nil || stdout+stderr != "" {
		t.Errorf("quiet: %v, %s%s", err, stdout, stderr)
	}
	rdb.HDel(t.Context(), "Room:42:Users", "李四")
	stdout, _, err = start()
	if !errors.Is(err, errNotClean) || exitCode(err) != exitFailed || !strings.Contains(stdout,
		"room 42, version 2, at the end: member differs\n    the journal     \"李四\" sits on seat 1") ||
		!strings.HasSuffix(stdout, "verdict     NOT CLEAN\n") {
		t.Errorf("%v\n%s", err, stdout)
	}
	stdout, _, err = start("--json", "-", "--most", "1")
	var r audit.Report
	if jsonErr := json.Unmarshal([]byte(stdout), &r); jsonErr != nil || !errors.Is(err, errNotClean) ||
		r.Violations != 2 || len(r.Findings) != 1 || r.WithoutJournal != 1 {
		t.Errorf("%v, %v\n%s", err, jsonErr, stdout)
	}
	file := filepath.Join(t.TempDir(), "report.json")
	stdout, _, err = start("--json", file, "--most", "1")
	if text, fileErr := os.ReadFile(file); fileErr != nil || json.Unmarshal(text, &r) != nil ||
		!errors.Is(err, errNotClean) || !strings.Contains(stdout, "member differs") {
		t.Errorf("to a file: %v, %v\n%s", err, fileErr, stdout)
	}
	if stdout, _, err = start("--quiet", "--most", "1"); err == nil || strings.Count(stdout, "\n") != 4 {
		t.Errorf("quiet: %v\n%s", err, stdout)
	}
	if stdout, _, err = start("--room", "none"); err != nil || !strings.Contains(stdout, "start nodes with --journal") {
		t.Errorf("no room: %v\n%s", err, stdout)
	}
}
