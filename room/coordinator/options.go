package coordinator

import (
	"cmp"
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
	"roomd/room/coordinator/internal/nodes"
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
	// MaxJournal limits Options.Journal.
	MaxJournal = 1_000_000

	// MaxFeed limits Options.Feed.
	MaxFeed = 100_000_000
)

// Options configure a [Coordinator]. The zero value is ready to use.
type Options struct {
	// Node is this coordinator's name in Redis. No other coordinator, present or past, may have it. Empty means a
	// random name. On Redis Cluster a hash tag is put before it.
	Node string

	// Address tells operators where this node is, such as its host:port. Other nodes log it with the node. At most
	// 255 bytes without spaces and control characters; it may be empty. [Coordinator.SetAddress] changes it.
	Address string

	// KeyPrefix begins the names of all keys and channels in Redis, such as "eu:". Coordinators with another prefix
	// are another deployment, with other rooms, on the same Redis. See [CheckKeyPrefix]. Empty means none.
	KeyPrefix string

	// Rules are those of all rooms.
	Rules room.Rules

	// LockTTL is how long a crashed holder can block a room. Zero means lockmgr.DefaultTTL.
	LockTTL time.Duration

	// LockPoll is the pause between attempts at another program's lock. Zero means lockmgr.DefaultPoll.
	LockPoll time.Duration

	// LockWait is how long an action waits for its room's lock before it fails with ErrBusy. Zero means
	// DefaultLockWait. Every action is answered within LockWait plus LockTTL.
	LockWait time.Duration

	// NodeTTL is how long other nodes consider this one alive after it has died. It must not be shorter than LockTTL.
	// Zero means DefaultNodeTTL, or LockTTL if that is longer.
	NodeTTL time.Duration

	// Grace is how long the members of this node keep their seats after others noticed that it died or was closed:
	// their clients can come back to another node. Zero means DefaultGrace, a negative value none.
	Grace time.Duration

	// Replicas is how many replicas of Redis must have a commit before it is acknowledged. Zero waits for none. If
	// too few have it within a LockTTL, its actions fail with ErrUnknown. A refused action writes nothing, and is
	// answered at once. A repeated join succeeds only if that many replicas have the first join.
	Replicas int

	// MaxBatch is how many actions may share one hold of the lock. Zero means DefaultMaxBatch.
	MaxBatch int

	// MaxCopies limits the copies of idle rooms: the sum of their members, and 8 for each copy. A room without a copy
	// is read again. A minute without use ends a copy anyway. Zero means DefaultMaxCopies.
	MaxCopies int

	// Idle is how long Redis keeps an empty room. One that nobody with authority has configured is kept for a minute,
	// unless authority has banned or removed users there. At least a millisecond; zero means DefaultIdle.
	Idle time.Duration

	// Journal is about how many of its last commits each room keeps in a stream, for [Coordinator.Journal] and for
	// audits. At most MaxJournal; zero keeps none. All nodes should have the same: the stream lacks the commits of
	// nodes that keep none.
	Journal int

	// Feed is about how many of the last commits of all rooms [Coordinator.Feed] can return. At most MaxFeed; zero
	// means that this node adds nothing to the feed. It needs a Journal. All nodes should have the same.
	Feed int

	// Report completes the node's report with what only its owner knows. It is called about once a second, on one
	// goroutine, from [Coordinator.Start] or the first action on. With it the node writes reports to Redis for
	// [Coordinator.Nodes], obeys [Coordinator.Drain], counts, and checks its rooms. Nil leaves all of that out.
	Report func(*NodeReport)

	// Trace is called for events that an operator counts. Nil traces nothing.
	Trace *Trace

	// Log gets messages for the operator. Nil is silent.
	Log *slog.Logger
}

// unusedIdle is how long Redis keeps an empty unconfigured room: a repeated commit must find its record there.
const unusedIdle = time.Minute

// shared returns the settings that all coordinators should have in common.
func (o Options) shared() NodeSettings {
	return NodeSettings{LockTTL: o.LockTTL, NodeTTL: o.NodeTTL, Grace: o.Grace, Seats: o.Rules.Seats(),
		Duplicate: o.Rules.Duplicate, Journal: o.Journal, Feed: o.Feed, Rules: o.Rules.ID()}
}

func (o Options) cluster() cluster.Options {
	return cluster.Options{Name: o.Node, Address: o.Address, Settings: o.shared(), Renamed: o.Trace.Renamed,
		Evicted: o.Trace.Evicted, Log: o.Log}
}

