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
	about string  // its steps in a line
	ttl   float64 // of its lock, in published seconds
	steps []step  // at which the driver can strike
	way   way
	lock  *lock // nil if it has no lock that could guard something else

	inHash bool // the lock is a field of a hash
	counts bool // the lock's value counts the requests for it

	// listed is what its article warns of, or what else is known to go wrong with it.
	listed []listed
}

// listed is an anomaly that a discipline has to show under a fault.
type listed struct {
	text    string
	fault   string
	anomaly string // of package anomaly
	forever bool   // the anomaly also stays for ever
}

// way is how a discipline changes a room's list.
type way interface {
	// open prepares a process.
	open(*process) error
	// close undoes open.
	close(*process)
	// fill puts the first players into the room.
	fill(ctx context.Context, x *cell, users []string) error
	// ask lets the caller join or leave. A nil error means that this has happened,
	// errUnknown that it may have, any other that it has not.
	ask(ctx context.Context, c *caller) error
	// members adds the question who is in the list at key, and returns the function
	// that reads the answer.
	members(ctx context.Context, p redis.Pipeliner, key string) func() ([]string, error)
}

// lock is the part of a discipline that can guard anything.
type lock struct {
	// try asks for the lock once. Where nothing about waiting is published, a
	// player's join asks again every 5 ms.
	try func(ctx context.Context, c *caller) (bool, error)

	// wait asks for the lock and waits by steps of its own. It replaces try.
	wait func(ctx context.Context, c *caller) (outcome, error)

	unlock func(ctx context.Context, c *caller) error

	// looksAfterTimeout makes a cache's caller read the value after timedOut, before
	// it gives up.
	looksAfterTimeout bool
}

// outcome is the result of lock.wait. The numbers are the published ones.
type outcome int

const (
	timedOut outcome = iota
	acquired
	vanished // another caller had the lock, and it is gone
)

// disciplines are in the order in which the articles arrive at them.
var disciplines = []*discipline{
	&none, &setnx, &setnxExpire, &multiExpire, &luaSetnx, &setNXDel, &getCompareDel,
	&setRandLua, &incr, &hsetnx, &setGet,
	&timestamp, &timestampFirst, &timestampRelease, &timestampPlain, &setNXLua, &roomd,
}

// seenIn reports whether anomalies include the listed one.
func (l listed) seenIn(a anomaly.Counts) bool {
	return a.Of(l.anomaly) > 0 && (a.Forever || !l.forever)
}

// shows reports whether anomalies under a fault include all that are listed for it.
func (d *discipline) shows(fault string, a anomaly.Counts) bool {
	return !slices.ContainsFunc(d.listed, func(l listed) bool { return l.fault == fault && !l.seenIn(a) })
}

// taken reports whether this change of its value means that the lock was taken. A new
// count means so; those who lose only add to it.
func (d *discipline) taken(before, after string) bool {
	return before != after && (!d.counts || after == "1")
}

// has reports whether the discipline has all the steps.
func (d *discipline) has(steps []step) bool {
	return !slices.ContainsFunc(steps, func(s step) bool { return !slices.Contains(d.steps, s) })
}
