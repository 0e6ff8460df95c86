package transport

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"roomd/room"
)

// slowRooms takes a second for a read. The n-th read has version n.
type slowRooms struct {
	Rooms
	begun, running atomic.Int64
}

func (r *slowRooms) Read(_ context.Context, id string) (room.Snapshot, error) {
	n := r.begun.Add(1)
	if r.running.Add(1) > 1 {
		return room.Snapshot{}, fmt.Errorf("two reads of room %s at once", id)
	}
	defer r.running.Add(-1)
	time.Sleep(time.Second)
	if id == "panic" {
		panic("on purpose")
	}
	return room.Snapshot{Version: uint64(n)}, nil
}

// There is one read at a time, however many callers there are, and no caller gets one that
// began before its call.
func TestSharedRead_Once(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		slow := &slowRooms{}
		shared := newSharedReads(slow)
		const readers, each = 100, 20
		start := time.Now()
		var wg sync.WaitGroup
		for range readers {
			wg.Go(func() {
				for range each {
					time.Sleep(rand.N(3 * time.Second))
					before := slow.begun.Load()
					s, err := shared.Read(t.Context(), "42")
					if err != nil || s.Version <= uint64(before) {
						t.Errorf("asked after read %d had begun, and got %d: %v", before, s.Version, err)
					}
				}
			})
		}
		wg.Wait()
		if n := slow.begun.Load(); n > int64(time.Since(start)/time.Second) || len(shared.reads) > 0 {
			t.Errorf("%d reads in %v, %d left", n, time.Since(start), len(shared.reads))
		}
	})
}

// A shared read that panics ends for all its callers.
func TestSharedRead_Panic(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		shared := newSharedReads(&slowRooms{})
		var wg sync.WaitGroup
		for range 3 {
			wg.Go(func() {
				defer func() { _ = recover() }()
				if _, err := shared.Read(t.Context(), "panic"); err != errReadFailed {
					t.Errorf("read with %v", err)
				}
			})
		}
		wg.Wait()
		if len(shared.reads) > 0 {
			t.Error("the room counts as being read")
		}
	})
}
