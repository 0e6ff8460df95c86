package coordinator

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"

	"roomd/lockmgr/redisconn/embedded"
	"roomd/lockmgr/redistest"
	"roomd/room"
)

// timerLog is what a watcher of room 42 hears of its timers, with the times.
type timerLog struct {
	t     *testing.T
	began time.Time

	mu   sync.Mutex
	told []string
}

func watchTimers(t *testing.T, c *Coordinator) *timerLog {
	t.Helper()
	l := &timerLog{t: t, began: time.Now()}
	stop, err := c.Watch(t.Context(), "42", func(e *room.Event) {
		l.mu.Lock()
		defer l.mu.Unlock()
		for _, change := range e.Changes {
			if change.Type == "timer" {
				l.told = append(l.told, fmt.Sprintf("%s at %.1fs", change.Timer.Name, time.Since(l.began).Seconds()))
			}
		}
	})
	redistest.OK(t, err)
	t.Cleanup(stop)
	return l
}

// fired waits for so long, and returns which timers have fired when, since the last time.
func (l *timerLog) fired(in time.Duration) []string {
	time.Sleep(in)
	synctest.Wait()
	l.mu.Lock()
	defer l.mu.Unlock()
	told := l.told
	l.told = nil
	return told
}

func (l *timerLog) expect(in time.Duration, want ...string) {
	l.t.Helper()
	told := l.fired(in)
	redistest.ErrorIf(l.t, !slices.Equal(told, want), "fired: %v, want %v", told, want)
}

func setTimer(t *testing.T, c *Coordinator, name string, in time.Duration) {
	t.Helper()
	mustDo(t, c, "42", room.SetTimer{Name: name, In: in.Milliseconds()})
}

// timerNodes returns nodes on one Redis, each with a clock that is another one's, and a log by the last. Room 42 has
// begun.
func timerNodes(t *testing.T, mini *embedded.Redis, n int) (nodes []*Coordinator, l *timerLog) {
	t.Helper()
	for range n {
		c := newCoordinator(t, redistest.MiniClient(t, mini), Options{})
		redistest.OK(t, c.Start(t.Context()))
		nodes = append(nodes, c)
	}
	mustDo(t, nodes[0], "42", room.Join{User: "a", Session: "s"})
	return nodes, watchTimers(t, nodes[n-1])
}

// expectIndex waits until the index has such rooms' entries.
func expectIndex(t *testing.T, rdb *redis.Client, want ...string) {
	t.Helper()
	var rooms []string
	for _, e := range rdb.ZRange(t.Context(), unprefixed.Timers(), 0, -1).Val() {
		id, _, _ := strings.Cut(e, ":")
		rooms = append(rooms, id)
	}
	redistest.ErrorIf(t, !slices.Equal(rooms, want), "the index has timers of the rooms %v, want %v", rooms, want)
}

func TestTimers_FireOnTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		mini, rdb := redistest.Mini(t)
		nodes, l := timerNodes(t, mini, 4)
		setTimer(t, nodes[0], "turn", 10*time.Second)
		setTimer(t, nodes[0], "game", 2*time.Minute)
		setTimer(t, nodes[1], "soon", 0)
		l.expect(time.Second, "soon at 0.0s")
		time.Sleep(4 * time.Second)
		setTimer(t, nodes[1], "turn", 10*time.Second) // another node sets it anew
		l.expect(9900 * time.Millisecond)
		l.expect(5*time.Second, "turn at 15.0s")
		mustDo(t, nodes[2], "42", room.SetTimer{Name: "game", Stop: true})
		l.expect(3 * time.Minute)
		expectIndex(t, rdb)
		redistest.Equal(t, "keys of timers", rdb.Exists(t.Context(), unprefixed.Timers()).Val(), 0)
	})
}

// Timers of a room that are set in one moment for the same time are due one after the other: each has an entry of its own,
// and one that fires does not take another's with it.
func TestTimers_SameMoment(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		mini, rdb := redistest.Mini(t)
		nodes, l := timerNodes(t, mini, 2)
		for _, name := range []string{"a", "b", "c"} {
			setTimer(t, nodes[0], name, 10*time.Second)
		}
		expectIndex(t, rdb, "42", "42", "42")
		l.expect(11*time.Second, "a at 10.0s", "b at 10.0s", "c at 10.0s")
		l.expect(2 * time.Second)
		expectIndex(t, rdb)
	})
}

