package coordinator

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"roomd/room"
)

// simProgress is within how much of virtual time everything works again when the faults are over.
const simProgress = 30 * time.Second

// settle looks, when the faults are over, whether everything goes on by itself, and whether nodes, Redis and
// players agree.
func (w *simWorld) settle() {
	healed := time.Now()
	until := func(what string, try func() (why string)) {
		for {
			why := try()
			if why == "" {
				return
			}
			if w.open.Err() != nil {
				return
			}
			if time.Since(healed) > simProgress {
				w.wrong("%v after the faults were over: %s: %s", simProgress, what, why)
				return
			}
			time.Sleep(100 * time.Millisecond)
		}
	}
	nodes := w.living()
	for _, p := range w.players[:simRooms] { // one of each room
		for _, n := range nodes {
			until(fmt.Sprintf("somebody speaks in room %s by node %d", p.room, n), func() string {
				p.moveTo(n)
				return simFailed(p.say(simProgress))
			})
		}
	}
	for i, p := range w.players {
		p.moveTo(nodes[i%len(nodes)])
		for session, last := "", "-"; ; last = session {
			if session, _ = p.now(); session == "" || session == last {
				break
			}
			until(p.user+" leaves", func() string { return simFailed(p.leave(simProgress, session), "not a member") })
		}
	}
	until("reserved seats are given up", func() string {
		w.giveUp(nodes[0], simProgress)
		return strings.Join(slices.Collect(maps.Keys(w.reservations())), " ")
	})
	want := make(map[string][]string)
	for _, p := range w.players[:simRooms*(simSeats-1)] {
		until(p.user+" joins", func() string { return simFailed(p.join(simProgress)) })
		want[p.room] = append(want[p.room], p.user)
	}
	for _, id := range w.rooms {
		until("all agree about room "+id, func() string { return w.disagree(id, want[id]) })
	}
	for _, p := range w.players {
		if session, _ := p.now(); session != "" {
			until(p.user+" leaves in the end", func() string { return simFailed(p.leave(simProgress, session)) })
		}
	}
}

// simFailed returns why an action failed, "" if it did not, or in one of these ways.
func simFailed(a *simAction, or ...string) string {
	if a.outcome == simDone || slices.Contains(or, a.why) {
		return ""
	}
	return a.outcome + ", " + a.why
}

// disagree says in what the nodes, Redis, the watchers and the players differ about a room.
func (w *simWorld) disagree(id string, want []string) string {
	ctx := context.Background()
	users, err := w.server.admin.HGetAll(ctx, "Room:"+id+":Users").Result()
	if err != nil {
		return err.Error()
	}
	slices.Sort(want)
	if has := slices.Sorted(maps.Keys(users)); !slices.Equal(has, want) {
		return fmt.Sprintf("Redis has %v, and %v are in the room", has, want)
	}
	meta, err := w.server.admin.HMGet(ctx, "Room:"+id+":Meta", "epoch", "version").Result()
	if err != nil {
		return err.Error()
	}
	at := fmt.Sprint(meta[0], "/", meta[1])
	for _, n := range w.living() {
		s, err := w.nodes[n].Read(ctx, id)
		if is := fmt.Sprint(s.Epoch, "/", s.Version); err != nil || is != at || s.Count() != len(want) {
			return fmt.Sprintf("node %d reads %s with %s, %v; Redis has %s", n, is, simSnapshot(s).list, err, at)
		}
		w.record.mu.Lock()
		events := w.record.events[n][id]
		w.record.mu.Unlock()
		if len(events) == 0 {
			return fmt.Sprintf("node %d was told nothing", n)
		}
		if last := events[len(events)-1]; fmt.Sprint(last.Epoch, "/", last.Version) != at {
			return fmt.Sprintf("node %d was told until %v, and Redis is at %s", n, last.simPosition, at)
		}
	}
	return ""
}

// end closes all nodes, and looks what is left in Redis.
func (w *simWorld) end() {
	ctx, cancel := context.WithTimeout(w.open, time.Hour) // nothing takes that long
	defer cancel()
	living := w.living()
	last := living[0]
	if w.open.Err() != nil { // it is known to be wrong
		for _, c := range w.nodes {
			_ = c.Close(ctx)
		}
		return
	}
	for n, c := range w.nodes {
		if n == last {
			continue
		}
		if err := c.Close(ctx); err != nil && !w.isDead(n) {
			w.wrong("node %d is not closed: %v", n, err)
		}
		if _, err := c.Do(ctx, "a", room.Say{Text: "late"}); !errors.Is(err, room.ErrClosed) {
			w.wrong("node %d is closed, and answers %v", n, err)
		}
	}
	w.wrongIf(w.leftBehind(ctx, nil))
	time.Sleep(2*(simNodeTTL+simGrace) + 2*unusedIdle)
	w.wrongIf(w.leftBehind(ctx, w.nodes[last]))
	if err := w.nodes[last].Close(ctx); err != nil {
		w.wrong("node %d is not closed: %v", last, err)
	}
	for n, l := range w.links {
		if w.isDead(n) {
			l.reset() // what it has sent never arrives
		}
	}
}

func (w *simWorld) wrongIf(text string) {
	if text != "" {
		w.wrong("%s", text)
	}
}

// leftBehind says which locks and waiters are left; and when all nodes but one have ended for long, which keys
// will stay for good, and which nodes are known besides that one.
func (w *simWorld) leftBehind(ctx context.Context, alone *Coordinator) string {
	all, err := w.server.save(ctx)
	if err != nil {
		return err.Error()
	}
	var left []string
	for _, k := range all.keys {
		switch {
		case strings.HasPrefix(k.name, "LockRoom:") && k.kind == "string" && !strings.HasSuffix(k.name, ":Fence"):
			left = append(left, fmt.Sprintf("%s is %v", k.name, k.value))
		case strings.HasSuffix(k.name, ":Queue"):
			for i := 1; i < len(k.value); i += 2 {
				if len(k.value[i]) < len("1e+18") || !strings.Contains(k.value[i], "e+18") && len(k.value[i]) < 19 { // else it is buried
					left = append(left, fmt.Sprintf("%s waits in %s", k.value[i-1], k.name))
				}
			}
		case alone == nil || k.ttl != 0 || k.name == unprefixed.NodeRooms(alone.Node()):
		case k.name != unprefixed.Nodes(""):
			left = append(left, fmt.Sprintf("%s has no end: %v", k.name, k.value))
		case len(k.value) != 2 || !slices.Contains(k.value, alone.Node()):
			left = append(left, fmt.Sprintf("the nodes known are %v, and only %s lives", k.value, alone.Node()))
		}
	}
	return strings.Join(left, "; ")
}

// article is a client as in the article: it takes a lock by SET NX EX, stands still, and gives the lock back if it
// still has it.
func (w *simWorld) article(ctx context.Context, id string, lasts time.Duration) error {
	const ttl = simLockTTL
	key, token := unprefixed.LockPrefix()+id, w.name("article")
	for end := time.Now().Add(5 * time.Second); time.Now().Before(end); time.Sleep(5 * time.Millisecond) {
		sent := time.Now()
		taken, err := w.server.admin.SetNX(ctx, key, token, ttl).Result()
		if err != nil {
			return err
		}
		if taken {
			got := time.Now()
			time.Sleep(lasts)
			w.record.holds(id, got, earliest(time.Now(), sent.Add(ttl)))
			return w.server.admin.Eval(ctx, `if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end return 0`, []string{key}, token).Err()
		}
	}
	return nil // others are always faster
}

func earliest(a, b time.Time) time.Time {
	if a.Before(b) {
		return a
	}
	return b
}
