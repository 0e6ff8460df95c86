package loadtest

import (
	"errors"
	"slices"
	"sync"
	"sync/atomic"

	"roomd/transport/protocol"
)

// The actions that a tally counts, besides the names of MixNames.
const (
	actionWhisper = "whisper" // a message to some
	actionMember  = "member"  // data of a member
)

var counted = slices.Concat([]string{protocol.ActionJoin, protocol.ActionLeave, protocol.ActionUsers},
	[]string{MixReady, MixData, actionMember, MixSay, actionWhisper}, MixNames[3:])

// counts are the outcomes of one kind of action.
type counts struct{ done, refused, conflicts, unknown atomic.Int64 }

// tally counts the outcomes of all requests.
type tally struct {
	of     map[string]*counts // by action; made at the start
	events atomic.Int64

	mu     sync.Mutex
	errors int            // guarded by mu
	texts  map[string]int // guarded by mu; how often each of the first few texts came
}

const maxTexts = 20

func newTally() *tally {
	t := &tally{of: make(map[string]*counts), texts: make(map[string]int)}
	for _, action := range counted {
		t.of[action] = new(counts)
	}
	return t
}

// actions returns how many were acknowledged, without reads.
func (t *tally) actions() (n int64) {
	for action, c := range t.of {
		if action != protocol.ActionUsers {
			n += c.done.Load()
		}
	}
	return n
}

func (t *tally) done(action string) int64 { return t.of[action].done.Load() }

func (t *tally) refused() (n int64) {
	for _, c := range t.of {
		n += c.refused.Load() + c.conflicts.Load()
	}
	return n
}

func (t *tally) unknown() (n int64) {
	for _, c := range t.of {
		n += c.unknown.Load()
	}
	return n
}

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
