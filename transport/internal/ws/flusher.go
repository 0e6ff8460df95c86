package ws

import (
	"runtime"
	"sync"
	"syscall"
)

// flushesAtOnce is how many connections a goroutine of the flusher takes at a time. If more than that wait for
// each goroutine there is to be another one.
const flushesAtOnce = 8

// flusher writes what connections have to be sent by themselves, such as events, as far as their sockets take it at
// once. A few goroutines do so for all connections, since an event to each of a room's members would else begin
// and end a goroutine for each; none runs while there is nothing to write.
type flusher struct {
	running sync.WaitGroup

	tries sync.Pool // of *attempt

	mu         sync.Mutex
	ready      []*writer // guarded by mu: in order
	goroutines int       // guarded by mu: how many run
}

// add has a connection written soon. It does not block.
func (f *flusher) add(w *writer) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.ready = append(f.ready, w)
	if f.goroutines == 0 || len(f.ready) > f.goroutines*flushesAtOnce && f.goroutines < runtime.GOMAXPROCS(0) {
		f.goroutines++
		f.running.Go(f.run)
	}
}

func (f *flusher) run() {
	try, _ := f.tries.Get().(*attempt)
	if try == nil {
		try = newAttempt()
	}
	defer f.tries.Put(try)
	var taken [flushesAtOnce]*writer
	for {
		n := f.take(taken[:])
		if n == 0 {
			return
		}
		for _, w := range taken[:n] {
			w.flushReady(try)
		}
	}
}

// take moves the first that are ready to into. If there are none, the goroutine is to end.
func (f *flusher) take(into []*writer) (n int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	n = copy(into, f.ready)
	rest := copy(f.ready, f.ready[n:])
	clear(f.ready[rest:])
	f.ready = f.ready[:rest]
	if n == 0 {
		f.goroutines--
	}
	return n
}

// attempt writes to sockets without waiting. It is for one goroutine at a time.
type attempt struct {
	try  func(fd uintptr) bool // once, so that writing allocates nothing
	left []byte                // what is still to be written
}

func newAttempt() *attempt {
	a := new(attempt)
	a.try = a.tryWrite
	return a
}

// write writes as much of p as the socket takes at once, and returns how much that is.
func (a *attempt) write(socket syscall.RawConn, p []byte) (n int) {
	a.left = p
	_ = socket.Write(a.try) // who writes the rest meets the error again
	n = len(p) - len(a.left)
	a.left = nil
	return n
}

func (a *attempt) tryWrite(fd uintptr) (done bool) {
	for {
		n, err := writeSocket(fd, a.left)
		if err == syscall.EINTR {
			continue
		}
		a.left = a.left[max(n, 0):]
		return true
	}
}
