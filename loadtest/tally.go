package loadtest

import (
	"errors"
	"sync"
	"sync/atomic"
)

// tally counts the outcomes of all requests.
type tally struct {
	joins, leaves, reads, refused, unknown, events atomic.Int64

	mu     sync.Mutex
	errors int            // guarded by mu
	texts  map[string]int // guarded by mu; how often each of the first few texts came
}

const maxTexts = 20

func newTally() *tally { return &tally{texts: make(map[string]int)} }

func (t *tally) actions() int64 { return t.joins.Load() + t.leaves.Load() }

// fail counts a request or a connection that failed for no fault of a player.
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
