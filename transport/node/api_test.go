package node

import (
	"bytes"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os/exec"
	"regexp"
	"strings"
	"sync"
	"testing"

	"roomd/lockmgr/redisconn/redisurl"
	"roomd/lockmgr/redistest"
	"roomd/transport"
	"roomd/transport/auth"
	"roomd/transport/client"
	"roomd/transport/node/roomdtest"
	"roomd/transport/protocol"
)

// A node serves its rooms by HTTP: to everybody on the address of the clients, and with authority on
// that of the operators, behind its check.
func TestAPI(t *testing.T) {
	n := start(t, Config{Redis: open(t, redisurl.Embedded), AdminListen: "127.0.0.1:0"})
	c := dial(t, n.URL(), "李四")
	join(t, c, "42")
	public, admin := "http://"+n.Addr()+"/api/rooms", "http://"+n.AdminAddr()+"/api/rooms"
	for url, want := range map[string]string{public: `"room":"42","count":1`,
		public + "/42": `{"user":"李四","seat":0}`, admin + "/42": "李四"} {
		if status, answer, header := ask(t, "GET", url, ""); status != 200 || !strings.Contains(answer, want) ||
			header.Get("X-Content-Type-Options") != "nosniff" {
			t.Errorf("%s: %d %s", url, status, answer)
		}
	}
	for _, test := range []struct {
		url     string
		status  int
		headers []string
	}{
		{public, 403, nil},
		{admin, 200, nil},
		{admin, 403, []string{"Origin", "https://evil.example"}},
		{admin, 403, []string{"Sec-Fetch-Site", "same-site"}},
		{admin, 403, []string{"X-Forwarded-For", "10.0.0.1"}},
	} {
		status, answer, header := ask(t, "PUT", test.url+"/42", `{"capacity":4}`, test.headers...)
		if status != test.status || status >= 400 && (header.Get("Content-Type") != "application/problem+json" ||
			!strings.Contains(answer, `"code":"forbidden"`)) {
			t.Errorf("%s %v: %d %s %v", test.url, test.headers, status, answer, header)
		}
	}
	for _, addr := range []string{n.Addr(), n.AdminAddr()} {
		if status, answer, header := ask(t, "GET", "http://"+addr+"/api", ""); status != 404 ||
			header.Get("Content-Type") != "application/problem+json" || !strings.Contains(answer, `"code":"not_found"`) {
			t.Errorf("/api: %d %s", status, answer)
		}
	}
}

// The HTTP API has the rate of the clients, and the metrics show it.
func TestAPI_Rate(t *testing.T) {
	t.Parallel()
	n := observe(t, redisurl.Embedded, nil, "--rate", "1", "--burst", "1")
	limited := false
	for range 3 {
		status, _ := get(t, "http://"+n.Addr()+"/api/rooms")
		limited = limited || status == http.StatusTooManyRequests
	}
	_, metrics := get(t, "http://"+n.AdminAddr()+"/metrics")
	redistest.ErrorIf(t, !limited || !strings.Contains(metrics, `rate="1/s"`), "limited: %v\n%s", limited, metrics)
}

// Elsewhere than on loopback an operator needs a token, and one without gets a problem document.
func TestAPIElsewhere(t *testing.T) {
	n := start(t, Config{Redis: open(t, redisurl.Embedded), Serve: transport.Options{Auth: verifier(t)},
		AdminListen: "0.0.0.0:0"})
	_, port, _ := strings.Cut(strings.TrimPrefix(n.AdminAddr(), "[::]"), ":")
	url := "http://127.0.0.1:" + port + "/api/rooms/42"
	if status, answer, header := ask(t, "PUT", url, "{}"); status != 401 ||
		header.Get("WWW-Authenticate") != "Bearer" || !strings.Contains(answer, `"code":"unauthorized"`) {
		t.Errorf("without a token: %d %s %v", status, answer, header)
	}
	for role, want := range map[auth.Role]int{auth.RolePlayer: 403, auth.RoleAdmin: 200} {
		if status, answer, _ := ask(t, "PUT", url, "{}", "Authorization", "Bearer "+token(t, role)); status != want {
			t.Errorf("%s: %d %s", role, status, answer)
		}
	}
}