// A node has died some time before its timers are due, or was stopped. Then they fire on time.
func TestTimers_SetterIsGone(t *testing.T) {
	for name, leave := range map[string]func(t *testing.T, c *Coordinator){
		"died":    func(_ *testing.T, c *Coordinator) { die(c) },
		"stopped": func(t *testing.T, c *Coordinator) { redistest.OK(t, c.Close(t.Context())) },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				mini, rdb := redistest.Mini(t)
				nodes, l := timerNodes(t, mini, 4)
				mustDo(t, nodes[0], "42", room.Configure{Settings: room.Settings{Keep: true}})
				setTimer(t, nodes[0], "turn", 20*time.Second)
				setTimer(t, nodes[0], "game", 40*time.Second)
				setTimer(t, nodes[1], "other", 30*time.Second)
				leave(t, nodes[0])
				l.expect(19 * time.Second)
				setTimer(t, nodes[2], "game", 31*time.Second) // instead of that of the node that is gone
				l.expect(12*time.Second, "turn at 20.0s", "other at 30.0s")
				l.expect(10 * time.Second)
				l.expect(10*time.Second, "game at 50.0s")
				l.expect(2 * time.Minute)
				expectIndex(t, rdb)
			})
		})
	}
}

// Redis is away when a timer is due. It fires as soon as Redis is back, also if Redis has lost the index meanwhile.
func TestTimers_RedisAway(t *testing.T) {
	for _, lost := range []bool{false, true} {
		t.Run(fmt.Sprint("index lost ", lost), func(t *testing.T) { synctest.Test(t, func(t *testing.T) { redisAway(t, lost) }) })
	}
}

func redisAway(t *testing.T, lost bool) {
	mini, rdb := redistest.Mini(t)
	var away atomic.Bool
	var nodes []*Coordinator
	for range 3 {
		client := redistest.MiniClient(t, mini)
		client.AddHook(redistest.Hook{Before: func(context.Context, redis.Cmder) error {
			if away.Load() {
				return errors.New("redis is away")
			}
			return nil
		}})
		nodes = append(nodes, newCoordinator(t, client, Options{}))
	}
	mustDo(t, nodes[0], "42", room.Join{User: "a", Session: "s"})
	redistest.OK(t, nodes[1].Start(t.Context()))
	watcher := newCoordinator(t, redistest.MiniClient(t, mini), Options{}) // it does nothing itself
	l := watchTimers(t, watcher)
	setTimer(t, nodes[0], "turn", time.Second)
	away.Store(true)
	expectRefused(t, "a timer is set while Redis is away", nodes[0], "42", room.SetTimer{Name: "other"}, room.ErrUnavailable)
	l.expect(3100 * time.Millisecond)
	if lost {
		rdb.Del(t.Context(), unprefixed.Timers())
	}
	away.Store(false)
	redistest.Equal(t, "timers that have fired", len(l.fired(time.Second)), 1)
	l.expect(2 * time.Minute)
}

// The clock of Redis is an hour behind those of the nodes, and then is set forward by ten minutes.
func TestTimers_ClockOfRedis(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		mini, _ := redistest.Mini(t)
		behind := func(d time.Duration) { mini.SetTime(time.Now().Add(-d)) }
		behind(time.Hour)
		nodes, l := timerNodes(t, mini, 2)
		setTimer(t, nodes[0], "turn", 0)
		l.expect(time.Second, "turn at 0.0s")
		at := mustDo(t, nodes[0], "42", room.SetTimer{Name: "turn", In: 5000}).Timers().ByName["turn"].Due
		left := at - nodes[1].Now()
		redistest.ErrorIf(t, left < 4000 || left > 5000+1500, "another node shows %d ms, and there are 5000", left)
		behind(50 * time.Minute)
		const poll = 1250 * time.Millisecond // the longest pause between two polls of a node
		redistest.Equal(t, "timers that have fired", len(l.fired(poll)), 1)
	})
}

// A timer that was refused leaves no entry for long, and neither does one whose room Redis has forgotten.
func TestTimers_EntriesEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		mini, rdb := redistest.Mini(t)
		nodes, l := timerNodes(t, mini, 2)
		day := room.SetTimer{User: "stranger", Session: "x", Name: "turn", In: room.MaxTimer}
		expectRefused(t, "a stranger's timer", nodes[0], "42", day, room.ErrNotMember)
		l.expect(2 * time.Second)
		expectIndex(t, rdb)
		setTimer(t, nodes[0], "turn", 10*time.Second)
		rdb.Del(t.Context(), "Room:42:Users", "Room:42:Meta")
		l.expect(time.Minute)
		expectIndex(t, rdb, "42") // a commit might be under way
		l.expect(time.Minute)
		expectIndex(t, rdb)
	})
}

