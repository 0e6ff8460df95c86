package coordinator

import (
	"fmt"
	"log/slog"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"roomd/lockmgr"
	"roomd/room"
	"roomd/room/coordinator/internal/cluster"
	"roomd/room/coordinator/internal/keys"
	"roomd/room/coordinator/internal/store"
	"roomd/room/coordinator/internal/work"
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

const (
	// MaxJournal is how long a journal may be.
	MaxJournal = 1_000_000

	// MaxFeed is how long the feed may be.
	MaxFeed = 100_000_000
)

// Options say how a [Coordinator] works. The zero value is ready to use.
type Options struct {
	// Node names this coordinator in what it writes. No other coordinator may have
	// it, nor an earlier one. Empty means a random name. On Redis Cluster a hash tag
	// is put before it.
	Node string

	// Address says where operators find this node, such as its host:port. Other nodes show
	// it in what they log about the node. At most 255 bytes without spaces and control
	// characters; it may be empty. [Coordinator.SetAddress] changes it.
	Address string

	// KeyPrefix begins the names of all keys and channels in Redis, such as "eu:": coordinators with another one are
	// another deployment, with other rooms, on the same Redis. See [CheckKeyPrefix]. Empty means none.
	KeyPrefix string

	// Rules are what the rooms allow.
	Rules room.Rules

	// LockTTL is how long a crashed holder can block a room. Zero means
	// lockmgr.DefaultTTL.
	LockTTL time.Duration

	// LockPoll is the pause between two attempts at a lock that another program holds. Zero means
	// lockmgr.DefaultPoll.
	LockPoll time.Duration

	// LockWait is how long an action waits for its room's lock before it fails
	// with ErrBusy. Zero means DefaultLockWait. Every action is answered within
	// LockWait and a LockTTL.
	LockWait time.Duration

	// NodeTTL is how long other nodes consider this one alive after it has died. It must
	// not be shorter than LockTTL. Zero means DefaultNodeTTL, or LockTTL if that is longer.
	NodeTTL time.Duration

	// Grace is how long the members of this node keep their seats after others have
	// noticed that it has died, or was closed: their clients can come back to another
	// node. Zero means DefaultGrace, a negative value none.
	Grace time.Duration

	// Replicas is how many replicas of Redis must have a commit before it is
	// acknowledged. Zero waits for none. If too few have it within a LockTTL, its actions
	// fail with ErrUnknown. A refused action writes nothing, and is answered at once. A
	// repeated join, which changes nothing, succeeds only if so many replicas have the
	// first one.
	Replicas int

	// MaxBatch is how many actions may share one hold. Zero means
	// DefaultMaxBatch; 1 acquires the lock for each action anew.
	MaxBatch int

	// MaxCopies bounds the copies of idle rooms: how many members they have in all, and 8
	// for each copy. A room without a copy is read when it is used again. A copy is
	// dropped in any case when its room has been idle for a minute. Zero means
	// DefaultMaxCopies.
	MaxCopies int

	// Idle is how long Redis keeps an empty room. One that a player has begun, and nobody has
	// configured, is kept for a minute only, unless somebody is banned or was taken out there. At
	// least a millisecond; zero means DefaultIdle.
	Idle time.Duration

	// Journal is about how many of its last commits each room keeps in a stream, for
	// [Coordinator.Journal] and for audits. At most MaxJournal; zero keeps none. All nodes
	// should have the same: a commit by a node without a journal is missing in it.
	Journal int

	// Feed is about how many of the last commits of all rooms [Coordinator.Feed] can go back. At most MaxFeed;
	// zero means that this node adds nothing to the feed. It needs a Journal. All nodes should have the same.
	Feed int

	// Report adds to what the node says of itself what only its owner knows. It is called about
	// once a second, on one goroutine, from [Coordinator.Start] or the first action on. With it the
	// node writes the report to Redis, where [Coordinator.Nodes] finds it, heeds
	// [Coordinator.Drain], counts, and checks its rooms. Nil leaves all of that out.
	Report func(*NodeReport)

	// Trace is told what an operator counts. Nil tells nobody.
	Trace *Trace

	// Log takes what an operator should know. Nil is silent.
	Log *slog.Logger
}

// unusedIdle is how long Redis keeps an empty room that nobody has configured. A commit that is sent
// again has to find its record there.
const unusedIdle = time.Minute

// shared returns the settings that a coordinator with these options shares with others.
func (o Options) shared() NodeSettings {
	return NodeSettings{LockTTL: o.LockTTL, NodeTTL: o.NodeTTL, Grace: o.Grace, Seats: o.Rules.Seats(),
		Duplicate: o.Rules.Duplicate, Journal: o.Journal, Feed: o.Feed, Rules: o.Rules.ID()}
}

// cluster returns what package cluster needs of the options.
func (o Options) cluster() cluster.Options {
	return cluster.Options{Name: o.Node, Address: o.Address, Settings: o.shared(), Renamed: o.Trace.Renamed,
		Evicted: o.Trace.Evicted, Log: o.Log}
}

// work returns what package work needs of the options.
func (o Options) work() work.Options {
	return work.Options{
		Rules: o.Rules, LockTTL: o.LockTTL, LockPoll: o.LockPoll, LockWait: o.LockWait, Replicas: o.Replicas,
		MaxBatch:  o.MaxBatch,
		MaxCopies: o.MaxCopies, Feed: o.Feed, Node: o.cluster(), Trace: o.Trace,
	}
}

// store returns what package store needs of the options.
func (o Options) store() store.Options {
	return store.Options{KeyPrefix: o.KeyPrefix, LockTTL: o.LockTTL, Replicas: o.Replicas, Idle: o.Idle,
		Unused: min(o.Idle, max(unusedIdle, 2*o.LockTTL)), Journal: o.Journal, Feed: o.Feed > 0}
}

func (o Options) withDefaults() Options {
	if o.Node == "" {
		o.Node = store.NewName()
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
	if o.Trace == nil {
		o.Trace = new(Trace)
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	return o
}

// CheckKeyPrefix returns a [room.InvalidError] unless prefix is empty or can be Options.KeyPrefix: it has at most 64
// of A-Z a-z 0-9 . _ - and colons, ends with a colon, and none of its parts begins as a name of roomd's own does:
// LockRoom, Room, Node, Lobby, Timers, Feed. So deployments with different prefixes have no name in common, also if
// one prefix begins with the other, or is empty.
func CheckKeyPrefix(prefix string) error { return keys.Check(prefix) }

// maxAddress is how many bytes long an Address may be: it is in each prolongation of the
// lease.
const maxAddress = 255

func checkAddress(address string) error {
	if len(address) <= maxAddress && utf8.ValidString(address) && !strings.ContainsFunc(address, notInAddress) {
		return nil
	}
	return &room.InvalidError{Field: "Address", Problem: fmt.Sprintf(
		"must have at most %d bytes of UTF-8 without spaces and control characters, not %.300q", maxAddress, address)}
}

func notInAddress(r rune) bool { return unicode.IsSpace(r) || unicode.IsControl(r) }

// validate leaves LockTTL and LockPoll to lockmgr, which knows their rules.
func (o Options) validate() error {
	if err := o.Rules.Check(); err != nil {
		return err
	}
	if err := checkAddress(o.Address); err != nil {
		return err
	}
	if err := CheckKeyPrefix(o.KeyPrefix); err != nil {
		return err
	}
	switch {
	case o.LockWait < 0:
		return &room.InvalidError{Field: "LockWait", Problem: fmt.Sprintf("must be more than zero, not %v", o.LockWait)}
	case o.NodeTTL < o.LockTTL:
		// A holder that stalls for longer than NodeTTL must have lost its lock, too.
		return &room.InvalidError{Field: "NodeTTL",
			Problem: fmt.Sprintf("must not be shorter than LockTTL (%v), is %v", o.LockTTL, o.NodeTTL)}
	case o.Replicas < 0:
		return &room.InvalidError{Field: "Replicas", Problem: fmt.Sprintf("must not be negative, is %d", o.Replicas)}
	case o.MaxBatch < 0:
		return &room.InvalidError{Field: "MaxBatch", Problem: fmt.Sprintf("must be more than zero, not %d", o.MaxBatch)}
	case o.MaxCopies < 0:
		return &room.InvalidError{Field: "MaxCopies",
			Problem: fmt.Sprintf("must be more than zero, not %d", o.MaxCopies)}
	case o.Journal < 0 || o.Journal > MaxJournal:
		return &room.InvalidError{Field: "Journal",
			Problem: fmt.Sprintf("must be from 0 (none) to %d, not %d", MaxJournal, o.Journal)}
	case o.Feed < 0 || o.Feed > MaxFeed:
		return &room.InvalidError{Field: "Feed", Problem: fmt.Sprintf("must be from 0 (none) to %d, not %d", MaxFeed,
			o.Feed)}
	case o.Feed > 0 && o.Journal == 0:
		return &room.InvalidError{Field: "Feed", Problem: fmt.Sprintf(
			"is %d, and rests on the journals of the rooms: Journal must not be 0", o.Feed)}
	case o.Idle < time.Millisecond:
		return &room.InvalidError{Field: "Idle", Problem: fmt.Sprintf("must be at least 1ms, not %v", o.Idle)}
	}
	return nil
}
