package transport

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"testing"
	"testing/synctest"
	"time"

	"roomd/lockmgr/redistest"
	"roomd/room"
	"roomd/room/coordinator"
)

// waitUntil waits until look returns nil, and fails the test if that takes too long.
func waitUntil(t *testing.T, limit time.Duration, look func() error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		err := look()
		if err == nil {
			return
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			t.Fatalf("after %v: %v", limit, err)
		}
	}
}

// A real Redis is emptied, again and again, under the members of three nodes, some of whom ask for
// lists all the time. No member is ever shown a room without itself, nobody hears lost or joins
// again, and in the end everybody has the old seat and knows it.
func TestWholeView_RedisIsEmptied(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	const users = 30
	var nodes []*testNode
	for range 3 {
		nodes = append(nodes, startOn(t, server.Client(), coordinator.Options{LockTTL: time.Second, NodeTTL: time.Second}, Options{Rate: -1}))
	}
	var all []*oracle
	for i := range users {
		o := nodes[i%len(nodes)].connectOracle(t, fmt.Sprintf("u%02d", i))
		o.ask(t, "join", fmt.Sprintf(`,"seat":%d`, i))
		if i%5 == 0 {
			o.ask(t, "watch", "")
		}
		all = append(all, o)
	}
	allBack := func() error {
		now, err := nodes[0].rooms.Read(t.Context(), "42")
		if err != nil {
			return err
		}
		for i, o := range all {
			if seat, in := seatsOf(now)[o.user]; !in || seat != i {
				return fmt.Errorf("%s is not on its seat: %v", o.user, seatsOf(now))
			}
			if err := o.knows(now); err != nil {
				return err
			}
		}
		return nil
	}
	waitUntil(t, testTimeout, allBack)
	rdb := server.Client()
	for round := range 3 {
		rdb.FlushAll(t.Context())
		for i, o := range all {
			switch {
			case i%3 == round:
				o.ask(t, "users", "")
			case i%5 == round:
				o.ask(t, "watch", "")
			}
		}
		waitUntil(t, 3*testTimeout, func() error {
			if now, err := nodes[0].rooms.Read(t.Context(), "42"); err != nil || now.Count() == 0 {
				return errors.Join(err, errors.New("the room is empty"))
			}
			return allBack()
		})
	}
	for _, o := range all {
		o.report(t)
		redistest.ErrorIf(t, o.losses > 0 || o.gone,
			"%s heard lost: %v, lost the connection: %v", o.user, o.losses > 0, o.gone)
	}
}

// Redis loses this and that, nodes are cut off, events come late, members are removed, some clients read slowly, and
// all ask for all kinds of things meanwhile. No member is ever shown a room without itself, and in the
// end each client knows the room.
func TestWholeView_NoRoomWithoutItself(t *testing.T) {
	t.Parallel()
	for seed := range uint64(12) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			if seed > 2 {
				redistest.Thorough(t)
			}
			synctest.Test(t, func(t *testing.T) { runFaults(t, rand.New(rand.NewPCG(seed, 1))) })
		})
	}
}

// faultRun is one run of random faults and requests.
type faultRun struct {
	t      *testing.T
	random *rand.Rand
	nodes  []*testNode
	all    []*oracle
	over   []*oracle // of which others took all rooms over
}

