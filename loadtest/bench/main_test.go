package bench

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gorilla/websocket"
	"go.uber.org/goleak"

	"roomd/loadtest/redisserver"
	"roomd/lockmgr/redisconn/redisurl"
	"roomd/lockmgr/redistest"
)

func TestMain(m *testing.M) {
	servers[dropping], servers[leaking] = openBroken(dropping), openBroken(leaking)
	Main()
	redistest.MostlyWaiting()
	goleak.VerifyTestMain(m)
}

const short = 100 * time.Millisecond

// kinds are the kinds of Redis that tests run on.
var kinds = map[string]func(*testing.T) string{
	"embedded": func(*testing.T) string { return redisurl.Embedded },
	"real":     func(t *testing.T) string { return redistest.Start(t).URL() },
}

// testBench returns a run without output.
func testBench(t *testing.T, url string) *bench {
	t.Helper()
	server, err := redisserver.Open(t.Context(), url)
	redistest.OK(t, err)
	b := newBench(server, Config{Duration: short, Out: io.Discard, Log: io.Discard})
	t.Cleanup(func() {
		b.close()
		server.Close()
	})
	return b
}

// emptied checks that a run has removed its keys.
func (b *bench) emptied(t *testing.T) {
	t.Helper()
	if n := b.rdb.DBSize(t.Context()).Val(); n != 0 {
		t.Errorf("%d keys are left", n)
	}
}

// of returns the contenders that compete in a workload.
func of(w workload) (list []contender) {
	return slices.DeleteFunc(slices.Clone(contenders), func(c contender) bool { return !c.competes(w.kind) })
}

// mustCell measures, and fails the test if the contender cannot be measured.
func mustCell(t *testing.T, b *bench, w workload, c contender) *Result {
	t.Helper()
	r, err := b.cell(t.Context(), 0, cell{load: w, who: c})
	redistest.OK(t, err)
	if r.Failure != "" {
		t.Fatalf("%s in %s: %s", c.name, w.name, r.Failure)
	}
	return r
}

// unlocked is the article's loop without the lock.
type unlocked struct{ *article }

func openUnlocked(_ context.Context, t target) (node, error) {
	return &unlocked{&article{t.client()}}, nil
}

func (u *unlocked) join(ctx context.Context, room, user string) error {
	users, err := articleMembers(ctx, u.rdb, room)
	return errors.Join(err, u.fill(ctx, room, append(users, user)))
}

func (u *unlocked) leave(ctx context.Context, room, user string) error {
	users, err := articleMembers(ctx, u.rdb, room)
	return errors.Join(err, u.fill(ctx, room, slices.DeleteFunc(users, func(other string) bool { return other == user })))
}

var errRefused = errors.New("refused")

// moody refuses each second join.
type moody struct {
	*sadd
	joins *atomic.Int64
}

func openMoody(_ context.Context, t target) (node, error) {
	return &moody{&sadd{t.client()}, new(atomic.Int64)}, nil
}

func (m *moody) join(ctx context.Context, room, user string) error {
	if m.joins.Add(1)%2 == 0 {
		return errRefused
	}
	return m.sadd.join(ctx, room, user)
}

// Servers with a fault, which the bench must find.
const (
	dropping = "dropping" // cuts off each third client
	leaking  = "leaking"  // keeps a MiB of each client
)

// broken is a server that answers each request as if it were done.
type broken struct {
	http      *httptest.Server
	all, open atomic.Int64

	mu    sync.Mutex
	leaks [][]byte // guarded by mu
}

func openBroken(how string) opener {
	return func(context.Context, serverConfig) (server, error) {
		b := new(broken)
		b.http = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			ws, err := (&websocket.Upgrader{}).Upgrade(w, r, nil)
			if err != nil {
				return
			}
			defer ws.Close()
			b.open.Add(1)
			defer b.open.Add(-1)
			if n := b.all.Add(1); how == dropping && n%3 == 0 {
				return
			}
			if how == leaking {
				b.mu.Lock()
				b.leaks = append(b.leaks, bytes.Repeat([]byte{1}, 1<<20)) // resident
				b.mu.Unlock()
			}
			for {
				_, request, err := ws.ReadMessage()
				if err != nil {
					return
				}
				id, _, _ := strings.Cut(string(request), ",")
				_ = ws.WriteMessage(websocket.TextMessage, []byte(id+`,"room":"any","version":1,"count":1}`))
			}
		}))
		return b, nil
	}
}

func (b *broken) URL() string      { return strings.Replace(b.http.URL, "http", "ws", 1) }
func (b *broken) Connections() int { return int(b.open.Load()) }
func (b *broken) Close()           { b.http.Close() }
