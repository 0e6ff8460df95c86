package transport

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"roomd/room"
	"roomd/room/coordinator"
)

// sizedRooms answers reads. The room with the id 9 has nine members; the room 9s, too, and
// takes nine seconds.
type sizedRooms struct{ Rooms }

func (sizedRooms) AnswerFor(func(room, session string) bool) {}

func (sizedRooms) Match(context.Context, coordinator.Wanted, func(context.Context, string, *room.Settings) (room.Result, error)) error {
	return room.ErrUnavailable
}

func (sizedRooms) Now() int64 { return 0 }

func (sizedRooms) Kept(context.Context, string, int) (room.Kept, error) { return room.Kept{}, nil }

func (sizedRooms) Ping(context.Context) error { return nil }

func (sizedRooms) Read(_ context.Context, id string) (room.Snapshot, error) {
	if id == "panic" {
		panic("on purpose")
	}
	n, unit := 0, ""
	fmt.Sscanf(id, "%d%s", &n, &unit)
	if unit == "s" {
		time.Sleep(time.Duration(n) * time.Second)
	}
	members := make(map[string]room.Member)
	for seat := range n {
		members[fmt.Sprint("player-", seat)] = room.Member{Seat: seat}
	}
	return room.NewRoom(id, room.Position{Epoch: "e", Version: 1}, members).Snapshot(), nil
}

// hookedRooms lets a test decide how an action ends. It calls before, if set, for each action,
// and an error of before is the action's; it calls after when the action is done, before its
// caller knows. It calls reading, if set, before each read, and keeping before and after it reads what a room has kept: an error
// is that of the read.
type hookedRooms struct {
	Rooms
	reading     func(ctx context.Context, id string) error
	watching    func(id string) // called before a subscription begins
	keeping     func(before bool) error
	move        func(ctx context.Context, to, session string, users []string) error
	mu          sync.Mutex
	before      func(ctx context.Context, a room.Action) error // guarded by mu
	after       func(a room.Action)                            // guarded by mu
	unreachable atomic.Bool                                    // Redis answers no subscription and no ping
}

func (r *hookedRooms) Move(ctx context.Context, from, to, session string, users ...string) (left, joined room.Result, err error) {
	if r.move != nil {
		return left, joined, r.move(ctx, to, session, users)
	}
	return r.Rooms.Move(ctx, from, to, session, users...)
}

func (r *hookedRooms) Ping(ctx context.Context) error {
	if r.unreachable.Load() {
		return room.ErrUnavailable
	}
	return r.Rooms.Ping(ctx)
}

func (r *hookedRooms) Ready(ctx context.Context) error {
	if r.unreachable.Load() {
		return room.ErrUnavailable
	}
	return r.Rooms.Ready(ctx)
}

func (r *hookedRooms) Watch(ctx context.Context, id string, fn func(*room.Event)) (func(), error) {
	if r.unreachable.Load() {
		<-ctx.Done()
		return nil, context.Cause(ctx)
	}
	if r.watching != nil {
		r.watching(id)
	}
	return r.Rooms.Watch(ctx, id, fn)
}

func (r *hookedRooms) Read(ctx context.Context, id string) (room.Snapshot, error) {
	if r.reading != nil {
		if err := r.reading(ctx, id); err != nil {
			return room.Snapshot{}, err
		}
	}
	return r.Rooms.Read(ctx, id)
}

func (r *hookedRooms) Kept(ctx context.Context, id string, most int) (kept room.Kept, err error) {
	if r.keeping == nil {
		return r.Rooms.Kept(ctx, id, most)
	}
	if err = r.keeping(true); err == nil {
		kept, err = r.Rooms.Kept(ctx, id, most)
	}
	if err == nil {
		err = r.keeping(false)
	}
	return kept, err
}

func (r *hookedRooms) setBefore(before func(ctx context.Context, a room.Action) error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.before = before
}

// failing lets every action fail with err until heal is called, and counts the attempts.
func (r *hookedRooms) failing(err error) (attempts *atomic.Int64, heal func()) {
	attempts, healed := new(atomic.Int64), new(atomic.Bool)
	r.setBefore(func(context.Context, room.Action) error {
		attempts.Add(1)
		if healed.Load() {
			return nil
		}
		return fmt.Errorf("for now: %w", err)
	})
	return attempts, func() { healed.Store(true) }
}

// setAfter sets after.
func (r *hookedRooms) setAfter(after func(a room.Action)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.after = after
}

// holdNext has the next action wait until goOn is closed. entered is closed when it waits.
func (r *hookedRooms) holdNext() (entered, goOn chan struct{}) {
	entered, goOn = make(chan struct{}), make(chan struct{})
	r.setBefore(func(context.Context, room.Action) error {
		r.setBefore(nil)
		close(entered)
		<-goOn
		return nil
	})
	return entered, goOn
}

func (r *hookedRooms) Do(ctx context.Context, id string, a room.Action) (room.Result, error) {
	r.mu.Lock()
	before, after := r.before, r.after
	r.mu.Unlock()
	if before != nil {
		if err := before(ctx, a); err != nil {
			return room.Result{}, err
		}
	}
	if after != nil {
		defer after(a)
	}
	return r.Rooms.Do(ctx, id, a)
}

// removeAOnce removes a from room 42 through the other node when the next action is done, and
// waits until that was announced.
func (r *hookedRooms) removeAOnce(t *testing.T, first, second *testNode) {
	r.setAfter(func(room.Action) {
		r.setAfter(nil)
		time.Sleep(time.Millisecond) // so that the action's event is sent alone
		removeA(t, first, second)
		time.Sleep(time.Second)
	})
}