func runFaults(t *testing.T, random *rand.Rand) {
	r := &faultRun{t: t, random: random}
	rules := room.Rules{}
	if random.IntN(2) == 0 {
		rules.Seating = room.Capacity(7)
	}
	opts := Options{Rate: -1, MaxQueue: []int{0, 1000}[random.IntN(2)]}
	r.nodes = append(r.nodes, start(t, rules, opts))
	for range 2 {
		r.nodes = append(r.nodes, r.nodes[0].beside(t, rules, opts))
	}
	for i := range 12 { // three of the users have two connections, to different nodes
		node := r.nodes[(i+i/9)%3]
		node.pipes.wrapNear = nil
		if i%4 == 3 {
			node.pipes.wrapNear = func(c net.Conn) net.Conn { return &slowConn{Conn: c, rnd: rand.New(rand.NewPCG(uint64(i), 1))} }
		}
		o := node.connectOracle(t, fmt.Sprintf("u%d", i%9))
		o.rivals = i%9 < 3
		r.all = append(r.all, o)
	}
	for _, o := range r.all[:6] {
		o.ask(t, "join", "")
	}
	for range 60 {
		for range random.IntN(3) {
			r.request()
		}
		time.Sleep([]time.Duration{0, time.Millisecond, 30 * time.Millisecond, time.Second}[random.IntN(4)])
		if random.IntN(4) == 0 {
			r.fault()
		}
		if random.IntN(20) == 0 {
			time.Sleep(20 * time.Second)
		}
	}
	for _, n := range r.nodes {
		n.redisNet.resume()
	}
	time.Sleep(5 * time.Minute)
	synctest.Wait()
	now, err := r.nodes[0].rooms.Read(t.Context(), "42")
	redistest.OK(t, err)
	time.Sleep(time.Minute)
	gone := 0
	for _, o := range r.all {
		if o.gone {
			gone++
		}
		redistest.OK(t, o.knows(now))
	}
	for _, o := range append(r.all, r.over...) {
		o.report(t)
	}
	r.checkSpeakers(now)
	redistest.ErrorIf(t, gone > len(r.all)/2, "%d clients lost their connection, so there was little to see", gone)
}

// checkSpeakers expects that a user who is in the room has one connection that knows it, and each other user none.
func (r *faultRun) checkSpeakers(now room.Snapshot) {
	seats, speak, unsure := seatsOf(now), map[string]int{}, map[string]bool{}
	for _, o := range r.all {
		speak[o.user] += map[bool]int{true: 1}[o.member && !o.gone]
		unsure[o.user] = unsure[o.user] || o.unsure || o.gone && !o.over
	}
	for user, n := range speak {
		_, in := seats[user]
		redistest.ErrorIf(r.t, !unsure[user] && (n != 0) != in || n > 1,
			"%s is in the room: %v, and %d connections speak for it", user, in, n)
	}
}

func (r *faultRun) request() {
	actions := []string{"users", "users", "watch", "unwatch", "leave", "join", "join"}
	i := r.random.IntN(len(r.all))
	o := r.all[i]
	o.mu.Lock()
	busy, over := len(o.asked) > 2, o.over
	o.mu.Unlock()
	if over {
		o, r.over = r.nodes[r.random.IntN(3)].connectOracle(r.t, o.user), append(r.over, o)
		r.all[i], o.rivals = o, true
	}
	if !busy {
		o.ask(r.t, actions[r.random.IntN(len(actions))], "")
	}
}

func (r *faultRun) fault() {
	node := r.nodes[r.random.IntN(len(r.nodes))]
	rdb, ctx := node.redis, r.t.Context()
	switch r.random.IntN(8) {
	case 0:
		rdb.FlushAll(ctx)
	case 1:
		rdb.Del(ctx, "Node:"+node.rooms.Node())
	case 2:
		node.redisNet.cutEvents()
	case 3:
		node.redisNet.holdEvents()
	case 4:
		node.redisNet.stop()
	case 5: // until the others remove its members
		node.redisNet.stop()
		time.Sleep(20 * time.Second)
	case 6: // one key, or both
		keys := []string{"Room:42:Users", "Room:42:Meta"}
		rdb.Del(ctx, keys[r.random.IntN(2):]...)
	case 7: // a member, as with a node that is taken for dead
		for _, o := range r.all {
			if o.session != "" && r.random.IntN(3) == 0 {
				_, _ = node.rooms.Do(ctx, "42", room.Leave{User: o.user, Session: o.session, Reason: "node"})
			}
		}
	}
	if r.random.IntN(2) == 0 {
		node.redisNet.resume()
	}
}
