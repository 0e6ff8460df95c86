package room

import (
	"fmt"
	"log/slog"
	"time"

	"roomd/lockmgr"
)

// Defaults of [Options].
const (
	DefaultLockWait  = 10 * time.Second
	DefaultMaxBatch  = 256
	DefaultNodeTTL   = 5 * time.Second
	DefaultGrace     = 10 * time.Second
	DefaultMaxCopies = 1 << 18
	DefaultIdle      = time.Hour
)

// Options say how a [Coordinator] works. The zero value is ready to use.
type Options struct {
	// Node names this coordinator in what it writes. It must be unlike any
	// other's, also those of earlier lives. Empty means a random one. On Redis
	// Cluster a hash tag is put before it.
	Node string

	// Rules are what the rooms allow.
	Rules Rules

	// LockTTL is how long a crashed holder can block a room. Zero means
	// lockmgr.DefaultTTL.
	LockTTL time.Duration

	// LockPoll is the pause between two attempts at a held lock. Zero means
	// lockmgr.DefaultPoll.
	LockPoll time.Duration

	// LockWait is how long an action waits for its room's lock before it fails
	// with ErrBusy. Zero means DefaultLockWait. Every action is answered within
	// LockWait and a LockTTL.
	LockWait time.Duration

	// NodeTTL is how long this node is taken to be alive after it has stopped. It
	// must not be shorter than LockTTL. Zero means DefaultNodeTTL.
	NodeTTL time.Duration

	// Grace is how long the members of this node keep their seats after others have
	// seen that it has died, or was closed, so that their clients can come back to
	// another node. Zero means DefaultGrace, a negative value none.
	Grace time.Duration

	// Replicas is how many replicas of Redis must have a commit before it is
	// acknowledged. Zero does not wait for any. While too few have it, the commit
	// is looked after for a LockTTL; then its actions fail with ErrUnknown. What is
	// refused writes nothing, and is answered at once. An action that finds done what
	// it asks for (a repeated join) succeeds only if so many replicas have that.
	Replicas int

	// MaxBatch is how many actions may share one hold. Zero means
	// DefaultMaxBatch; 1 takes the lock for each action anew.
	MaxBatch int

	// ElideLock lets a node whose copy of a room is current write in one step
	// while the lock is free and nobody waits for it, without setting it first:
	// the script itself is the hold (lock elision). It saves one of two round
	// trips. A node that meets another in a room waits in line as usual.
	ElideLock bool

	// MaxCopies is how many members the copies of rooms that are quiet at the
	// moment may have in all. A room without a copy is read again when it is
	// used. A copy goes anyway when its room has been quiet for a minute. Zero
	// means DefaultMaxCopies.
	MaxCopies int

	// Idle is how long Redis keeps the version of a room that everybody has
	// left. Zero means DefaultIdle.
	Idle time.Duration

	// Log takes what an operator should know. Nil is silent.
	Log *slog.Logger
}

func (o Options) withDefaults() Options {
	if o.Node == "" {
		o.Node = newName()
	}
	if o.LockTTL == 0 {
		o.LockTTL = lockmgr.DefaultTTL
	}
	if o.LockPoll == 0 {
		o.LockPoll = lockmgr.DefaultPoll
	}
	if o.LockWait == 0 {
		o.LockWait = DefaultLockWait
	}
	if o.NodeTTL == 0 {
		o.NodeTTL = max(DefaultNodeTTL, o.LockTTL)
	}
	if o.Grace == 0 {
		o.Grace = DefaultGrace
	}
	o.Grace = max(o.Grace, 0)
	if o.MaxBatch == 0 {
		o.MaxBatch = DefaultMaxBatch
	}
	if o.MaxCopies == 0 {
		o.MaxCopies = DefaultMaxCopies
	}
	if o.Idle == 0 {
		o.Idle = DefaultIdle
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	return o
}

// validate leaves LockTTL and LockPoll to lockmgr, which knows their rules.
func (o Options) validate() error {
	switch {
	case o.Rules.Capacity < 0 || o.Rules.Capacity > MaxSeats:
		return &InvalidError{"Capacity", fmt.Sprintf("must be from 0 (no limit of its own) to %d, not %d", MaxSeats, o.Rules.Capacity)}
	case o.LockWait < 0:
		return &InvalidError{"LockWait", fmt.Sprintf("must be more than zero, not %v", o.LockWait)}
	case o.NodeTTL < o.LockTTL:
		// A holder that stalls for longer than NodeTTL must have lost its lock, too.
		return &InvalidError{"NodeTTL", fmt.Sprintf("must not be shorter than LockTTL (%v), is %v", o.LockTTL, o.NodeTTL)}
	case o.Replicas < 0:
		return &InvalidError{"Replicas", fmt.Sprintf("must not be negative, is %d", o.Replicas)}
	case o.MaxBatch < 0:
		return &InvalidError{"MaxBatch", fmt.Sprintf("must be more than zero, not %d", o.MaxBatch)}
	case o.MaxCopies < 0:
		return &InvalidError{"MaxCopies", fmt.Sprintf("must be more than zero, not %d", o.MaxCopies)}
	case o.Idle < time.Millisecond:
		return &InvalidError{"Idle", fmt.Sprintf("must be at least 1ms, not %v", o.Idle)}
	}
	return nil
}
