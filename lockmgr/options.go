package lockmgr

import (
	"fmt"
	"time"
)

// Defaults of [Options].
const (
	DefaultPrefix = "Lock:"
	DefaultTTL    = 3 * time.Second
	DefaultPoll   = 5 * time.Millisecond
)

// MaxName is the longest name of a lock, in bytes.
const MaxName = 512

// Options say how locks are kept. The zero value is ready to use.
type Options struct {
	// Prefix and the lock's name make the key in Redis. Empty means
	// [DefaultPrefix].
	Prefix string

	// TTL is how long a hold lasts unless it is extended or released: after
	// that a crashed holder stands in nobody's way. Whole milliseconds. Zero
	// means [DefaultTTL].
	TTL time.Duration

	// Poll is the pause between two attempts of a waiting Acquire. Zero means
	// [DefaultPoll]; it may not be longer than TTL.
	Poll time.Duration
}

func (o Options) withDefaults() Options {
	if o.Prefix == "" {
		o.Prefix = DefaultPrefix
	}
	if o.TTL == 0 {
		o.TTL = DefaultTTL
	}
	if o.Poll == 0 {
		o.Poll = DefaultPoll
	}
	return o
}

func (o Options) validate() error {
	switch {
	case o.TTL < time.Millisecond:
		return fmt.Errorf("lockmgr: TTL is %v, it must be at least 1ms", o.TTL)
	case o.TTL%time.Millisecond != 0:
		return fmt.Errorf("lockmgr: TTL is %v, Redis counts in whole milliseconds", o.TTL)
	case o.Poll < 0:
		return fmt.Errorf("lockmgr: Poll is %v, it must be more than zero", o.Poll)
	case o.Poll > o.TTL:
		return fmt.Errorf("lockmgr: Poll is %v, it must not be longer than the TTL (%v)", o.Poll, o.TTL)
	}
	return nil
}
