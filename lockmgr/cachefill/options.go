package cachefill

import (
	"cmp"
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

// minLockTTL leaves the watchdog enough time to try three times.
const minLockTTL = 100 * time.Millisecond

const maxKey = 256

// Options say how entries are kept and loaded. The zero value is ready to use. All durations are whole milliseconds.
//
// All processes that share a cache must use the same Prefix, and lock managers with the same prefix. The other
// options may differ, as they do during an update. The process that reads a value decides how old the value may
// be. The value expires after Fresh plus Stale of the process that stored it.
type Options struct {
	// Prefix and a caller's key make the key in Redis. Prefix must not contain braces, and has at most 128 bytes.
	// Empty means [DefaultPrefix].
	Prefix string

	// Fresh is how long Get returns a value without loading it again. Fresh plus Stale must be longer than
	// Poll, so that a waiter finds the value before it expires. Zero means [DefaultFresh].
	Fresh time.Duration

	// Stale is how long after Fresh Get still returns the old value while one caller loads a new one. Zero
	// means that all wait for the new one.
	Stale time.Duration

	// Wait is how long to wait for the loads of others. Zero means [lockmgr.DefaultWaitTimeout].
	Wait time.Duration

	// Load is how long a load may take. After that its context ends, and nobody waits for its result. Zero
	// means the same as Wait.
	Load time.Duration

	// Backoff is how long Redis remembers that a load failed. In that time, processes that waited for the load
	// get its error, and nobody refreshes a stale value. Longer than Poll. Zero means [DefaultBackoff].
	Backoff time.Duration

	// LockTTL is how long an entry stays locked after its loader has died. A live loader extends its lock whenever a
	// third of LockTTL has passed. If its process stands still for two thirds of LockTTL, as on a busy machine, it
	// may lose the lock, and another process loads at the same time; the cache then keeps the value of the one that
	// has the lock. So use a second or more. At least 100ms. Zero means [lockmgr.DefaultWaitTTL].
	LockTTL time.Duration

	// Poll is how often a waiter checks whether the load has ended. Zero means [lockmgr.DefaultWaitPoll].
	Poll time.Duration

	// Failed, if not nil, is called with errors that no Get returns: a background load
	// failed, or a value was loaded but could not be stored. It must return at once.
	Failed func(key string, err error)
}

func (o Options) withDefaults() Options {
	if o.Failed == nil {
		o.Failed = func(string, error) {}
	}
	o.Prefix = cmp.Or(o.Prefix, DefaultPrefix)
	o.Fresh = cmp.Or(o.Fresh, DefaultFresh)
	o.Wait = cmp.Or(o.Wait, lockmgr.DefaultWaitTimeout)
	o.Load = cmp.Or(o.Load, o.Wait)
	o.Backoff = cmp.Or(o.Backoff, DefaultBackoff)
	o.LockTTL = cmp.Or(o.LockTTL, lockmgr.DefaultWaitTTL)
	o.Poll = cmp.Or(o.Poll, lockmgr.DefaultWaitPoll)
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
			return invalid("%s is %v, it must be at least %v", d.field, d.value, d.least)
		case d.value%time.Millisecond != 0:
			return invalid("%s is %v, Redis counts in whole milliseconds", d.field, d.value)
		}
	}
	switch {
	case o.Fresh+o.Stale <= o.Poll:
		return invalid("Fresh and Stale are %v together, they must be longer than Poll (%v)", o.Fresh+o.Stale, o.Poll)
	case o.Backoff <= o.Poll:
		return invalid("Backoff is %v, it must be longer than Poll (%v)", o.Backoff, o.Poll)
	case strings.ContainsAny(o.Prefix, "{}"):
		return invalid("Prefix %q holds a brace, which would break the hash tag of the keys", o.Prefix)
	case len(o.Prefix) > 128:
		return invalid("Prefix is %d bytes long, at most 128 are allowed", len(o.Prefix))
	}
	return nil
}

// invalid returns an [lockmgr.ErrInvalid] with that message.
func invalid(format string, args ...any) error {
	return fmt.Errorf("cachefill: %s: %w", fmt.Sprintf(format, args...), lockmgr.ErrInvalid)
}
