package cachefill

import (
	"fmt"
	"strings"
	"time"

	"roomd/lockmgr"
)

// Defaults of [Options].
const (
	DefaultPrefix  = "Cache:"
	DefaultFresh   = 180 * time.Second
	DefaultBackoff = time.Second
)

// minLockTTL leaves the watchdog time for its three attempts.
const minLockTTL = 100 * time.Millisecond

// MaxKey is the longest key, in bytes. Hash what may be longer.
const MaxKey = 256

// Options say how entries are kept and loaded. The zero value is ready to use. All
// durations are whole milliseconds.
//
// All processes that share a cache must use the same Prefix, and lock managers with
// the same prefix. The rest may differ, as it does while a new version is rolled
// out: each process judges by its own options how old a value may be. A value goes
// when Fresh and Stale of the process that stored it are over.
type Options struct {
	// Prefix and a caller's key make the key in Redis. It may hold no braces, and
	// at most 128 bytes. Empty means [DefaultPrefix].
	Prefix string

	// Fresh is how long a value is returned without a thought. Together with
	// Stale it must be longer than Poll: who waits has to find the value before it
	// goes. Zero means [DefaultFresh].
	Fresh time.Duration

	// Stale is how long after Fresh the old value is still returned while one
	// caller loads a new one. Zero means not at all: all wait for the new one.
	Stale time.Duration

	// Wait is how long to wait for the loads of others. Zero means
	// [lockmgr.DefaultVanishWait].
	Wait time.Duration

	// Load is how long a load may take: its context then ends, and if it does not
	// return its result is not waited for. Zero means the same as Wait.
	Load time.Duration

	// Backoff is how long it is known that a load failed: other processes that
	// wait for it are told so, and a stale value is not refreshed again. It must
	// be longer than Poll. Zero means [DefaultBackoff].
	Backoff time.Duration

	// LockTTL is how long an entry stays locked by a loader that has died. A
	// loader that lives extends its lock whenever a third of that has passed. At
	// least 100ms. Zero means [lockmgr.DefaultVanishTTL].
	LockTTL time.Duration

	// Poll is how often to look whether somebody else's load has ended. Zero
	// means [lockmgr.DefaultVanishPoll].
	Poll time.Duration

	// Failed is told what no caller is: that a load in the background failed, or
	// that a value could be loaded but not stored. It must return at once. It may
	// be nil.
	Failed func(key string, err error)
}

func (o Options) withDefaults() Options {
	if o.Prefix == "" {
		o.Prefix = DefaultPrefix
	}
	if o.Failed == nil {
		o.Failed = func(string, error) {}
	}
	for _, d := range []struct {
		field *time.Duration
		value time.Duration
	}{
		{&o.Fresh, DefaultFresh},
		{&o.Wait, lockmgr.DefaultVanishWait},
		{&o.Backoff, DefaultBackoff},
		{&o.LockTTL, lockmgr.DefaultVanishTTL},
		{&o.Poll, lockmgr.DefaultVanishPoll},
	} {
		if *d.field == 0 {
			*d.field = d.value
		}
	}
	if o.Load == 0 {
		o.Load = o.Wait
	}
	return o
}

func (o Options) validate() error {
	for _, d := range []struct {
		field string
		value time.Duration
		least time.Duration
	}{
		{"Fresh", o.Fresh, time.Millisecond},
		{"Stale", o.Stale, 0},
		{"Wait", o.Wait, time.Millisecond},
		{"Load", o.Load, time.Millisecond},
		{"Backoff", o.Backoff, time.Millisecond},
		{"LockTTL", o.LockTTL, minLockTTL},
		{"Poll", o.Poll, time.Millisecond},
	} {
		switch {
		case d.value < d.least:
			return fmt.Errorf("cachefill: %s is %v, it must be at least %v: %w", d.field, d.value, d.least, ErrInvalid)
		case d.value%time.Millisecond != 0:
			return fmt.Errorf("cachefill: %s is %v, Redis counts in whole milliseconds: %w", d.field, d.value, ErrInvalid)
		}
	}
	switch {
	case o.Fresh+o.Stale <= o.Poll:
		return fmt.Errorf("cachefill: Fresh and Stale are %v together, they must be longer than Poll (%v): %w", o.Fresh+o.Stale, o.Poll, ErrInvalid)
	case o.Backoff <= o.Poll:
		return fmt.Errorf("cachefill: Backoff is %v, it must be longer than Poll (%v): %w", o.Backoff, o.Poll, ErrInvalid)
	case strings.ContainsAny(o.Prefix, "{}"):
		return fmt.Errorf("cachefill: Prefix %q holds a brace, which would break the hash tag of the keys: %w", o.Prefix, ErrInvalid)
	case len(o.Prefix) > 128:
		return fmt.Errorf("cachefill: Prefix is %d bytes long, at most 128 are allowed: %w", len(o.Prefix), ErrInvalid)
	}
	return nil
}
