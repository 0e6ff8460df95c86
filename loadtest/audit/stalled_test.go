package audit

import (
	"context"
	"io"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"

	"roomd/lockmgr/redistest"
	"roomd/room"
	"roomd/room/coordinator"
)

// A node stands still for so long that its members are removed, and the room is closed before it goes
// on. Its session joins again, which is no finding. An ordinary join is.
func TestAudit_StalledNodesMemberInClosedRoom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		mini, rdb := redistest.Mini(t)
		var stands atomic.Bool
		client := redistest.MiniClient(t, mini)
		client.AddHook(redistest.Hook{Before: func(context.Context, redis.Cmder) error {
			if stands.Load() {
				return io.ErrUnexpectedEOF
			}
			return nil
		}})
		stalled, other := newNode(t, client, 100), newNode(t, rdb, 100)
		do(t, stalled, "42", room.Join{User: "a", Session: "s1"})
		do(t, other, "42", room.Join{User: "b", Session: "s2"})
		stands.Store(true)
		time.Sleep(2*coordinator.DefaultNodeTTL + coordinator.DefaultGrace)
		do(t, other, "42", room.Configure{Settings: room.Settings{Capacity: 6, Closed: true}})
		if s, err := other.Read(t.Context(), "42"); err != nil || s.Count() != 1 {
			t.Fatalf("%+v, %v", s.Users(), err)
		}
		stands.Store(false)
		do(t, stalled, "42", room.Join{User: "a", Session: "s1", Mode: room.JoinAgain})
		do(t, other, "42", room.Leave{User: "b", Session: "s2"})
		if r := mustRun(t, rdb, Config{}); !r.Clean() || r.Commits < 6 || r.Epochs != 0 {
			_ = r.WriteFindings(t.Output())
			t.Errorf("%+v", *r)
		}
	})
}