// Pages of an allowed origin may import the client, and others may not.
func TestPage_ImportedByOthers(t *testing.T) {
	n := start(t, Config{Redis: open(t, redisurl.Embedded),
		Serve: transport.Options{AllowOrigins: []string{"https://game.example"}}})
	for _, tt := range []struct{ path, origin, allowed string }{
		{"/roomd.js", "https://game.example", "https://game.example"},
		{"/roomd.d.ts", "https://game.example", "https://game.example"},
		{"/roomd.js", "https://evil.example", ""},
		{"/roomd.js", "", ""},
		{"/page.json", "https://game.example", ""},
	} {
		var headers []string
		if tt.origin != "" {
			headers = []string{"Origin", tt.origin}
		}
		status, _, header := ask(t, http.MethodGet, "http://"+n.Addr()+tt.path, "", headers...)
		if got := header.Get("Access-Control-Allow-Origin"); status != http.StatusOK || got != tt.allowed ||
			(header.Get("Vary") == "Origin") != (tt.path != "/page.json") {
			t.Errorf("%s for a page of %q: %d %v", tt.path, tt.origin, status, header)
		}
	}
}

// The page is on the address of the game clients, beside everything else there.
func TestPageOnTheGameAddress(t *testing.T) {
	keyed := start(t, Config{Redis: open(t, redisurl.Embedded), Version: "v1.2",
		Serve: transport.Options{Auth: verifier(t)}})
	lists := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "lists") })
	open := start(t, Config{Redis: open(t, redisurl.Embedded), Version: "v1.2", Unguarded: lists})
	for _, tt := range []struct {
		n            *Node
		path         string
		status       int
		body, header string // what they contain
	}{
		{keyed, "/", 200, "<!doctype html>", "script-src 'self'"},
		{keyed, "/page.json", 200, `{"auth":true,"stampede":false,"version":""}`, "default-src 'none'"},
		{keyed, "/unguarded", 404, "game clients connect to /ws", "default-src 'none'"},
		{keyed, "/healthz", 200, "ok", "default-src 'none'"},
		{keyed, "/nothing", 404, "game clients connect to /ws; there is nothing at /nothing", "default-src 'none'"},
		{open, "/page.json", 200, `{"auth":false,"stampede":true,"version":"v1.2"}`, "default-src 'none'"},
		{open, "/unguarded", 200, "lists", "default-src 'none'"},
		{open, "/unguarded/x", 404, "game clients connect to /ws", "default-src 'none'"},
		{open, "/api/rooms", 200, `{"rooms":[]}`, "default-src 'none'"},
	} {
		status, body, header := ask(t, http.MethodGet, "http://"+tt.n.Addr()+tt.path, "")
		if policy := header.Get("Content-Security-Policy"); status != tt.status || !strings.Contains(body, tt.body) ||
			!strings.Contains(policy, tt.header) ||
			header.Get("X-Content-Type-Options") != "nosniff" {
			t.Errorf("%s: %d %.100s %v", tt.path, status, body, header)
		}
	}
	status, body, _ := ask(t, http.MethodGet, "http://"+open.Addr()+"/?user=x", "", "Connection", "Upgrade",
		"Upgrade", "websocket")
	redistest.ErrorIf(t, status != http.StatusNotFound || !strings.Contains(body, "game clients connect to /ws"),
		"a game client at / gets %d %.100s", status, body)
}

// curls are the commands of the manual, each with what it prints.
var curls = regexp.MustCompile("(?s)\n```curl\n(.*?)```")