// A timer that another node has taken away, or that is forgotten with its room, leaves nothing behind until it would have
// been due. Somebody who comes back before Redis forgets the room finds it, and one that is set while its node looks stays.
func TestTimers_NothingStays(t *testing.T) {
	leave := func(t *testing.T, c *Coordinator) { mustDo(t, c, "42", room.Leave{User: "a", Session: "s"}) }
	cancel := func(t *testing.T, c *Coordinator) {
		for i := range 8 {
			mustDo(t, c, "42", room.SetTimer{Name: fmt.Sprint(i), Stop: true})
		}
	}
	for name, c := range map[string]struct {
		end  func(t *testing.T, other *Coordinator)
		left []string
	}{
		"forgotten":     {leave, nil},
		"cancelled":     {cancel, nil},
		"set meanwhile": {cancel, []string{"42"}},
		"back in time": {func(t *testing.T, other *Coordinator) {
			leave(t, other)
			time.Sleep(unusedIdle - time.Second)
			mustDo(t, other, "42", room.Join{User: "b", Session: "t"})
		}, slices.Repeat([]string{"42"}, 8)},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				mini, rdb := redistest.Mini(t)
				var reads atomic.Int64
				var late sync.Once
				client := redistest.MiniClient(t, mini)
				var setter, other *Coordinator
				client.AddHook(redistest.Hook{After: func(_ context.Context, cmd redis.Cmder) error {
					if cmd.Name() == "hget" && cmd.Args()[1] == "Room:42:Meta" {
						reads.Add(1)
						if name == "set meanwhile" {
							late.Do(func() { setTimer(t, setter, "late", 8*time.Minute) })
						}
					}
					return nil
				}})
				setter, other = newCoordinator(t, client, Options{}), newCoordinator(t, redistest.MiniClient(t, mini), Options{})
				redistest.OK(t, errors.Join(setter.Start(t.Context()), other.Start(t.Context())))
				mustDo(t, setter, "42", room.Join{User: "a", Session: "s"})
				for i := range 8 {
					setTimer(t, setter, fmt.Sprint(i), 10*time.Minute)
				}
				c.end(t, other)
				time.Sleep(4 * time.Minute)
				expectIndex(t, rdb, c.left...)
				reads.Store(0)
				time.Sleep(2 * time.Minute)
				if alarms := reads.Load() > 0; alarms != (c.left != nil) {
					t.Errorf("the node that has set the timers still has alarms: %v", alarms)
				}
				l := watchTimers(t, other)
				redistest.Equal(t, "timers that have fired", len(l.fired(5*time.Minute)), len(c.left))
			})
		})
	}
}

// Redis has lost the index: it is written again by the node that has set the timer, and by who reads the room.
func TestTimers_IndexIsLost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		mini, rdb := redistest.Mini(t)
		nodes, _ := timerNodes(t, mini, 2)
		setTimer(t, nodes[0], "turn", time.Hour)
		rdb.Del(t.Context(), unprefixed.Timers())
		time.Sleep(2 * time.Minute)
		expectIndex(t, rdb, "42")
		die(nodes[0])
		rdb.Del(t.Context(), unprefixed.Timers())
		mustDo(t, nodes[1], "42", room.Say{Text: "hello"})
		time.Sleep(2 * time.Second)
		expectIndex(t, rdb, "42")
	})
}

// The index is on another master than the room.
func TestTimers_Cluster(t *testing.T) {
	redistest.Thorough(t)
	t.Parallel() // it mostly waits
	cluster := redistest.StartCluster(t)
	first, second := newCoordinator(t, cluster.Client(), Options{}), newCoordinator(t, cluster.Client(), Options{})
	redistest.OK(t, second.Start(t.Context()))
	var fired atomic.Int64
	for i := range 20 {
		id := fmt.Sprint("r", i)
		stop, err := second.Watch(t.Context(), id, func(e *room.Event) {
			for _, c := range e.Changes {
				if c.Type == "timer" {
					fired.Add(1)
				}
			}
		})
		redistest.OK(t, err)
		defer stop()
		mustDo(t, first, id, room.Join{User: "a", Session: "s"})
		mustDo(t, first, id, room.SetTimer{Name: "turn", In: 1000})
	}
	die(first)
	redistest.Until(t, "all have fired", func() bool { return fired.Load() == 20 })
	client := cluster.Client()
	awaitUntil(t, longPatience, func() string {
		left, err := client.ZRangeWithScores(t.Context(), unprefixed.Timers(), 0, -1).Result()
		if err == nil && len(left) == 0 {
			return ""
		}
		return fmt.Sprintf("the index has %v (%v)", left, err)
	})
	redistest.Equal(t, "timers that have fired", fired.Load(), 20)
}
