package coordinator

import (
	"testing"
	"testing/synctest"
	"time"

	"roomd/lockmgr/redistest"
	"roomd/room"
)

// What changes nothing needs no lock: a refusal is answered while another has it, by the room as it is.
func TestCommit_RefusalWithoutLock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		mini, rdb := redistest.Mini(t)
		c, other := newCoordinator(t, redistest.MiniClient(t, mini), Options{}), newCoordinator(t, redistest.MiniClient(t, mini), Options{})
		for _, r := range []*Coordinator{other, c} {
			mustDo(t, r, "42", room.Join{User: "a", Session: "s"})
		}
		rdb.Set(t.Context(), "LockRoom:42", "of the article", time.Minute)
		start := time.Now()
		_, err := c.Do(t.Context(), "42", room.Leave{User: "b", Session: "s"})
		redistest.ErrorIf(t, err == nil || time.Since(start) > 0, "%v after %v", err, time.Since(start))
	})
}