func (o Options) work() work.Options {
	return work.Options{
		Rules: o.Rules, LockTTL: o.LockTTL, LockPoll: o.LockPoll, LockWait: o.LockWait, Replicas: o.Replicas,
		MaxBatch:  o.MaxBatch,
		MaxCopies: o.MaxCopies, Feed: o.Feed, Node: o.cluster(), Trace: o.Trace,
	}
}

func (o Options) store() store.Options {
	return store.Options{KeyPrefix: o.KeyPrefix, LockTTL: o.LockTTL, Replicas: o.Replicas, Idle: o.Idle,
		Unused: min(o.Idle, max(unusedIdle, 2*o.LockTTL)), Journal: o.Journal, Feed: o.Feed > 0}
}

func (o Options) withDefaults() Options {
	o.Node = cmp.Or(o.Node, store.NewName())
	o.LockTTL = cmp.Or(o.LockTTL, lockmgr.DefaultTTL)
	o.LockPoll = cmp.Or(o.LockPoll, lockmgr.DefaultPoll)
	o.LockWait = cmp.Or(o.LockWait, DefaultLockWait)
	o.NodeTTL = cmp.Or(o.NodeTTL, max(DefaultNodeTTL, o.LockTTL))
	o.Grace = max(cmp.Or(o.Grace, DefaultGrace), 0)
	o.MaxBatch = cmp.Or(o.MaxBatch, DefaultMaxBatch)
	o.MaxCopies = cmp.Or(o.MaxCopies, DefaultMaxCopies)
	o.Idle = cmp.Or(o.Idle, DefaultIdle)
	if o.Trace == nil {
		o.Trace = new(Trace)
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	return o
}

// CheckKeyPrefix returns a [room.InvalidError] unless prefix is empty or a valid Options.KeyPrefix: at most 64 of A-Z
// a-z 0-9 . _ - and colons, with a colon at the end, and no part that begins like a name of roomd's own: LockRoom,
// Room, Node, Lobby, Timers, Feed. So deployments with different prefixes share no name.
func CheckKeyPrefix(prefix string) error { return keys.Check(prefix) }

// maxAddress limits an Address, in bytes, because each prolongation of the lease carries it.
const maxAddress = 255

func checkAddress(address string) error {
	if len(address) <= maxAddress && utf8.ValidString(address) && !strings.ContainsFunc(address, notInAddress) {
		return nil
	}
	return &room.InvalidError{Field: "Address", Problem: fmt.Sprintf(
		"must have at most %d bytes of UTF-8 without spaces and control characters, not %.300q", maxAddress, address)}
}

func notInAddress(r rune) bool { return unicode.IsSpace(r) || unicode.IsControl(r) }

// validate fails if an option is invalid, and names it. LockTTL and LockPoll are left to lockmgr.
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
	for _, rule := range []struct {
		broken  bool
		field   string
		problem string
		args    []any
	}{
		{o.LockWait < 0, "LockWait", "must be more than zero, not %v", []any{o.LockWait}},
		// A holder that stalls for longer than NodeTTL must have lost its lock, too.
		{o.NodeTTL < o.LockTTL, "NodeTTL", "must not be shorter than LockTTL (%v), is %v", []any{o.LockTTL, o.NodeTTL}},
		{o.Replicas < 0, "Replicas", "must not be negative, is %d", []any{o.Replicas}},
		{o.MaxBatch < 0, "MaxBatch", "must be more than zero, not %d", []any{o.MaxBatch}},
		{o.MaxCopies < 0, "MaxCopies", "must be more than zero, not %d", []any{o.MaxCopies}},
		{o.Journal < 0 || o.Journal > MaxJournal, "Journal", "must be from 0 (none) to %d, not %d",
			[]any{MaxJournal, o.Journal}},
		{o.Feed < 0 || o.Feed > MaxFeed, "Feed", "must be from 0 (none) to %d, not %d", []any{MaxFeed, o.Feed}},
		{o.Feed > 0 && o.Journal == 0, "Feed",
			"is %d, and rests on the journals of the rooms: Journal must not be 0", []any{o.Feed}},
		{o.Idle < time.Millisecond, "Idle", "must be at least 1ms, not %v", []any{o.Idle}},
	} {
		if rule.broken {
			return &room.InvalidError{Field: rule.field, Problem: fmt.Sprintf(rule.problem, rule.args...)}
		}
	}
	return nil
}

// Trace holds functions that a [Coordinator] calls when something happens that an operator counts.
type Trace = nodes.Trace

// The reasons of Trace.Ended.
var (
	ErrStaleCommit = nodes.ErrStaleCommit
	ErrHoldUnknown = nodes.ErrHoldUnknown
)
