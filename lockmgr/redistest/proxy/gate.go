package proxy

import "sync"

// gate stops traffic while it is closed. The zero value is open. It is safe for concurrent use.
type gate struct {
	mu     sync.Mutex
	opened chan struct{} // guarded by mu: closed by open; nil while the gate is open
}

func (g *gate) close() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.opened == nil {
		g.opened = make(chan struct{})
	}
}

func (g *gate) open() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.opened != nil {
		close(g.opened)
		g.opened = nil
	}
}

// pass waits until the gate is open. It reports false if done is closed before that.
func (g *gate) pass(done <-chan struct{}) bool {
	g.mu.Lock()
	opened := g.opened
	g.mu.Unlock()
	if opened != nil {
		select {
		case <-opened:
		case <-done:
			return false
		}
	}
	return true
}
