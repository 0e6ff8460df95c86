package transport

import (
	"fmt"
	"testing"
	"testing/synctest"
)

// held returns how many bytes the outbox says that it keeps.
func held(o *outbox) int {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.queued.frames + o.inFlight.frames + o.queued.changes + o.inFlight.changes
}

// The changes of all rooms count together until they are written. A reply or a snapshot,
// however long, does not make a client too slow.
func TestChangesAreBounded(t *testing.T) {
	const rooms, most = 3, 64 << 10
	o := newOutbox(func() {}, most)
	tell := func(v uint64) bool {
		e := change(v)
		e.Room = fmt.Sprint(v % rooms)
		return o.streams.push(e)
	}
	for i := range rooms {
		o.streams.open(fmt.Sprint(i))
		o.streams.release(fmt.Sprint(i))
	}
	o.push(make([]byte, 2*most))
	v := uint64(1)
	for ; tell(v); v++ {
		if v > most {
			t.Fatal("events are queued without end")
		}
	}
	if least := uint64(most / 200); v < least {
		t.Errorf("too slow after %d events, not %d", v, least)
	}
	for range 100 {
		v++
		tell(v)
	}
	if n := held(o); n > 3*most+10*itemSize {
		t.Errorf("%d bytes are kept", n)
	}

	o = newOutbox(func() {}, most)
	o.streams.open("42")
	o.streams.release("42")
	for v = 1; o.streams.push(change(v)) && v < most/400; v++ {
	}
	if frame, events := o.next(); frame != nil || len(events) == 0 {
		t.Fatal("no events to write")
	}
	before := held(o)
	for ; o.streams.push(change(v)); v++ { // counts beside what is being written
	}
	if before == 0 || held(o) != before {
		t.Errorf("%d bytes are kept while %d are written", held(o), before)
	}
	o.written()
	if n := held(o); n != 0 {
		t.Errorf("%d bytes are kept when all is written", n)
	}

	o = newOutbox(func() {}, most)
	o.streams.open("42")
	o.streams.release("42")
	big := snapshot("e", 1)
	big.Shared(func() any { return &eventFrame{event: big, bytes: make([]byte, 10*most)} })
	if !o.streams.push(big) || !o.streams.push(change(2)) {
		t.Error("a snapshot makes a client too slow")
	}
}

// There is one writer at a time: the reader, or a goroutine for what comes without a request.
func TestOneWriter(t *testing.T) {
	started := 0
	o := newOutbox(func() { started++ }, defaultMaxQueue)
	o.streams.open("42")
	listed(o, listAt(3))
	if started != 0 || !o.claim() || o.claim() {
		t.Fatal("a reply starts no writer: the reader writes it")
	}
	o.streams.push(change(4))
	if written(o) == "" || started != 0 {
		t.Errorf("%d writers started while there is one", started)
	}
	o.streams.push(change(5))
	if !o.keepWriting() || o.claim() {
		t.Error("the writer does not see what was queued")
	}
	written(o)
	if o.keepWriting() || o.claim() {
		t.Error("a writer goes on with nothing to write")
	}
	o.streams.push(change(6))
	o.ping(controlFrame(9, nil))
	if started != 1 || o.claim() {
		t.Errorf("%d writers started", started)
	}
	o.finish([]byte("the end"))
	if o.keepWriting() || o.isEmpty() {
		t.Error("a writer goes on after finish, or nothing is left")
	}
	if o.ping(nil) || o.claim() || !o.streams.push(change(7)) || started != 1 {
		t.Error("something is queued after finish")
	}
	o.discard()
	o.finish([]byte("the end"))
	if !o.isEmpty() {
		t.Error("something is queued after discard")
	}
}

// A connection whose client does not read its replies waits with the next request. A reply
// longer than the limit is queued alone.
func TestRepliesAreBounded(t *testing.T) {
	for name, relieve := range map[string]func(o *outbox){
		"written": func(o *outbox) { o.next(); o.written() },
		"ended":   func(o *outbox) { o.finish(nil) },
		"broken":  func(o *outbox) { o.discard() },
	} {
		for _, size := range []int{10, 1000, 100_000} {
			synctest.Test(t, func(t *testing.T) {
				const most = 10_000
				o := newOutbox(func() {}, most)
				sent := 0
				waits := false
				go func() {
					for range most/size + 1000/size + 50 {
						waits = true
						o.waitForSpace()
						waits = false
						o.push(make([]byte, size))
						sent++
					}
				}()
				if synctest.Wait(); !waits || sent == 0 || held(o) > most+size+itemSize {
					t.Fatalf("%d frames of %d bytes are queued: %d bytes are kept", sent, size, held(o))
				}
				before := sent
				o.next()
				if synctest.Wait(); sent != before {
					t.Errorf("%s: what is being written does not count", name)
				}
				relieve(o)
				if synctest.Wait(); sent == before {
					t.Errorf("%s: waitForSpace does not return", name)
				}
				o.finish(nil)
			})
		}
	}
}