// The curl lines of the manual print what stands below them, where … is anything.
func TestManual_CurlLines(t *testing.T) {
	t.Parallel()
	redistest.Need(t, "curl")
	blocks := curls.FindAllStringSubmatch(roomdtest.Manual(t, "*.md"), -1)
	redistest.FatalIf(t, len(blocks) == 0, "the manual has no curl lines")
	n, _ := startNode(t, "--listen", "127.0.0.1:0", "--admin-listen", "127.0.0.1:0", "--journal", "100", "--feed",
		"1000")
	for _, block := range blocks {
		for step := range strings.SplitSeq(strings.TrimPrefix(block[1], "$ "), "\n$ ") {
			command, want, _ := strings.Cut(step, "\n")
			command = strings.NewReplacer("127.0.0.1:8080", n.Addr(), "127.0.0.1:9090", n.AdminAddr()).Replace(command)
			pattern := regexp.MustCompile("^" + strings.ReplaceAll(regexp.QuoteMeta(strings.TrimSpace(want)), "…",
				".*") + "$")
			var out []byte
			prints := func() bool {
				var err error
				out, err = exec.CommandContext(t.Context(), "sh", "-c",
					strings.Replace(command, "curl ", "curl -sS --max-time 10 ", 1)).CombinedOutput()
				return err == nil && pattern.Match(bytes.TrimSpace(out))
			}
			// the lobby may know more in a moment
			if matched := prints(); !matched && !strings.Contains(command, "-X") &&
				!strings.Contains(command, "--json") {
				redistest.Until(t, fmt.Sprintf("%s, which last printed %s, prints %s", command, out, want), prints)
			} else if !matched {
				t.Errorf("%s\nprints %s, not %s", command, out, want)
			}
		}
	}
}

