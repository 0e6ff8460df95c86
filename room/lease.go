package room

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
	"golang.org/x/sync/singleflight"
)

var (
	//go:embed lua/lease.lua
	leaseLua string
	//go:embed lua/lease_rooms.lua
	leaseRoomsLua string
	//go:embed lua/lease_end.lua
	leaseEndLua string

	leaseScript      = redis.NewScript(leaseLua)
	leaseRoomsScript = redis.NewScript(leaseRoomsLua)
	leaseEndScript   = redis.NewScript(leaseEndLua)
)

const (
	// maxHomes is how many other homes are tried in one attempt.
	maxHomes = 4

	// endTimeout is how long giving the lease back may take.
	endTimeout = time.Second

	// listChunk is how many rooms go into Node:<node>:Rooms with one request.
	listChunk = 1000
)

// lease keeps the node's name its own. It is a key in Redis with a TTL that the node
// refreshes (C. Gray, D. Cheriton, "Leases: an efficient fault-tolerant mechanism for
// distributed file cache consistency", 1989). When it is gone, other nodes remove
// the members of that name. So a node commits nothing under a name whose time is
// over by its own clock, and takes a new one when the key was not there any more:
// because it was stalled, or because Redis has lost its data. It does so as well when the
// key is an earlier one: Redis was restarted from an old copy of its data, in which there
// are members who have left since.
//
// On Cluster it also takes a new name, at another home, if the master with the key does
// not answer until the time is over, or does not take what the node has to write there.
// Whoever does not join again under the new name leaves as a dead node's member.
type lease struct {
	store *store
	ttl   time.Duration
	grace time.Duration

	// One attempt at a time, for all who wait for it: it goes on when one of them
	// gives up.
	attempts singleflight.Group
	life     context.Context // of attempts
	kill     context.CancelFunc

	mu    sync.Mutex
	who   *identity // guarded by mu
	until time.Time // guarded by mu: by our clock, from before the request was sent; zero before the first
	unfit *identity // guarded by mu: who, if leave was called and not heard yet
	began time.Time // guarded by mu: when who was begun

	names names
}

func newLease(store *store, opts Options) *lease {
	l, name := &lease{store: store, ttl: opts.NodeTTL, grace: opts.Grace}, opts.Node
	if store.cluster {
		name = homes[rand.IntN(len(homes))] + name
	}
	l.who = newIdentity(name)
	l.life, l.kill = context.WithCancel(context.Background())
	return l
}

// holder returns the node's name, and whether it may be written under.
func (l *lease) holder() (who *identity, valid bool) {
	who, until := l.held()
	return who, time.Now().Before(until)
}

func (l *lease) held() (who *identity, until time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.who, l.until
}

// refresh prolongs the lease, or begins one under a new name if it was lost. renewed
// says that the name has changed. It runs as one of attempts.
func (l *lease) refresh(ctx context.Context) (renewed bool, err error) {
	l.mu.Lock()
	who, until, leave, began := l.who, l.until, l.unfit != nil, l.began
	l.unfit = nil
	l.mu.Unlock()
	home, given := l.split(who.node)
	if until.IsZero() {
		if err = l.begin(ctx, who); err != nil && l.store.cluster {
			err = l.move(ctx, home, given, err)
		}
		return false, err
	}
	name := newName()
	kept, err := l.prolong(ctx, who, until)
	if kept || err != nil && !leave && time.Now().Before(until) {
		return false, err
	}
	if err == nil && time.Now().Before(until) {
		l.names.forget(who.node) // Redis has lost it
	}
	if time.Since(began) < l.ttl/3 { // Redis loses them as fast as they are made
		pause(ctx, l.ttl/30)
	}
	if err == nil {
		err = l.begin(ctx, newIdentity(home+name))
	}
	if err != nil && l.store.cluster {
		err = l.move(ctx, home, name, err)
	}
	return err == nil, err
}

// leave asks for another home if the lease cannot be prolonged at once, although it is
// not over yet. An attempt that is under way may not hear of it.
func (l *lease) leave(who *identity) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.who == who {
		l.unfit = who
	}
}

// leaving reports whether leave was called and not heard yet.
func (l *lease) leaving(who *identity) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.unfit == who
}

// prolong prolongs a lease that is not over in Redis, and sees to it that the set of
// the node's rooms is whole.
func (l *lease) prolong(ctx context.Context, who *identity, until time.Time) (kept bool, err error) {
	ctx, cancel := l.attempt(ctx, until)
	defer cancel()
	before, sent := who.rooms.size(), time.Now()
	rooms, err := l.send(ctx, who, who.sure)
	if err != nil || rooms < 0 {
		return false, err
	}
	l.set(who, sent)
	if rooms >= min(before, who.rooms.size()) {
		return true, nil
	}
	for chunk := range slices.Chunk(who.rooms.all(), listChunk) {
		if err := l.note(ctx, who, "add", chunk...); err != nil {
			return true, fmt.Errorf("note the node's rooms again: %w", err)
		}
	}
	return true, nil
}

