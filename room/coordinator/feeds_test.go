package coordinator

import (
	"errors"
	"testing"
	"time"

	"roomd/lockmgr/redistest"
	"roomd/room"
)

// Redis is away when a watch and a follow begin. The watch fails; the follow gets a snapshot
// when Redis is back.
func TestFollowComesToLifeWithRedis(t *testing.T) {
	server := redistest.Start(t)
	a := newCoordinator(t, server.Client(), Options{})
	server.Kill()
	told := make(chan *room.Event, 100)
	defer a.feeds.follow("42", func(e *room.Event) { told <- e })()
	for range 2 { // the second shares its feed with who follows
		if _, err := a.Watch(t.Context(), "42", func(*room.Event) {}); !errors.Is(err, room.ErrUnavailable) {
			t.Errorf("watch without Redis: %v", err)
		}
	}
	server.Restart()
	next := func() *room.Event {
		select {
		case e := <-told:
			return e
		case <-time.After(10 * time.Second):
			t.Fatal("waited 10s for an event")
			return nil
		}
	}
	if e := next(); e.Snapshot == nil {
		t.Errorf("told %+v, want a snapshot", e)
	}
	b := newCoordinator(t, server.Client(), Options{})
	mustDo(t, b, "42", room.Join("张三", "s"))
	if e := next(); e.Version != 1 {
		t.Errorf("told %+v", e)
	}
}
