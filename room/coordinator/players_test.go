package coordinator

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"roomd/lockmgr/redistest"
	"roomd/room"
)

// crowd is players who join and leave rooms as fast as they are answered, and remember the
// answers. Each is a user of their own.
type crowd struct {
	t       *testing.T
	players []*player
	rooms   []string
	nodes   []*Coordinator
	stop    context.CancelFunc
	wg      sync.WaitGroup

	mu      sync.Mutex
	forgets bool           // guarded by mu: Redis may lose what it has acknowledged
	told    int            // guarded by mu: actions that were acknowledged
	last    time.Time      // guarded by mu: when the last of them was
	silence time.Duration  // guarded by mu: the longest time without one
	failed  map[string]int // guarded by mu: how others ended
	news    chan struct{}  // guarded by mu: closed and made anew when anything ends
}

// player is one of them. The fields below are guarded by crowd.mu.
type player struct {
	node     *Coordinator
	id, user string

	in, out bool // what was acknowledged last; neither: it is not known
	told    int
}

// outcomes are how an action may end while Redis is in trouble.
var outcomes = []error{room.ErrUnknown, room.ErrUnavailable, room.ErrBusy}

// startCrowd sends players into every room through every node. They go on until
// finish is called.
func startCrowd(t *testing.T, nodes []*Coordinator, rooms []string, each int) *crowd {
	ctx, stop := context.WithCancel(t.Context())
	c := &crowd{
		t: t, rooms: rooms, nodes: nodes, stop: stop,
		last: time.Now(), failed: make(map[string]int), news: make(chan struct{}),
	}
	t.Cleanup(func() { stop(); c.wg.Wait() })
	for n, node := range nodes {
		for _, id := range rooms {
			for i := range each {
				p := &player{node: node, id: id, user: fmt.Sprintf("张三-%d-%d", n, i), out: true}
				c.players = append(c.players, p)
				c.wg.Go(func() { c.play(ctx, p) })
			}
		}
	}
	return c
}

// forgives lets Redis lose what it has acknowledged.
func (c *crowd) forgives() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.forgets = true
}

func (c *crowd) play(ctx context.Context, p *player) {
	for join := true; ctx.Err() == nil; join = !join {
		var a room.Action = room.Leave{User: p.user, Session: "s"}
		if join {
			a = room.Join{User: p.user, Session: "s"}
		}
		r, err := p.node.Do(c.t.Context(), p.id, a) // ends by itself
		c.note(p, join, r, err)
	}
}

// note remembers what an action came to, and fails the test if that may never be.
func (c *crowd) note(p *player, join bool, r room.Result, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	defer func() {
		close(c.news)
		c.news = make(chan struct{})
	}()
	switch i := slices.IndexFunc(outcomes, func(o error) bool { return errors.Is(err, o) }); {
	case err == nil:
		redistest.ErrorIf(c.t, has(r.Users(), p.user) != join,
			"room %s: %s joined: %v, and was answered %s", p.id, p.user, join, describeUsers(r.Users()))
		redistest.ErrorIf(c.t, !join && p.out && !c.forgets, "room %s: %s left twice", p.id, p.user)
		p.in, p.out = join, !join
	case errors.Is(err, room.ErrNotMember) && !join:
		redistest.ErrorIf(c.t, p.in && !c.forgets, "room %s: %s was in and is lost", p.id, p.user)
		p.in, p.out = false, true
	case i >= 0:
		if outcomes[i] == room.ErrUnknown {
			p.in, p.out = false, false
		}
		c.failed[outcomes[i].Error()]++
		c.failed[err.Error()]++
		return
	default:
		c.t.Errorf("room %s: %s: %v", p.id, p.user, err)
		return
	}
	p.told++
	c.told++
	c.silence = max(c.silence, time.Since(c.last))
	c.last = time.Now()
}

func has(users []room.Occupant, user string) bool {
	return slices.ContainsFunc(users, func(u room.Occupant) bool { return u.User == user })
}

// until waits until look, which is called with mu held, returns "".
func (c *crowd) until(look func() string) {
	c.t.Helper()
	for end := time.After(longPatience); ; {
		c.mu.Lock()
		missing, news := look(), c.news
		c.mu.Unlock()
		if missing == "" {
			return
		}
		select {
		case <-news:
		case <-end:
			c.t.Fatalf("after %v: %s", longPatience, missing)
		}
	}
}

// goOn waits until n more actions of every player in the given rooms, or in all if none is
// given, are acknowledged.
func (c *crowd) goOn(n int, rooms ...string) {
	c.t.Helper()
	want := make(map[*player]int)
	c.mu.Lock()
	for _, p := range c.players {
		if len(rooms) == 0 || slices.Contains(rooms, p.id) {
			want[p] = p.told + n
		}
	}
	c.mu.Unlock()
	c.until(func() string {
		for p, n := range want {
			if p.told < n {
				return fmt.Sprintf("room %s: %s is not answered any more", p.id, p.user)
			}
		}
		return ""
	})
}

// quiet returns the longest time without an acknowledged action since it was called
// last.
func (c *crowd) quiet() time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	silence := c.silence
	c.silence = 0
	return silence.Round(time.Millisecond)
}

// finish ends the actions and compares every room with the answers to its players, and the
// nodes' answers with Redis.
func (c *crowd) finish() {
	c.t.Helper()
	c.stop()
	c.wg.Wait()
	rooms := make(map[string]room.Snapshot)
	for _, id := range c.rooms {
		rooms[id] = c.look(id)
	}
	for _, p := range c.players {
		if in := has(rooms[p.id].Users(), p.user); !c.forgets && (p.in && !in || p.out && in) {
			c.t.Errorf("room %s: %s was told that it is in: %v, out: %v; in the list: %v", p.id, p.user, p.in, p.out, in)
		}
	}
	failed := make([]string, len(outcomes))
	for i, o := range outcomes {
		failed[i] = fmt.Sprintf("%d %v", c.failed[o.Error()], o)
	}
	c.t.Logf("%d actions acknowledged, %s; at most %v without one", c.told, strings.Join(failed, ", "), c.quiet())
}

// look returns a room after one more action of each node there. All nodes have to see the
// same list, and each action the next version.
func (c *crowd) look(id string) (s room.Snapshot) {
	c.t.Helper()
	s, err := c.nodes[0].Read(c.t.Context(), id)
	redistest.OK(c.t, err)
	for i, node := range c.nodes {
		r := mustDo(c.t, node, id, room.Join{User: fmt.Sprint("李四-", i), Session: "s"})
		now, err := node.Read(c.t.Context(), id)
		redistest.OK(c.t, err)
		told, there := describeUsers(r.Users()), describeUsers(now.Users())
		if told != there || now.Version != s.Version+1 || r.Version != now.Version || r.Epoch != now.Epoch || s.Epoch != now.Epoch {
			c.t.Errorf("room %s: node %d says %s at version %d, and there is %s at version %d after %d", id, i, told, r.Version, there, now.Version, s.Version)
		}
		seats := make(map[int]bool)
		for _, u := range now.Users() {
			redistest.ErrorIf(c.t, seats[u.Seat], "room %s: seat %d is given twice: %s", id, u.Seat, there)
			seats[u.Seat] = true
		}
		s = now
	}
	return s
}
