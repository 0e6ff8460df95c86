package lab

import (
	"context"
	"slices"

	"github.com/redis/go-redis/v9"

	"roomd/loadtest/lab/anomaly"
)

// discipline is one way to keep players' joins and leaves apart.
type discipline struct {
	name  string
	about string  // its steps, in a line
	ttl   float64 // of its lock, in published seconds
	steps []step  // at which the driver can strike
	way   way
	lock  *lock // nil if it has none that could guard something else

	inHash bool // the lock is a field of a hash
	counts bool // the lock's value is a count of those who asked

	// listed is what its article warns of, or what is known to go wrong with it.
	listed []listed
}

// listed is an anomaly that a discipline has to show under a fault.
type listed struct {
	text    string
	fault   string
	anomaly string // of package anomaly
	forever bool   // besides, it does not go away
}

// way is how a discipline changes a room's list.
type way interface {
	// open readies a process to ask.
	open(*process) error
	// close undoes open.
	close(*process)
	// fill puts the first players into the room.
	fill(ctx context.Context, x *cell, users []string) error
	// ask lets the caller join or leave. A nil error tells its player that this
	// has happened, an errUnknown that it may have, another that it has not.
	ask(ctx context.Context, c *caller) error
	// members asks who is in the list at key, and returns what reads the answer.
	members(ctx context.Context, p redis.Pipeliner, key string) func() ([]string, error)
}

// lock is the part of a discipline that can guard anything.
type lock struct {
	// try asks for the lock once. Where nothing about waiting is published, a
	// player's join asks again every 5 ms.
	try func(ctx context.Context, c *caller) (bool, error)

	// wait asks for the lock, and waits, by steps of its own. It stands in for try.
	wait func(ctx context.Context, c *caller) (outcome, error)

	unlock func(ctx context.Context, c *caller) error

	// looksAfterTimeout says that a cache's caller that was told timedOut reads the
	// value before it gives up.
	looksAfterTimeout bool
}

// outcome is what a lock that waits by itself tells its caller: the numbers are
// the published ones.
type outcome int

const (
	timedOut outcome = iota
	acquired
	vanished // somebody else had it, and it went away
)

// disciplines are in the order in which the articles arrive at them.
var disciplines = []*discipline{
	&none, &setnx, &setnxExpire, &multiExpire, &luaSetnx, &setNXDel, &getCompareDel,
	&setRandLua, &incr, &hsetnx, &setGet,
	&timestamp, &timestampFirst, &timestampRelease, &timestampPlain, &setNXLua, &roomd,
}

// seenIn reports whether anomalies are what is listed.
func (l listed) seenIn(a anomaly.Counts) bool {
	return a.Of(l.anomaly) > 0 && (a.Forever || !l.forever)
}

// shows reports whether anomalies under a fault are at least those that are listed.
func (d *discipline) shows(fault string, a anomaly.Counts) bool {
	return !slices.ContainsFunc(d.listed, func(l listed) bool { return l.fault == fault && !l.seenIn(a) })
}

// taken reports whether a lock that changes its value so is taken. A count starts
// anew then; losers only count on.
func (d *discipline) taken(before, after string) bool {
	return before != after && (!d.counts || after == "1")
}

// has reports whether the discipline has all these steps.
func (d *discipline) has(steps []step) bool {
	return !slices.ContainsFunc(steps, func(s step) bool { return !slices.Contains(d.steps, s) })
}
