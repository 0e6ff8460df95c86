package coordinator

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"roomd/lockmgr/redistest"
	"roomd/room"
	"roomd/room/coordinator/internal/store"
)

// A commit is acknowledged only when the replica has it. One that the replica does not get
// in time is unknown, never failed.
func TestReplicas_Acknowledge(t *testing.T) {
	t.Parallel() // it mostly waits
	primary := redistest.Start(t, "--repl-diskless-sync-delay", "0")
	host, port, _ := strings.Cut(primary.Addr(), ":")
	replica := redistest.Start(t, "--replicaof", host, port)
	rdb := primary.Client()
	replicated(t, rdb)
	rdb.AddHook(redistest.Hook{Before: func(_ context.Context, cmd redis.Cmder) error {
		if cmd.Name() == "wait" {
			ms := cmd.Args()[2].(int64)
			redistest.ErrorIf(t, ms >= 250, "a commit waits for %d ms, and is in doubt by then", ms)
		}
		return nil
	}})
	c := newCoordinator(t, rdb, Options{Replicas: 1, LockTTL: 2 * time.Second})
	mustDo(t, c, "42", room.Join{User: "a", Session: "s"})
	redistest.Equal(t, "the replica knows … members:", replica.Client().HLen(t.Context(), "Room:42:Users").Val(), 1)

	replica.Pause()
	written := make(chan struct{})
	stop, err := c.Watch(t.Context(), "42", func(*room.Event) { close(written) })
	redistest.OK(t, err)
	go func() { // in time
		<-written
		stop()
		replica.Resume()
	}()
	redistest.Equal(t, "version", mustDo(t, c, "42", room.Join{User: "b", Session: "s"}).Version, 2)
	redistest.Equal(t, "the replica knows … members:", replica.Client().HLen(t.Context(), "Room:42:Users").Val(), 2)

	replica.Kill()
	expectRefused(t, "without a replica", c, "42", room.Join{User: "c", Session: "s"}, room.ErrUnknown)
	expectRoom(t, mustRead(t, c, "42"), "a@0 b@1 c@2", 3)
}

// What WAIT says beside a sending that wrote nothing says nothing of the commit: here Redis is full, and refuses to
// let a leave wait; when it takes the next sending, the replica is silent.
func TestReplicas_RefusedFirst(t *testing.T) {
	t.Parallel() // it mostly waits
	primary := redistest.Start(t, "--repl-diskless-sync-delay", "0")
	host, port, _ := strings.Cut(primary.Addr(), ":")
	replica := redistest.Start(t, "--replicaof", host, port)
	rdb := primary.Client()
	replicated(t, rdb)
	c := newCoordinator(t, rdb, Options{Replicas: 1, LockTTL: time.Second})
	mustDo(t, c, "42", room.Join{User: "a", Session: "s"})
	redistest.OK(t, rdb.Set(t.Context(), "LockRoom:42", "42:x", time.Minute).Err())
	redistest.OK(t, rdb.ConfigSet(t.Context(), "maxmemory", "1").Err())
	sent := 0
	rdb.AddHook(aroundPipeline{do: func(ctx context.Context, cmds []redis.Cmder, next redis.ProcessPipelineHook) error {
		if !isScript(cmds[0], store.CommitScript) {
			return next(ctx, cmds)
		}
		if sent++; sent > 1 {
			cmds[1].Args()[2] = 1 // ms: else the reply may come too late to say anything
		}
		err := next(ctx, cmds)
		if sent == 1 {
			replica.Pause()
			rdb.Del(ctx, "LockRoom:42")
		}
		return err
	}})
	expectRefused(t, "a leave that no replica has", c, "42", room.Leave{User: "a", Session: "s"}, room.ErrUnknown)
	replica.Resume()
	s, _ := c.Read(t.Context(), "42")
	redistest.ErrorIf(t, sent < 2 || s.Count() != 0, "it was sent %d times, and the room holds %d", sent, s.Count())
}

// aroundPipeline has do carry out each pipeline, by next.
type aroundPipeline struct {
	redistest.Hook
	do func(ctx context.Context, cmds []redis.Cmder, next redis.ProcessPipelineHook) error
}

func (h aroundPipeline) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error { return h.do(ctx, cmds, next) }
}

