package coordinator

import (
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"roomd/lockmgr/redistest"
	"roomd/room"
)

// Redis has the host. When the host's node dies the host stays the host for the grace; then another member is it in the
// same commit, and the last one to leave leaves no host behind.
func TestHost_NodeDies(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		mini, rdb := redistest.Mini(t)
		dead := newCoordinator(t, redistest.MiniClient(t, mini), Options{Node: "dead"})
		live := newCoordinator(t, redistest.MiniClient(t, mini), Options{Node: "live"})
		redistest.OK(t, live.Start(t.Context()))
		mustDo(t, dead, "42", room.Configure{Settings: room.Settings{Host: room.HostLongest}})
		for _, member := range []struct {
			node *Coordinator
			user string
		}{{dead, "a"}, {dead, "b"}, {live, "c"}, {live, "d"}} {
			mustDo(t, member.node, "42", room.Join{User: member.user, Session: "s"})
			time.Sleep(time.Second)
		}
		expect := func(want string) {
			t.Helper()
			fresh := newCoordinator(t, redistest.MiniClient(t, mini), Options{}) // knows what Redis has
			s := mustRead(t, fresh, "42")
			redistest.Equal(t, "the host by Redis is", s.Host(), want)
			redistest.Equal(t, "Redis holds", rdb.HGet(t.Context(), "Room:42:Meta", "host").Val(), fmt.Sprintf("%q", want))
		}
		expect("a")
		var events []*room.Event
		stop, err := live.Watch(t.Context(), "42", func(e *room.Event) { events = append(events, e) })
		redistest.OK(t, err)
		defer stop()
		die(dead)
		time.Sleep(DefaultNodeTTL + time.Second)
		expect("a")
		if err := second(live.Do(t.Context(), "42", room.Close{As: room.Claim{User: "c", Session: "s"}})); !errors.Is(err, room.ErrForbidden) {
			t.Error(err)
		}
		time.Sleep(DefaultGrace + DefaultNodeTTL)
		expect("c")
		if last := events[len(events)-1]; len(last.Changes) != 3 || last.Changes[2].Type != "host" || last.Changes[2].User != "c" {
			t.Errorf("the last event is %+v", last.Changes)
		}
		mustDo(t, live, "42", room.Kick{User: "d", As: room.Claim{User: "c", Session: "s"}})
		mustDo(t, live, "42", room.Leave{User: "c", Session: "s"})
		expect("")
	})
}
