package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"regexp"
	"strings"
	"testing"

	"roomd/loadtest/audit"
	"roomd/lockmgr/redistest"
)

// A journal by hand: two commits of room 42.
func TestAuditReports(t *testing.T) {
	server := redistest.Start(t)
	rdb := server.Client()
	for _, args := range [][]any{
		{"XADD", "Room:42:Log", "*", "commit", `{"epoch":"e","version":1,"mark":"m1","node":"n","changes":[{"type":"join","user":"张三","seat":0,"session":"s","at":7},{"type":"defaults","user":"","seat":0,"settings":{"capacity":4}}]}`},
		{"XADD", "Room:42:Log", "*", "commit", `{"epoch":"e","version":2,"mark":"m2","node":"n","changes":[{"type":"join","user":"李四","seat":1,"session":"s","at":8}]}`},
		{"HSET", "Room:42:Users", "张三", `{"seat":0,"session":"s","node":"n","at":7}`, "李四", `{"seat":1,"session":"s","node":"n","at":8}`},
		{"HSET", "Room:42:Meta", "epoch", "e", "version", 2, "mark", "m2", "members", 2, "settings", `{"capacity":4}`},
		{"HSET", "Room:43:Meta", "epoch", "e", "version", 2},
	} {
		if err := rdb.Do(t.Context(), args...).Err(); err != nil {
			t.Fatal(err)
		}
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
	if err := rdb.Do(t.Context(), acl...).Err(); err != nil {
		t.Fatal(err)
	}
	t.Setenv("ROOMLOAD_REDIS", "redis://auditor:secret@"+server.Addr())
	var as, errs bytes.Buffer
	if err := run(t.Context(), []string{"audit"}, &as, &errs); err != nil || !strings.Contains(as.String(), "verdict     clean") {
		t.Errorf("as the user of the help: %v\n%s", err, &as)
	}
	stdout, stderr, err := start()
	if err != nil || stderr != "" || !strings.Contains(stdout, "journals    1 rooms, 2 commits") || !strings.Contains(stdout, "not audited: 43\nverdict     clean\n") {
		t.Errorf("%v, standard output:\n%s\nstandard error:\n%s", err, stdout, stderr)
	}
	if stdout, stderr, err = start("--quiet"); err != nil || stdout+stderr != "" {
		t.Errorf("quiet: %v, %s%s", err, stdout, stderr)
	}
	rdb.HDel(t.Context(), "Room:42:Users", "李四")
	stdout, _, err = start()
	if !errors.Is(err, errNotClean) || exitCode(err) != exitFailed || !strings.Contains(stdout, "room 42, version 2, at the end: member differs\n    the journal     \"李四\" sits on seat 1") ||
		!strings.HasSuffix(stdout, "verdict     NOT CLEAN\n") {
		t.Errorf("%v\n%s", err, stdout)
	}
	stdout, _, err = start("--json", "--most", "1")
	var r audit.Report
	if jsonErr := json.Unmarshal([]byte(stdout), &r); jsonErr != nil || !errors.Is(err, errNotClean) || r.Violations != 2 || len(r.Findings) != 1 || r.WithoutJournal != 1 {
		t.Errorf("%v, %v\n%s", err, jsonErr, stdout)
	}
	if stdout, _, err = start("--quiet", "--most", "1"); err == nil || strings.Count(stdout, "\n") != 4 {
		t.Errorf("quiet: %v\n%s", err, stdout)
	}
	if stdout, _, err = start("--room", "none"); err != nil || !strings.Contains(stdout, "start nodes with --journal") {
		t.Errorf("no room: %v\n%s", err, stdout)
	}
}
