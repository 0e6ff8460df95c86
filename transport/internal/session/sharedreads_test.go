package session

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"roomd/lockmgr/redistest"
	"roomd/room"
)

// slowRooms takes a second for a read. The n-th read has version n.
type slowRooms struct {
	Rooms
	begun, running atomic.Int64
}

func (r *slowRooms) Read(ctx context.Context, id string) (room.Snapshot, error) {
	n := r.begun.Add(1)
	if r.running.Add(1) > 1 {
		return room.Snapshot{}, fmt.Errorf("two reads of room %s at once", id)
	}
	defer r.running.Add(-1)
	time.Sleep(time.Second)
	if id == "panic" {
		panic("on purpose")
	}
	return room.Snapshot{Version: uint64(n)}, ctx.Err()
}

// There is one read at a time, however many callers there are, and no caller gets one that
// began before its call.
func TestSharedRead_Once(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		slow := &slowRooms{}
		shared := NewSharedReads(t.Context(), slow)
		const readers, each = 100, 20
		start := time.Now()
		var wg sync.WaitGroup
		for range readers {
			wg.Go(func() {
				for range each {
					time.Sleep(rand.N(3 * time.Second))
					before := slow.begun.Load()
					s, err := shared.Read(t.Context(), "42")
					redistest.ErrorIf(t, err != nil || s.Version <= uint64(before),
						"asked after read %d had begun, and got %d: %v", before, s.Version, err)
				}
			})
		}
		wg.Wait()
		if n := slow.begun.Load(); n > int64(time.Since(start)/time.Second) || len(shared.reads) > 0 {
			t.Errorf("%d reads in %v, %d left", n, time.Since(start), len(shared.reads))
		}
	})
}

// A caller that gives up takes nobody along, whether its read is the first or others wait for it. After Shutdown the server is closed for all.
func TestSharedRead_GivenUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		life, shutdown := context.WithCancel(t.Context())
		shared := NewSharedReads(life, &slowRooms{})
		ctx, giveUp := context.WithCancel(t.Context())
		results := make(chan error, 4)
		read := func(ctx context.Context) {
			go func() { _, err := shared.Read(ctx, "42"); results <- err }()
			synctest.Wait()
		}
		read(ctx)         // runs
		read(ctx)         // runs next
		read(t.Context()) // shares that
		giveUp()
		if a, b, c := <-results, <-results, <-results; errors.Join(a, b, c).Error() != "context canceled\ncontext canceled" {
			t.Errorf("two gave up, one did not: %v, %v, %v", a, b, c)
		}
		read(life)
		shutdown()
		if err := <-results; err != room.ErrClosed {
			t.Errorf("after Shutdown: %v", err)
		}
	})
}

// A shared read that panics ends for all its callers.
func TestSharedRead_Panic(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		shared := NewSharedReads(t.Context(), &slowRooms{})
		var wg sync.WaitGroup
		for range 3 {
			wg.Go(func() {
				defer func() { _ = recover() }()
				_, err := shared.Read(t.Context(), "panic")
				redistest.ErrorIf(t, err != errReadFailed, "read with %v", err)
			})
		}
		wg.Wait()
		redistest.ErrorIf(t, len(shared.reads) > 0, "the room counts as being read")
	})
}
