package work

import (
	"context"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"

	"roomd/lockmgr"
	"roomd/lockmgr/redisconn/pubsub"
	"roomd/lockmgr/redistest"
	"roomd/room"
	"roomd/room/coordinator/internal/cluster"
	"roomd/room/coordinator/internal/nodes"
	"roomd/room/coordinator/internal/store"
	"roomd/room/ratelog"
)

// newPool returns a Pool of a node of that name, and what ends its open.
func newPool(t *testing.T, rdb *redis.Client, name string) (*Pool, func()) {
	log, ttl := slog.New(slog.DiscardHandler), 3*time.Second
	st, hub, logs := store.New(rdb, store.Options{LockTTL: ttl}), pubsub.New(rdb, func(error) {}), ratelog.NewSet(log, time.Minute)
	locks, err := lockmgr.New(rdb, lockmgr.Options{Prefix: st.LockPrefix(), TTL: ttl, Hub: hub, Load: st.Servers.Load})
	redistest.OK(t, err)
	open, shut := context.WithCancel(t.Context())
	life, kill := context.WithCancel(t.Context())
	p := New(open, life, hub, locks, st, Options{
		LockTTL: ttl, LockPoll: lockmgr.DefaultPoll, LockWait: time.Minute, MaxBatch: 2, MaxCopies: 100, Trace: new(nodes.Trace),
		Node: cluster.Options{Name: name, Settings: cluster.Settings{LockTTL: ttl, NodeTTL: time.Minute}, Log: log},
	}, logs)
	t.Cleanup(func() {
		p.Refuse()
		shut()
		p.Node.Wait()
		p.Close()
		kill()
		redistest.OK(t, p.Node.End(context.Background()))
		p.Timers.Close()
		p.Relay.Close()
		p.Lobby.Close()
		locks.Close()
		p.Feeds.Close()
		logs.Close()
	})
	return p, shut
}

func join(t *testing.T, p *Pool, user string) {
	_, err := p.Run(t.Context(), "42", room.Join{User: user, Session: "s"})
	redistest.OK(t, err)
}

// A worker that has missed the event of a commit reads the room on a conflict until an event has come.
func TestConflicts_EventsLost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		mini, rdb := redistest.Mini(t)
		p, _ := newPool(t, rdb, "n")
		other, _ := newPool(t, redistest.MiniClient(t, mini), "m")
		join(t, p, "a")
		w := p.byRoom["42"]
		p.Feeds.Follow(&w.copy, "42")
		synctest.Wait()
		w.copy.Use()
		w.conflicts.eventsLost = true
		join(t, other, "b")
		synctest.Wait()
		for _, lost := range []bool{false, true} {
			now, err := p.store.Load(t.Context(), "42")
			redistest.OK(t, err)
			w.conflict(now)
			redistest.Equal(t, "events are lost", w.conflicts.eventsLost, lost)
			w.copy.CatchUp()
			w.conflicts.eventsLost = true
		}
		w.copy.Release()
	})
}

// A place that was kept in vain is not kept again before it would have been of use.
func TestLookahead_Pays(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var p lookahead
		p.holdEnded()
		time.Sleep(time.Millisecond)
		if p.missing(); p.pays {
			t.Error("it pays, though nobody has ever waited")
		}
		time.Sleep(10 * time.Millisecond)
		p.granted()
		for _, test := range []struct {
			gap  time.Duration
			pays bool
		}{{10 * time.Millisecond, true}, {11 * time.Millisecond, false}, {0, true}} {
			p.holdEnded()
			time.Sleep(test.gap)
			if p.missing(); p.pays != test.pays {
				t.Errorf("after %v it pays: %v", test.gap, p.pays)
			}
			time.Sleep(10 * time.Millisecond)
			p.granted()
		}
	})
}

// A place is given up when nothing comes for a while, and at once when the coordinator is
// closed.
func TestLookahead_GivenUp(t *testing.T) {
	for _, closed := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			_, rdb := redistest.Mini(t)
			p, shut := newPool(t, rdb, "n")
			join(t, p, "a")
			rdb.Set(t.Context(), "LockRoom:42", "another's", time.Minute)
			d := p.byRoom["42"]
			d.lookahead = lookahead{pays: true, waited: 20 * time.Millisecond}
			done := make(chan struct{})
			start := time.Now()
			go func() { d.waitAhead(); close(done) }()
			synctest.Wait()
			want := 40 * time.Millisecond
			if closed {
				want = 0
				shut()
			}
			redistest.Receive(t, done, "its end")
			if took := time.Since(start); took != want || d.status.holds() || d.lookahead.pays {
				t.Errorf("closed %v: after %v, turn %v, pays %v", closed, took, d.status, d.lookahead.pays)
			}
		})
	}
}
