package coordinator

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"roomd/lockmgr/redistest"
	"roomd/room"
	"roomd/room/coordinator/internal/store"
)

// A request for the room's lock is sent twice. The first copy arrives when the hold is over and
// its commit was answered "lost", and after it a copy of that commit: it writes nothing, so the
// batch is applied once.
func TestAcquire_LateTakeRevivesNoCommit(t *testing.T) {
	server := redistest.Start(t)
	plain := server.Client()
	proxy := redistest.StartProxy(t, server.Addr())
	client := redis.NewClient(&redis.Options{Addr: proxy.Addr(), ContextTimeoutEnabled: true, ReadTimeout: 100 * time.Millisecond})
	defer client.Close()
	late := proxy.HoldBack(func(args []string) bool {
		if len(args) < 4 || args[3] != "LockRoom:42" {
			return false
		}
		_, is := store.AcquireScript.Is(args[1])
		return is
	})
	var commit []any
	answered := false
	client.AddHook(redistest.Hook{
		Before: func(ctx context.Context, cmd redis.Cmder) error {
			if isScript(cmd, store.CommitScript) && commit == nil {
				commit = slices.Clone(cmd.Args())
				return plain.Del(ctx, "LockRoom:42").Err() // its time is over
			}
			return nil
		},
		After: func(ctx context.Context, cmd redis.Cmder) error {
			if !isScript(cmd, store.CommitScript) || answered {
				return nil
			}
			answered = true
			if reply, err := cmd.(*redis.Cmd).Slice(); err != nil || reply[0] != "lost" {
				t.Errorf("without the lock the commit was answered %v, %v", reply, err)
			}
			late.Deliver()
			if reply, err := plain.Do(ctx, commit...).Slice(); err != nil || reply[0] != "lost" {
				t.Errorf("the late copy of the commit was answered %v, %v", reply, err)
			}
			redistest.Equal(t, "the lock holds", plain.Get(ctx, "LockRoom:42").Val(), "")
			return nil
		},
	})
	warmUp(t, plain, store.AcquireScript, store.CommitScript)
	c := newCoordinator(t, client, Options{LockTTL: time.Minute})
	r := mustDo(t, c, "42", room.Join{User: "a", Session: "s"})
	redistest.ErrorIf(t, r.Version != 1 || !answered, "the batch was applied %d times", r.Version)
}
