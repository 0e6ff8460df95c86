package room

import (
	"errors"
	"testing"
	"time"

	"roomd/lockmgr/redistest"
)

// Redis is away when somebody begins to watch, and when a copy begins to be
// followed. The first hears so; the second is brought up to date when Redis is back.
func TestFollowComesToLifeWithRedis(t *testing.T) {
	server := redistest.Start(t)
	a := newCoordinator(t, server.Client(), Options{})
	server.Kill()
	told := make(chan *Event, 100)
	defer a.feeds.follow("42", func(e *Event) { told <- e })()
	for range 2 { // the second shares its feed with who follows
		if _, err := a.Watch(t.Context(), "42", func(*Event) {}); !errors.Is(err, ErrUnavailable) {
			t.Errorf("watch without Redis: %v", err)
		}
	}
	server.Restart()
	next := func() *Event {
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
	mustDo(t, b, "42", Join("张三", "s"))
	if e := next(); e.Version != 1 {
		t.Errorf("told %+v", e)
	}
}
