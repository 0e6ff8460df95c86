package coordinator

import (
	"testing"
	"testing/synctest"
	"time"

	"roomd/lockmgr/redistest"
	"roomd/room"
	"roomd/room/coordinator/internal/cluster"
)

// The request that began a lease arrives once more when the lease was ended. Others rely on that: the name does
// not live again.
func TestLease_LateBeginning(t *testing.T) {
	const gone = 2*DefaultNodeTTL + DefaultGrace
	for name, test := range map[string]struct {
		end   func(*Coordinator)
		after time.Duration
	}{"by others": {die, gone}, "by the node": {stop, 0}} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				mini, rdb := redistest.Mini(t)
				warmAll(t, rdb)
				client := redistest.MiniClient(t, mini)
				ended := newCoordinator(t, client, Options{Node: "ended"})
				other := newCoordinator(t, redistest.MiniClient(t, mini), Options{})
				redistest.OK(t, other.Start(t.Context()))
				begins := keepBack(client, rdb, cluster.LeaseScript, "")
				redistest.ErrorIs(t, "it starts without a lease", ended.Start(t.Context()), room.ErrUnavailable)
				begins.pass()
				mustDo(t, ended, "42", room.Join{User: "a", Session: "s"})
				test.end(ended)
				time.Sleep(test.after)
				begins.arrive(t)
				redistest.ErrorIf(t, rdb.Exists(t.Context(), unprefixed.Lease("ended")).Val() != 0, "it lives again")
				time.Sleep(gone)
				noOtherNodes(t, rdb, other)
				if s, err := other.Read(t.Context(), "42"); err != nil || s.Count() != 0 {
					t.Errorf("the room holds %s, %v", describeUsers(s.Users()), err)
				}
			})
		})
	}
}

// The reply to the request that began a node's first lease was lost, and others have ended that lease since. The
// node takes another name.
func TestLease_FirstWasEnded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		mini, rdb := redistest.Mini(t)
		warmAll(t, rdb)
		client := redistest.MiniClient(t, mini)
		c := newCoordinator(t, client, Options{Node: "first"})
		other := newCoordinator(t, redistest.MiniClient(t, mini), Options{})
		redistest.OK(t, other.Start(t.Context()))
		begins := keepBack(client, rdb, cluster.LeaseScript, "")
		redistest.ErrorIs(t, "it starts without a reply", c.Start(t.Context()), room.ErrUnavailable)
		begins.arrive(t)
		time.Sleep(2*DefaultNodeTTL + DefaultGrace)
		mustDo(t, c, "42", room.Join{User: "a", Session: "s"})
		redistest.ErrorIf(t, c.Node() == "first", "it has a name that was ended")
		noOtherNodes(t, rdb, c, other)
	})
}
