package coordinator

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"roomd/lockmgr/redistest"
	"roomd/room"
)

// Under Reject a session stays only as long as its node is believed to be alive: when the
// node was killed, or closed, its lease is over, and the user's next session has the seat.
func TestDo_RejectSparesNoDeadSession(t *testing.T) {
	for name, end := range map[string]struct {
		by   func(*Coordinator)
		dead time.Duration // until its lease is over
	}{
		"killed": {die, DefaultNodeTTL},
		"closed": {func(c *Coordinator) { _ = c.Close(context.Background()) }, 0},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				mini, _ := redistest.Mini(t)
				rules := room.Rules{Duplicate: room.Reject, Seating: room.Capacity(2)}
				gone := newCoordinator(t, redistest.MiniClient(t, mini), Options{Rules: rules})
				c := newCoordinator(t, redistest.MiniClient(t, mini), Options{Rules: rules})
				mustDo(t, c, "42", room.Join{User: "b", Session: "s"})
				first := mustDo(t, gone, "42", room.Join{User: "a", Session: "old"})
				expectRefused(t, "while its node lives", c, "42", room.Join{User: "a", Session: "new"}, room.ErrDuplicate)
				end.by(gone)
				if end.dead > 0 {
					expectRefused(t, "before its lease is over", c, "42", room.Join{User: "a", Session: "new"}, room.ErrDuplicate)
					time.Sleep(end.dead)
				}
				expectRefused(t, "a session that comes back unasked", c, "42", room.Join{User: "a", Session: "older", Mode: room.JoinAgain}, room.ErrDuplicate)
				r := mustDo(t, c, "42", room.Join{User: "a", Session: "new"})
				redistest.ErrorIf(t, r.Seat != first.Seat, "on seat %d instead of %d", r.Seat, first.Seat)
				time.Sleep(DefaultNodeTTL + DefaultGrace + DefaultNodeTTL)
				expectRoom(t, mustRead(t, c, "42"), "b@0 a@1", 0)
			})
		})
	}
}
