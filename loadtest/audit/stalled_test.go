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

// Nodes stand still for longer than their members' grace, and Redis comes back from an old copy, again and
// again. Whatever correct nodes write then is no finding.
func TestAudit_Failures(t *testing.T) {
	redistest.Thorough(t)
	server := redistest.Start(t)
	opts := coordinator.Options{Journal: 1_000_000, LockTTL: 300 * time.Millisecond, NodeTTL: 300 * time.Millisecond, Grace: 50 * time.Millisecond}
	steady, proxy := server.Client(), redistest.StartProxy(t, server.Addr())
	nodes := []*coordinator.Coordinator{newNodeWith(t, server.Client(), opts), newNodeWith(t, proxy.Client(), opts)}
	var stop atomic.Bool
	wait := play(t, nodes, 3, true, &stop)
	audit := func(when string) *Report {
		t.Helper()
		r := mustRun(t, steady, Config{page: 100})
		if !r.Clean() {
			_ = r.WriteFindings(t.Output())
			t.Errorf("%s: %+v", when, r.Rules)
		}
		return r
	}
	goOn := func(when string) {
		t.Helper()
		enough := audit(when).Commits + 200
		redistest.Until(t, "there are 200 more commits "+when, func() bool { return audit(when).Commits >= enough })
	}
	for range 2 {
		goOn("at work")
		do(t, nodes[1], "stalled", room.Join{User: "z", Session: "s"})
		proxy.Pause()
		redistest.Until(t, "the members of a node that stands still are removed", func() bool {
			s, err := nodes[0].Read(soon(t), "stalled")
			return err == nil && s.Count() == 0
		})
		do(t, nodes[0], "stalled", room.Configure{Settings: room.Settings{Closed: true}})
		proxy.Resume()
		do(t, nodes[1], "stalled", room.Join{User: "z", Session: "s", Mode: room.JoinAgain})
		do(t, nodes[0], "stalled", room.Configure{Settings: room.Settings{}})
		goOn("when it goes on")
		redistest.OK(t, steady.Save(t.Context()).Err())
		goOn("after a copy")
		server.Kill()
		server.Restart()
		goOn("with the old copy")
	}
	stop.Store(true)
	wait()
	if r := audit("at the end"); r.Epochs < 2 || r.Lost != 0 {
		t.Errorf("%+v", *r)
	}
}
