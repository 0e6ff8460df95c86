package coordinator

import (
	"context"
	"errors"
	"io"
	"net"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"

	"roomd/lockmgr/redistest"
	"roomd/room"
	"roomd/room/coordinator/internal/store"
)

// lateConn is a connection on which what is written while late is set arrives two seconds later.
type lateConn struct {
	net.Conn
	late *atomic.Bool
}

func (c lateConn) Write(p []byte) (int, error) {
	if !c.late.Load() {
		return c.Conn.Write(p)
	}
	p = slices.Clone(p)
	time.AfterFunc(2*time.Second, func() { _, _ = c.Conn.Write(p) })
	return len(p), nil
}

// Redis does not answer a caller that serves itself. The caller goes as its context ends, or
// a moment later; what it wanted is done all the same, once, and the room goes on.
func TestCaller_NoAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		mini, _ := redistest.Mini(t)
		opts, late := mini.Options(), new(atomic.Bool)
		opts.ContextTimeoutEnabled = true
		dial := opts.Dialer
		opts.Dialer = func(ctx context.Context, network, addr string) (net.Conn, error) {
			conn, err := dial(ctx, network, addr)
			return lateConn{conn, late}, err
		}
		rdb := redis.NewClient(opts)
		t.Cleanup(func() { _ = rdb.Close() })
		c := newCoordinator(t, rdb, Options{})
		mustDo(t, c, "42", room.Join{User: "a", Session: "s"})
		late.Store(true)
		const until = 10 * time.Millisecond
		ctx, cancel := context.WithTimeout(t.Context(), until)
		defer cancel()
		began := time.Now()
		_, err := c.Do(ctx, "42", room.Join{User: "b", Session: "s"})
		if took := time.Since(began); !errors.Is(err, room.ErrUnknown) || took > until+callerPatience {
			t.Errorf("after %v: %v", took, err)
		}
		late.Store(false)
		expectRoom(t, mustDo(t, c, "42", room.Join{User: "c", Session: "s"}).Snapshot, "a@0 b@1 c@2", 3)
	})
}

// The reply to a caller that serves itself is lost, in a room that was quiet for longer than a lock lasts: its commit is sent
// again.
func TestCaller_LostReply(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, rdb := redistest.Mini(t)
		c := newCoordinator(t, rdb, Options{})
		mustDo(t, c, "42", room.Join{User: "a", Session: "s"})
		time.Sleep(copyIdle / 2)
		rdb.AddHook(redistest.Hook{After: once(store.CommitScript, func() error { return io.ErrUnexpectedEOF })})
		redistest.Equal(t, "version", mustDo(t, c, "42", room.Join{User: "b", Session: "s"}).Version, 2)
	})
}

// Who has given up before does not act.
func TestCaller_Gone(t *testing.T) {
	_, rdb := redistest.Mini(t)
	c := newCoordinator(t, rdb, Options{})
	mustDo(t, c, "42", room.Join{User: "a", Session: "s"})
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := c.Do(ctx, "42", room.Join{User: "b", Session: "s"})
	redistest.ErrorIf(t, !errors.Is(err, context.Canceled), "an action whose context has ended: %v", err)
	redistest.Equal(t, "version", mustDo(t, c, "42", room.Join{User: "a", Session: "s"}).Version, 1)
}

// A panic on the way of an action ends the process, whatever the caller recovers from: nobody would serve the room any more.
func TestCaller_Panic(t *testing.T) {
	if os.Getenv("ROOMD_TEST_PANICS") != "" {
		_, rdb := redistest.Mini(t)
		calls := 0
		c := newCoordinator(t, rdb, Options{Trace: &Trace{Committed: func() {
			if calls++; calls > 1 {
				panic("of a game")
			}
		}}})
		mustDo(t, c, "42", room.Join{User: "a", Session: "s"})
		defer func() { _ = recover() }()
		_, _ = c.Do(t.Context(), "42", room.Join{User: "b", Session: "s"})
		return
	}
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	child := exec.CommandContext(ctx, os.Args[0], "-test.run=^TestCaller_Panic$")
	child.Env = append(os.Environ(), "ROOMD_TEST_PANICS=1")
	if out, err := child.CombinedOutput(); err == nil || !strings.Contains(string(out), "panic: of a game") {
		t.Errorf("the process ended with %v:\n%s", err, out)
	}
}
