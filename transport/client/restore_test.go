package client

import (
	"roomd/lockmgr/redistest"
	"testing"
	"testing/synctest"
	"time"
)

// After a reconnect the list counts, also if it has the same version: a failover may have changed what is in it.
func TestReconnect_SameVersion(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := newCast(t, joined((*server).cut), func(s *server) {
			s.list(s.expect("join 42@0!1"), 1, "a", "b")
			s.drain()
		})
		client := c.connect(c.config())
		r := client.mustJoin(t, "42")
		all := read(r)
		time.Sleep(time.Minute)
		synctest.Wait()
		redistest.ErrorIf(t, len(r.View().Users) != 2, "%+v", r.View())
		client.Close()
		wantRead(t, all, "snapshot  1", "snapshot  1")
	})
}