// errLeaseOver: the node's lease is over in Redis.
var errLeaseOver = errors.New("the node's lease is over")

// note notes in Redis that the node may have members in some rooms ("add"), or that it
// has none there ("remove"). If it fails it may have been carried out; but it is not once
// a later one has been.
func (l *lease) note(ctx context.Context, who *identity, verb string, ids ...string) error {
	if verb == "add" {
		who.rooms.add(ids...) // also if it fails
	}
	keys, args := l.keysOf(who)[:2], make([]any, 2, 2+len(ids))
	for _, id := range ids {
		args = append(args, id)
	}
	for {
		beat := who.beat.Load()
		args[0], args[1] = verb, beat
		done, err := 0, error(nil)
		if l.store.acksNodes() {
			done, err = l.store.runAcked(ctx, leaseRoomsLua, keys, args...)
		} else {
			done, err = runScript(ctx, l.store.client, leaseRoomsScript, keys, args...).Int()
		}
		switch {
		case err != nil:
			who.beat.Add(1) // what comes after this must not be undone by it
			return err
		case done == 1:
			return nil
		case who.beat.Load() == beat:
			return errLeaseOver
		}
	}
}

func (l *lease) begin(ctx context.Context, who *identity) error {
	ctx, cancel := l.attempt(ctx, time.Time{})
	defer cancel()
	sent := time.Now()
	_, err := l.send(ctx, who, 0)
	if err == nil {
		l.set(who, sent)
	}
	return err
}

// send begins a lease, or prolongs the one that Redis has had with a beat.
func (l *lease) send(ctx context.Context, who *identity, had int64) (rooms int, err error) {
	beat, prolong := who.beat.Add(1), ""
	if had > 0 {
		prolong = strconv.FormatInt(had, 10)
	}
	keys, args := l.keysOf(who), []any{who.node, l.ttl.Milliseconds(), l.grace.Milliseconds(), beat, prolong}
	if l.store.acksNodes() {
		rooms, err = l.store.runAcked(ctx, leaseLua, keys, args...)
	} else {
		rooms, err = runScript(ctx, l.store.client, leaseScript, keys, args...).Int()
	}
	if err == nil && rooms >= 0 {
		who.sure = beat
	}
	return rooms, err
}

// move begins a lease at another home, on a master that has not just failed.
func (l *lease) move(ctx context.Context, home, name string, why error) error {
	failed, away := []error{why}, []string{l.masterOf(ctx, home)}
	for _, i := range rand.Perm(len(homes)) {
		if ctx.Err() != nil || len(failed) > maxHomes {
			break
		}
		master := l.masterOf(ctx, homes[i])
		if slices.Contains(away, master) {
			continue
		}
		err := l.begin(ctx, newIdentity(homes[i]+name))
		if err == nil {
			return nil
		}
		failed, away = append(failed, err), append(away, master)
	}
	return errors.Join(failed...)
}

func (l *lease) masterOf(ctx context.Context, home string) string {
	ctx, cancel := l.attempt(ctx, time.Time{})
	defer cancel()
	return masterOf(ctx, l.store.client, home)
}

// attempt bounds a request: it ends with the lease. A lease that is about to end gets a
// little more, so that it is not given up for a short stall; where there is no other
// home, a TTL.
func (l *lease) attempt(ctx context.Context, until time.Time) (context.Context, context.CancelFunc) {
	least := l.ttl
	if l.store.cluster {
		least /= 3
	}
	return context.WithTimeout(ctx, max(least, time.Until(until)))
}

func (l *lease) set(who *identity, sent time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.who != who {
		l.unfit = nil
	}
	if l.who != who || l.until.IsZero() {
		l.began = sent
	}
	l.who, l.until = who, sent.Add(l.ttl)
	l.names.believed(who.node, l.until)
}

// split returns the home and the rest of a node's name.
func (l *lease) split(node string) (home, name string) {
	if !l.store.cluster {
		return "", node
	}
	return splitNode(node)
}

// keysOf returns the keys of a lease. On Cluster they share a slot.
func (l *lease) keysOf(who *identity) []string {
	list := nodesKey
	if home, _ := l.split(who.node); home != "" {
		list += ":" + home
	}
	return []string{nodeKey(who.node), nodeRoomsKey(who.node), list}
}

// end gives the lease back, also if ctx has ended: the grace of its members begins.
// There is no attempt after it.
func (l *lease) end(ctx context.Context) error {
	l.kill()
	_, _, _ = l.attempts.Do("", func() (any, error) { return nil, ErrClosed }) // waits for one that is under way
	l.mu.Lock()
	who, first := l.who, l.until.IsZero()
	l.until = time.Now()
	l.mu.Unlock()
	if first {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), endTimeout)
	defer cancel()
	return runScript(ctx, l.store.client, leaseEndScript, l.keysOf(who), who.node).Err()
}
