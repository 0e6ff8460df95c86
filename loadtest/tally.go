package loadtest

import (
	"errors"
	"sync"
	"sync/atomic"
)

// tally counts what became of all requests while the players play.
type tally struct {
	joins, leaves, reads, refused, unknown, events atomic.Int64

	mu     sync.Mutex
	errors int            // guarded by mu
	texts  map[string]int // guarded by mu: how often, for the first few texts
}

const maxTexts = 20

func newTally() *tally { return &tally{texts: make(map[string]int)} }

func (t *tally) actions() int64 { return t.joins.Load() + t.leaves.Load() }

// fail counts a request or a connection that ended in a way that no player
// caused.
func (t *tally) fail(err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.errors++
	if text := err.Error(); t.texts[text] > 0 || len(t.texts) < maxTexts {
		t.texts[text]++
	}
}

// firstError returns one of the errors, nil if there was none.
func (t *tally) firstError() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	for text := range t.texts {
		return errors.New(text)
	}
	return nil
}
