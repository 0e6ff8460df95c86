package room

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"roomd/lockmgr/redistest"
)

// Only what the replica has is acknowledged. What it does not have yet is looked
// after, and in the end unknown, never failed.
func TestAcknowledgedByAReplica(t *testing.T) {
	primary := redistest.Start(t, "--repl-diskless-sync-delay", "0")
	host, port, _ := strings.Cut(primary.Addr(), ":")
	replica := redistest.Start(t, "--replicaof", host, port)
	rdb := primary.Client()
	replicated(t, rdb)
	c := newCoordinator(t, rdb, Options{Replicas: 1, LockTTL: 2 * time.Second})
	mustDo(t, c, "42", Join("a", "s"))
	if n := replica.Client().HLen(t.Context(), "Room:42:Users").Val(); n != 1 {
		t.Errorf("the replica knows %d members", n)
	}

	replica.Pause()
	written := make(chan struct{})
	stop, err := c.Watch(t.Context(), "42", func(*Event) { close(written) })
	if err != nil {
		t.Fatal(err)
	}
	go func() { // in time
		<-written
		stop()
		replica.Resume()
	}()
	if r := mustDo(t, c, "42", Join("b", "s")); r.Version != 2 {
		t.Errorf("version %d", r.Version)
	}
	if n := replica.Client().HLen(t.Context(), "Room:42:Users").Val(); n != 2 {
		t.Errorf("the replica knows %d members", n)
	}

	replica.Kill()
	if _, err := c.Do(t.Context(), "42", Join("c", "s")); !errors.Is(err, ErrUnknown) {
		t.Errorf("without a replica: %v", err)
	}
	if s, _ := c.Read(t.Context(), "42"); describeUsers(s.Users()) != "a@0 b@1 c@2" || s.Version != 3 {
		t.Errorf("the room holds %s at version %d", describeUsers(s.Users()), s.Version)
	}
}

// A script that the server does not know, on the connection that waits.
func TestAcknowledgedAfterScriptFlush(t *testing.T) {
	rdb := redistest.Start(t).Client()
	c := newCoordinator(t, rdb, Options{LockTTL: time.Second, Replicas: 1})
	flushed := false
	rdb.AddHook(redistest.Hook{Before: func(ctx context.Context, cmd redis.Cmder) error {
		if isScript(cmd, commitScript) && !flushed {
			flushed = true
			return rdb.ScriptFlush(ctx).Err()
		}
		return nil
	}})
	if _, err := c.Do(t.Context(), "42", Join("a", "s")); !errors.Is(err, ErrUnknown) {
		t.Errorf("join: %v", err)
	}
	if s, _ := c.Read(t.Context(), "42"); s.Count() != 1 {
		t.Errorf("the room holds %d", s.Count())
	}
}

// No replica is there. What changes something is unknown after a TTL. What is refused,
// and so changes nothing, is answered all the same; but nobody is told to be in who may
// be lost with the server. Close does not wait for replicas, and ends the lease.
func TestNoReplica(t *testing.T) {
	for _, elide := range []bool{false, true} {
		server := redistest.Start(t)
		rdb := server.Client()
		plain := newCoordinator(t, server.Client(), Options{})
		mustDo(t, plain, "42", Join("a", "s"))
		c := newCoordinator(t, rdb, Options{Replicas: 1, LockTTL: 300 * time.Millisecond, Rules: Rules{Capacity: 2}, ElideLock: elide})
		for _, test := range []struct {
			what   string
			action Action
			want   error
		}{
			{"a member of whom it is not known", Join("a", "s"), ErrUnknown},
			{"join", Join("b", "s"), ErrUnknown},
			{"room full", Join("c", "s"), ErrFull},
			{"not a member", Leave("c", "s"), ErrNotMember},
			{"another session", Leave("b", "t"), ErrNotMember},
			{"join again", Join("b", "s"), ErrUnknown},
			{"leave", Leave("b", "s"), ErrUnknown},
			{"leave again", Leave("b", "s"), ErrNotMember},
		} {
			if _, err := c.Do(soon(t), "42", test.action); !errors.Is(err, test.want) {
				t.Fatalf("elide %v, %s: %v, want %v", elide, test.what, err, test.want)
			}
		}
		last := make(chan error, 1)
		go func() { last <- second(c.Do(t.Context(), "42", Join("d", "s"))) }()
		for ctx := soon(t); ; {
			s, err := plain.Read(ctx, "42")
			if err != nil {
				t.Fatalf("the last join is not written: %v", err)
			}
			if has(s.Users(), "d") {
				break
			}
		}
		if err := c.Close(soon(t)); err != nil {
			t.Errorf("close: %v", err)
		}
		if err := await(t, last, "the last join"); !errors.Is(err, ErrUnknown) {
			t.Errorf("the last join: %v", err)
		}
		if n := rdb.Exists(t.Context(), nodeKey(c.Node())).Val(); n != 0 {
			t.Error("the lease is left")
		}
	}
}

// A repeated join is answered without a version of its own once the replicas are known
// to have the room as it is.
func TestJoiningAgainIsAcknowledged(t *testing.T) {
	primary := redistest.Start(t, "--repl-diskless-sync-delay", "0")
	host, port, _ := strings.Cut(primary.Addr(), ":")
	replica := redistest.Start(t, "--replicaof", host, port)
	replicated(t, primary.Client())
	c := newCoordinator(t, primary.Client(), Options{Replicas: 1})
	mustDo(t, newCoordinator(t, primary.Client(), Options{}), "42", Join("a", "s"))
	if r := mustDo(t, c, "42", Join("a", "s")); r.Version != 2 { // the node is another one, too
		t.Errorf("the first time it is version %d", r.Version)
	}
	replica.Kill()
	if r := mustDo(t, c, "42", Join("a", "s")); r.Version != 2 {
		t.Errorf("the second time it is version %d", r.Version)
	}
}

// replicated waits until a server has a replica.
func replicated(t *testing.T, rdb *redis.Client) {
	t.Helper()
	for ctx := soon(t); ; {
		n, err := rdb.Do(ctx, "WAIT", 1, 1000).Int()
		if err != nil {
			t.Fatalf("there is no replica: %v", err)
		}
		if n > 0 {
			return
		}
	}
}
