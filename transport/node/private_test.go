package node

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"testing"

	"roomd/lockmgr/redisconn/redisurl"
	"roomd/lockmgr/redistest"
	"roomd/transport/client"
	"roomd/transport/protocol"
)

// record keeps what is written to it.
type record struct {
	mu  sync.Mutex
	all bytes.Buffer // guarded by mu
}

func (r *record) Write(p []byte) (int, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.all.Write(p)
}

func (r *record) String() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.all.String()
}

// A secret is in nothing that the others, the log at its loudest, the metrics, the pages and the API without
// authority say: not after it was set, dealt, refused, expected in vain, nor when a member is not as roomd writes
// it.
func TestPrivateData_IsNowhere(t *testing.T) {
	t.Parallel()
	const secret = "QUEENOFSPADES"
	server := redistest.Start(t)
	log := new(record)
	cfg, err := parse(t, "--admin-listen", "127.0.0.1:0", "--redis", server.URL(), "--journal", "100")
	redistest.OK(t, err)
	db, err := redisurl.Open(cfg.Redis)
	redistest.OK(t, err)
	t.Cleanup(db.Close)
	parts := Config{Listen: "127.0.0.1:0", Redis: db, Room: cfg.rooms(), Serve: cfg.clients(),
		Log: slog.New(slog.NewTextHandler(log, &slog.HandlerOptions{Level: slog.LevelDebug}))}
	parts.AdminListen, parts.Settings = cfg.AdminListen, cfg.labels()
	n, err := Start(t.Context(), parts)
	redistest.OK(t, err)
	stop := sync.OnceFunc(func() {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		redistest.OK(t, n.Shutdown(ctx))
	})
	t.Cleanup(stop)
	public, admin := "http://"+n.Addr(), "http://"+n.AdminAddr()
	web := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: patience}
	ask := func(method, url, body string) string {
		t.Helper()
		req, err := http.NewRequestWithContext(t.Context(), method, url, strings.NewReader(body))
		redistest.OK(t, err)
		if body != "" {
			req.Header.Set("Content-Type", "application/json")
		}
		resp, err := web.Do(req)
		redistest.OK(t, err)
		defer resp.Body.Close()
		text, err := io.ReadAll(resp.Body)
		redistest.OK(t, err)
		return fmt.Sprint(resp.Status, resp.Header, string(text))
	}
	heard := new(record)
	others := client.Options{
		OnEvent: func(e *protocol.Event) { fmt.Fprintf(heard, "%s\n", protocol.AppendEvent(nil, e)) },
		OnReply: func(r *protocol.Reply) { fmt.Fprintf(heard, "%s\n", protocol.AppendReply(nil, r)) },
	}
	dial := func(user string, opts client.Options) *client.Conn {
		opts.User = user
		c, err := client.Dial(t.Context(), "ws://"+n.Addr()+"/ws", opts)
		redistest.OK(t, err)
		t.Cleanup(c.Close)
		return c
	}
	ann, bob, eve := dial("ann", client.Options{}), dial("bob", others), dial("eve", others)
	join(t, ann, "42")
	join(t, bob, "42")
	_, err = eve.Do(t.Context(), protocol.Request{Action: protocol.ActionWatch, Room: "42"})
	redistest.OK(t, err)

	_, err = ann.Do(t.Context(), setPrivate(secret+" set"))
	redistest.OK(t, err)
	_, err = ann.Do(t.Context(), setPrivate(strings.Repeat(secret, 100))) // is too large
	if err == nil {
		t.Error("too large private data are not refused")
	}
	old := setPrivate(secret)
	old.Expect = new(uint64(1))
	if _, err = ann.Do(t.Context(), old); err == nil {
		t.Error("an old version is not refused")
	}
	for _, body := range []string{`{"hands":{"ann":"` + secret + `","nobody":"` + secret + `"}}`, `{"hands":{"ann":["` + secret + `",1e999]}}`, `{"hands":{"ann":"` + secret + `"}}`} {
		ask("POST", admin+"/api/rooms/42/deal", body)
	}
	if shown := ask("GET", admin+"/api/rooms/42", "") + ask("GET", admin+"/api/rooms/42/log", ""); strings.Count(shown, secret) < 3 {
		t.Errorf("an operator is not shown the secret:\n%s", shown)
	}
	_, err = bob.Do(t.Context(), protocol.Request{Action: protocol.ActionSet, Room: "42", Scope: protocol.ScopePrivate, Data: protocol.JSON(`"of bob"`)})
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
		if moved := ask("POST", admin+"/api/rooms/"+from+"/move", `{"users":["ann"],"to":"`+to+`"}`); !strings.HasPrefix(moved, "200") || strings.Contains(moved, secret) {
			t.Fatalf("a move is answered with %s", moved)
		}
		if shown := ask("GET", admin+"/api/rooms/"+to, ""); !strings.Contains(shown, secret) {
			t.Fatalf("they did not go along: %s", shown)
		}
	}
	said := heard.String()
	for _, path := range []string{"/", "/api/rooms", "/api/rooms/42", "/api/rooms/42/log", "/healthz", "/readyz", "/admin", "/metrics"} {
		said += ask("GET", public+path, "")
	}
	for _, path := range []string{"/metrics", "/admin", "/api/nodes", "/api/rooms", "/healthz", "/readyz", "/debug/pprof/goroutine?debug=2"} {
		said += ask("GET", admin+path, "")
	}

	// A member that is broken, and of whom errors speak.
	key, field := "Room:42:Users", "ann"
	rdb := server.Client()
	broken := strings.Replace(rdb.HGet(t.Context(), key, field).Val(), `"seat":`, `"seat":-`, 1)
	broken = strings.Replace(broken, `"seat":-0`, `"seat":-1`, 1)
	if !strings.Contains(broken, secret) || !strings.Contains(broken, `"seat":-1`) {
		t.Fatalf("Redis has the member %s", broken)
	}
	redistest.OK(t, rdb.HSet(t.Context(), key, field, broken).Err())
	fresh := dial("fay", others)
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
	return protocol.Request{Action: protocol.ActionSet, Room: "42", Scope: protocol.ScopePrivate, Data: protocol.JSON(`"` + text + `"`)}
}
