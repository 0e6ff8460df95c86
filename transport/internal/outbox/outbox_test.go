package outbox

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"

	"roomd/room"
	"roomd/transport/internal/ws"
)

// The changes of all rooms count together until they are written. What does not fit is dropped, the
// largest stream first. A reply or a snapshot, however long, drops nothing.
func TestChangesAreBounded(t *testing.T) {
	const rooms, most = 3, 64 << 10
	o := newBox(func() {}, most)
	tell := func(v uint64) bool {
		e := change(v)
		e.Room = fmt.Sprint(v % rooms)
		return o.push(e)
	}
	o.play(t, "0: open; 0: release; 1: open; 1: release; 2: open; 2: release")
	o.Push(make([]byte, 2*most))
	v := uint64(1)
	for ; tell(v); v++ {
		if v > most {
			t.Fatal("events are queued without end")
		}
	}
	if least := uint64(most / 200); v < least {
		t.Errorf("too many after %d events, not %d", v, least)
	}
	for range 10 * most / 100 {
		v++
		tell(v)
		if n := o.Kept(); n > 3*most+10*itemSize {
			t.Fatalf("%d bytes are kept", n)
		}
	}

	o = newBox(func() {}, most)
	o.play(t, "open; release")
	for v = 1; o.push(change(v)) && v < most/400; v++ {
	}
	if frame, events := o.Next(); frame != nil || len(events) == 0 {
		t.Fatal("no events to write")
	}
	before := o.Kept()
	for ; o.push(change(v)); v++ { // counts beside what is being written
	}
	if before == 0 || o.Kept() != before {
		t.Errorf("%d bytes are kept while %d are written", o.Kept(), before)
	}
	o.Written()
	if n := o.Kept(); n != 0 {
		t.Errorf("%d bytes are kept when all is written", n)
	}

	o = newBox(func() {}, most)
	o.play(t, "open; release")
	big := &room.Event{Room: "42", Epoch: "e", Version: 1, Snapshot: &room.Snapshot{Epoch: "e", Version: 1, Data: strings.Repeat("1", 10*most)}}
	if !o.push(big) || !o.push(change(2)) {
		t.Error("a snapshot is too much")
	}
}

// There is one writer at a time: the reader, or a goroutine for what comes without a request.
func TestOneWriter(t *testing.T) {
	started := 0
	o := newBox(func() { started++ }, 256<<10)
	o.play(t, "open; listed 3")
	if started != 0 || !o.Claim() || o.Claim() {
		t.Fatal("a reply starts no writer: the reader writes it")
	}
	o.push(change(4))
	if written(o) == "" || started != 0 {
		t.Errorf("%d writers started while there is one", started)
	}
	o.push(change(5))
	if !o.KeepWriting() || o.Claim() {
		t.Error("the writer does not see what was queued")
	}
	written(o)
	if o.KeepWriting() || o.Claim() {
		t.Error("a writer goes on with nothing to write")
	}
	o.push(change(6))
	o.Ping(ws.Control(9, nil))
	if started != 1 || o.Claim() {
		t.Errorf("%d writers started", started)
	}
	o.Finish([]byte("the end"))
	if o.KeepWriting() || len(o.items) == 0 {
		t.Error("a writer goes on after finish, or nothing is left")
	}
	if o.Ping(nil) || o.Claim() || !o.push(change(7)) || started != 1 {
		t.Error("something is queued after finish")
	}
	o.Cut(nil)
	o.Finish([]byte("the end"))
	if len(o.items) > 0 {
		t.Error("something is queued after Cut")
	}
}

// A connection whose client does not read its replies waits with the next request. A reply
// longer than the limit is queued alone.
func TestRepliesAreBounded(t *testing.T) {
	for name, relieve := range map[string]func(o *box){
		"written": func(o *box) { o.Next(); o.Written() },
		"ended":   func(o *box) { o.Finish(nil) },
		"broken":  func(o *box) { o.Cut(nil) },
	} {
		for _, size := range []int{10, 1000, 100_000} {
			synctest.Test(t, func(t *testing.T) {
				const most = 10_000
				o := newBox(func() {}, most)
				sent := 0
				waits := false
				go func() {
					for range most/size + 1000/size + 50 {
						waits = true
						o.WaitForSpace()
						waits = false
						o.Push(make([]byte, size))
						sent++
					}
				}()
				if synctest.Wait(); !waits || sent == 0 || o.Kept() > most+size+itemSize {
					t.Fatalf("%d frames of %d bytes are queued: %d bytes are kept", sent, size, o.Kept())
				}
				before := sent
				o.Next()
				if synctest.Wait(); sent != before {
					t.Errorf("%s: what is being written does not count", name)
				}
				relieve(o)
				if synctest.Wait(); sent == before {
					t.Errorf("%s: waitForSpace does not return", name)
				}
				o.Finish(nil)
			})
		}
	}
}