// A server that forgets its scripts again and again, on the connection that waits and on others.
func TestAcks_ScriptFlush(t *testing.T) {
	t.Parallel() // it mostly waits
	for _, replicas := range []int{0, 1} {
		t.Run(fmt.Sprint(replicas), func(t *testing.T) {
			server := redistest.Start(t)
			rdb := server.Client()
			c := newCoordinator(t, rdb, Options{LockTTL: time.Second, Replicas: replicas})
			admin := server.Client()
			var flushes [2]atomic.Int32 // of each script
			rdb.AddHook(redistest.Hook{Before: func(ctx context.Context, cmd redis.Cmder) error {
				for i, script := range []*store.Script{store.CommitScript, store.LoadScript} {
					if isScript(cmd, script) && flushes[i].Add(1) <= 3 {
						return admin.ScriptFlush(ctx).Err()
					}
				}
				return nil
			}})
			if _, err := c.Do(soon(t), "42", room.Join{User: "a", Session: "s"}); replicas == 0 && err != nil || replicas > 0 && !errors.Is(err, room.ErrUnknown) {
				t.Errorf("join: %v", err)
			}
			s, err := c.Read(t.Context(), "42")
			redistest.ErrorIf(t, err != nil || s.Count() != 1, "the room holds %d: %v", s.Count(), err)
		})
	}
}

// Without a replica, an action that changes something is unknown after a TTL. A refused one
// changes nothing and is answered; but nobody hears "you are in", or that a room has the
// settings, if that may be lost with the server. Close does not wait for replicas, and ends the lease.
func TestReplicas_None(t *testing.T) {
	t.Parallel() // it mostly waits
	server := redistest.Start(t)
	rdb := server.Client()
	rules := room.Rules{Seating: room.Capacity(2)}
	plain := newCoordinator(t, server.Client(), Options{Rules: rules})
	mustDo(t, plain, "42", room.Join{User: "a", Session: "s"})
	c := newCoordinator(t, rdb, Options{Replicas: 1, LockTTL: 300 * time.Millisecond, Rules: rules})
	for _, test := range []struct {
		what   string
		action room.Action
		want   error
	}{
		{"a member of whom it is not known", room.Join{User: "a", Session: "s"}, room.ErrUnknown},
		{"join", room.Join{User: "b", Session: "s"}, room.ErrUnknown},
		{"room full", room.Join{User: "c", Session: "s"}, room.ErrFull},
		{"not a member", room.Leave{User: "c", Session: "s"}, room.ErrNotMember},
		{"another session", room.Leave{User: "b", Session: "t"}, room.ErrNotMember},
		{"join again", room.Join{User: "b", Session: "s"}, room.ErrUnknown},
		{"seats of members", room.Reserve{Session: "~s", Users: []string{"b"}}, room.ErrUnknown},
		{"settings", room.Configure{Settings: room.Settings{Capacity: 2}}, room.ErrUnknown},
		{"the same settings", room.Configure{Settings: room.Settings{Capacity: 2}}, room.ErrUnknown},
		{"leave", room.Leave{User: "b", Session: "s"}, room.ErrUnknown},
		{"leave again", room.Leave{User: "b", Session: "s"}, room.ErrNotMember},
	} {
		if _, err := c.Do(soon(t), "42", test.action); !errors.Is(err, test.want) {
			t.Fatalf("%s: %v, want %v", test.what, err, test.want)
		}
	}
	last := make(chan error, 1)
	go func() { last <- second(c.Do(t.Context(), "42", room.Join{User: "d", Session: "s"})) }()
	for ctx := soon(t); ; {
		s, err := plain.Read(ctx, "42")
		redistest.FatalIf(t, err != nil, "the last join is not written: %v", err)
		if has(s.Users(), "d") {
			break
		}
	}
	redistest.OK(t, c.Close(soon(t)))
	redistest.ErrorIs(t, "the last join", redistest.Receive(t, last, "the last join"), room.ErrUnknown)
	redistest.Equal(t, "the lease is left:", rdb.Exists(t.Context(), unprefixed.Lease(c.Node())).Val(), 0)
}

// A repeated join is answered without a version of its own once the replicas are known
// to have the room as it is.
func TestAcks_JoinAgain(t *testing.T) {
	t.Parallel() // it mostly waits
	primary := redistest.Start(t, "--repl-diskless-sync-delay", "0")
	host, port, _ := strings.Cut(primary.Addr(), ":")
	replica := redistest.Start(t, "--replicaof", host, port)
	replicated(t, primary.Client())
	c := newCoordinator(t, primary.Client(), Options{Replicas: 1})
	mustDo(t, newCoordinator(t, primary.Client(), Options{}), "42", room.Join{User: "a", Session: "s"})
	if r := mustDo(t, c, "42", room.Join{User: "a", Session: "s"}); r.Version != 2 { // the node is another one, too
		t.Errorf("the first time it is version %d", r.Version)
	}
	replica.Kill()
	redistest.Equal(t, "version", mustDo(t, c, "42", room.Join{User: "a", Session: "s"}).Version, 2)
}

// replicated waits until a server has a replica.
func replicated(t *testing.T, rdb *redis.Client) {
	t.Helper()
	for ctx := soon(t); ; {
		n, err := rdb.Do(ctx, "WAIT", 1, 1000).Int()
		redistest.FatalIf(t, err != nil, "there is no replica: %v", err)
		if n > 0 {
			return
		}
	}
}