// A secret is in nothing that the others, the log at its loudest, the metrics, the pages and the API without
// authority say: not after it was set, dealt, refused, expected in vain, nor when a member is not as roomd writes
// it.
func TestPrivateData_IsNowhere(t *testing.T) {
	t.Parallel()
	const secret = "QUEENOFSPADES"
	server := redistest.Start(t)
	log := new(redistest.Log)
	n := start(t, partsOf(t, slog.New(slog.NewTextHandler(log, &slog.HandlerOptions{Level: slog.LevelDebug})),
		"--redis", server.URL(), "--journal", "100"))
	stop := sync.OnceFunc(func() { redistest.OK(t, n.Shutdown(t.Context())) })
	public, admin := "http://"+n.Addr(), "http://"+n.AdminAddr()
	ask := func(method, url, body string) string {
		t.Helper()
		status, answer, header := ask(t, method, url, body)
		return fmt.Sprint(status, header, answer)
	}
	heard := new(redistest.Log)
	others := client.Options{
		OnEvent: func(e *protocol.Event) { fmt.Fprintf(heard, "%s\n", protocol.AppendEvent(nil, e)) },
		OnReply: func(r *protocol.Reply) { fmt.Fprintf(heard, "%s\n", protocol.AppendReply(nil, r)) },
	}
	others.User = "bob"
	ann, bob := dial(t, n.URL(), "ann"), connect(t, n.URL(), others)
	others.User = "eve"
	eve := connect(t, n.URL(), others)
	join(t, ann, "42")
	join(t, bob, "42")
	_, err := eve.Do(t.Context(), protocol.Request{Action: protocol.ActionWatch, Room: "42"})
	redistest.OK(t, err)

	_, err = ann.Do(t.Context(), setPrivate(secret+" set"))
	redistest.OK(t, err)
	_, err = ann.Do(t.Context(), setPrivate(strings.Repeat(secret, 100))) // is too large
	redistest.ErrorIf(t, err == nil, "too large private data are not refused")
	old := setPrivate(secret)
	old.Expect = new(uint64(1))
	if _, err = ann.Do(t.Context(), old); err == nil {
		t.Error("an old version is not refused")
	}
	for _, body := range []string{`{"hands":{"ann":"` + secret + `","nobody":"` + secret + `"}}`,
		`{"hands":{"ann":["` + secret + `",1e999]}}`, `{"hands":{"ann":"` + secret + `"}}`} {
		ask("POST", admin+"/api/rooms/42/deal", body)
	}
	if shown := ask("GET", admin+"/api/rooms/42", "") +
		ask("GET", admin+"/api/rooms/42/log", ""); strings.Count(shown, secret) < 3 {
		t.Errorf("an operator is not shown the secret:\n%s", shown)
	}
	_, err = bob.Do(t.Context(), protocol.Request{Action: protocol.ActionSet, Room: "42",
		Scope: protocol.ScopePrivate, Data: protocol.JSON(`"of bob"`)})
	redistest.OK(t, err)
	for _, c := range []*client.Conn{bob, eve} {
		_, _ = c.Do(t.Context(), protocol.Request{Action: protocol.ActionUsers, Room: "42"})
		_, _ = c.Do(t.Context(), protocol.Request{Action: protocol.ActionJoin, Room: "42"})
		of := setPrivate("1")
		of.User = "ann"
		_, _ = c.Do(t.Context(), of)
		_, _ = c.Do(t.Context(), protocol.Request{Action: protocol.ActionSay, Room: "42", Text: "hi"})
	}

	// They go along to another room, and back.
	join(t, bob, "43")
	_, err = eve.Do(t.Context(), protocol.Request{Action: protocol.ActionWatch, Room: "43"})
	redistest.OK(t, err)
	for _, rooms := range [][2]string{{"42", "43"}, {"43", "42"}} {
		from, to := rooms[0], rooms[1]
		if moved := ask("POST", admin+"/api/rooms/"+from+"/move",
			`{"users":["ann"],"to":"`+to+`"}`); !strings.HasPrefix(moved, "200") || strings.Contains(moved, secret) {
			t.Fatalf("a move is answered with %s", moved)
		}
		if shown := ask("GET", admin+"/api/rooms/"+to, ""); !strings.Contains(shown, secret) {
			t.Fatalf("they did not go along: %s", shown)
		}
	}
	said := heard.String()
	for _, path := range []string{"/", "/api/rooms", "/api/rooms/42", "/api/rooms/42/log", "/healthz", "/readyz",
		"/admin", "/metrics"} {
		said += ask("GET", public+path, "")
	}
	for _, path := range []string{"/metrics", "/admin", "/api/nodes", "/api/rooms", "/healthz", "/readyz",
		"/debug/pprof/goroutine?debug=2"} {
		said += ask("GET", admin+path, "")
	}

	// A member that is broken, and of whom errors speak.
	key, field := "Room:42:Users", "ann"
	rdb := server.Client()
	broken := strings.Replace(rdb.HGet(t.Context(), key, field).Val(), `"seat":`, `"seat":-`, 1)
	broken = strings.Replace(broken, `"seat":-0`, `"seat":-1`, 1)
	redistest.FatalIf(t, !strings.Contains(broken, secret) || !strings.Contains(broken, `"seat":-1`),
		"Redis has the member %s", broken)
	redistest.OK(t, rdb.HSet(t.Context(), key, field, broken).Err())
	others.User = "fay"
	fresh := connect(t, n.URL(), others)
	if _, err := fresh.Do(t.Context(), protocol.Request{Action: protocol.ActionJoin, Room: "42"}); err != nil {
		said += err.Error()
	}
	redistest.Until(t, "the log speaks of the member", func() bool {
		said += ask("GET", admin+"/api/rooms/42", "") + ask("GET", public+"/api/rooms/42", "")
		_, _ = fresh.Do(t.Context(), protocol.Request{Action: protocol.ActionUsers, Room: "42"})
		return strings.Contains(log.String(), "no member as roomd writes it")
	})
	said += heard.String()
	stop()
	for what, text := range map[string]string{"the others and the pages": said, "the log": log.String()} {
		if at := strings.Index(text, secret); at >= 0 || !strings.Contains(text, "42") {
			t.Errorf("%s: …%s…", what, text[max(0, at-300):min(len(text), at+100)])
		}
	}
}

func setPrivate(text string) protocol.Request {
	return protocol.Request{Action: protocol.ActionSet, Room: "42", Scope: protocol.ScopePrivate,
		Data: protocol.JSON(`"` + text + `"`)}
}
