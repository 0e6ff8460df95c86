// Package tally counts what came of many actions: how each kind ended, how long they took, and what failed. The load
// test, the bench, and the lab count with it.
package tally

import (
	"errors"
	"maps"
	"sync"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
)

// Outcome is how an action ended.
type Outcome int

const (
	Done     Outcome = iota // acknowledged
	Refused                 // for a reason that the rules give
	Conflict                // a compare-and-set that came too late
	Unknown                 // it may or may not have happened
)

// Counts are how many actions ended how.
type Counts struct {
	Done      int64 `json:"done"`
	Refused   int64 `json:"refused"`
	Conflicts int64 `json:"conflicts"` // a compare-and-set that came too late
	Unknown   int64 `json:"unknown"`
}

func (c *Counts) add(other Counts) {
	c.Done += other.Done
	c.Refused += other.Refused
	c.Conflicts += other.Conflicts
	c.Unknown += other.Unknown
}

const (
	// Longest is what a longer latency counts as.
	Longest = 5 * time.Minute

	// digits are the significant ones of a latency. With two, the histograms of 2,000
	// clients leave room for everything else in the processor's caches.
	digits = 2

	maxTexts = 20 // of errors; others are counted without their texts
)

// Tally is the counts of one actor, or of many; the zero value has counted nothing. It is safe for concurrent use.
type Tally struct {
	mu      sync.Mutex
	counts  map[string]*Counts      // guarded by mu; by name: an action, or what a refusal says
	latency *hdrhistogram.Histogram // guarded by mu; in µs
	errors  int64                   // guarded by mu
	texts   map[string]int64        // guarded by mu; how often each of the first few errors came
	first   string                  // guarded by mu; of the errors
}

// lock takes t.mu, and makes what the zero value lacks.
func (t *Tally) lock() {
	t.mu.Lock()
	if t.latency == nil {
		t.counts, t.texts = make(map[string]*Counts), make(map[string]int64)
		t.latency = hdrhistogram.New(1, Longest.Microseconds(), digits)
	}
}

// Sum returns the counts of all together.
func Sum(all ...*Tally) *Tally {
	sum := new(Tally)
	for _, t := range all {
		sum.Add(t)
	}
	return sum
}

// Count counts the outcome of an action.
func (t *Tally) Count(name string, o Outcome) {
	t.lock()
	defer t.mu.Unlock()
	c := t.ofLocked(name)
	switch o {
	case Done:
		c.Done++
	case Refused:
		c.Refused++
	case Conflict:
		c.Conflicts++
	case Unknown:
		c.Unknown++
	}
}

func (t *Tally) ofLocked(name string) *Counts {
	c := t.counts[name]
	if c == nil {
		c = new(Counts)
		t.counts[name] = c
	}
	return c
}

// Record counts how long an action took.
func (t *Tally) Record(d time.Duration) {
	t.lock()
	defer t.mu.Unlock()
	_ = t.latency.RecordValue(max(1, min(d, Longest).Microseconds())) // never out of range
}

// Fail counts an error.
func (t *Tally) Fail(err error) {
	t.lock()
	defer t.mu.Unlock()
	t.failLocked(err.Error(), 1)
}

func (t *Tally) failLocked(text string, n int64) {
	t.errors += n
	if t.first == "" {
		t.first = text
	}
	if t.texts[text] > 0 || len(t.texts) < maxTexts {
		t.texts[text] += n
	}
}

// Add adds the counts of another tally.
func (t *Tally) Add(other *Tally) {
	t.AddErrors(other)
	other.lock()
	defer other.mu.Unlock()
	t.lock()
	defer t.mu.Unlock()
	for name, c := range other.counts {
		t.ofLocked(name).add(*c)
	}
	t.latency.Merge(other.latency)
}

// AddErrors adds the errors of another tally.
func (t *Tally) AddErrors(other *Tally) {
	other.lock()
	defer other.mu.Unlock()
	t.lock()
	defer t.mu.Unlock()
	if t.first == "" {
		t.first = other.first
	}
	known := t.errors
	for text, n := range other.texts {
		t.failLocked(text, n)
	}
	t.errors = known + other.errors // also those without a text
}

// Of returns the outcomes of one name.
func (t *Tally) Of(name string) Counts {
	t.lock()
	defer t.mu.Unlock()
	if c := t.counts[name]; c != nil {
		return *c
	}
	return Counts{}
}

// Total returns the outcomes of all names except some.
func (t *Tally) Total(except ...string) (sum Counts) {
	t.lock()
	for _, c := range t.counts {
		sum.add(*c)
	}
	t.mu.Unlock()
	for _, name := range except {
		c := t.Of(name)
		sum.add(Counts{-c.Done, -c.Refused, -c.Conflicts, -c.Unknown})
	}
	return sum
}

// Refusals returns how many actions were refused, by name.
func (t *Tally) Refusals() map[string]int64 {
	t.lock()
	defer t.mu.Unlock()
	all := make(map[string]int64)
	for name, c := range t.counts {
		if c.Refused > 0 {
			all[name] = c.Refused
		}
	}
	return all
}

// Errors returns how many errors there were, and the texts of some with how often each came.
func (t *Tally) Errors() (n int64, texts map[string]int64) {
	t.lock()
	defer t.mu.Unlock()
	return t.errors, maps.Clone(t.texts)
}

// FirstError returns one of the errors that came first, nil if there was none.
func (t *Tally) FirstError() error {
	t.lock()
	defer t.mu.Unlock()
	if t.errors == 0 {
		return nil
	}
	return errors.New(t.first)
}
