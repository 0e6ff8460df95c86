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
	primary := redistest.Start(t)
	host, port, _ := strings.Cut(primary.Addr(), ":")
	replica := redistest.Start(t, "--replicaof", host, port)
	rdb := primary.Client()
	for n := 0; n == 0; {
		var err error
		if n, err = rdb.Do(t.Context(), "WAIT", 1, 1000).Int(); err != nil {
			t.Fatal(err)
		}
	}
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
