package lockmgr

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"

	"roomd/lockmgr/redistest"
)

// guardedWrite appends to a log if the lock is the writer's.
var guardedWrite = NewScript(`
	if not lock_holds(1, ARGV[3]) then return 0 end
	redis.call('RPUSH', KEYS[4], ARGV[4] .. ' ' .. ARGV[3])
	return 1`)

// model watches many holders of one lock in virtual time, and reports two that trust their
// holds at once, a caller that overtook a live waiter, and a stale holder that could write.
type model struct {
	t    *testing.T
	seed uint64
	rest time.Duration // of a worker between two holds, at most

	mu      sync.Mutex
	random  *rand.Rand           // guarded by mu
	waiting map[string]time.Time // guarded by mu: since when live tokens are in the queue
	had     map[string]bool      // guarded by mu: tokens that got the lock
	spans   []span               // guarded by mu
	counts  map[string]int       // guarded by mu: what happened, to see that it did
}

// span is the time during which a holder trusted its hold.
type span struct {
	from, to time.Time
	token    string
}

func (m *model) chance(percent float64) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.random.Float64() < percent/100
}

func (m *model) duration(max time.Duration) time.Duration {
	m.mu.Lock()
	defer m.mu.Unlock()
	return time.Duration(m.random.Int64N(int64(max)))
}

func (m *model) count(what string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.counts[what]++
}

// hook follows tokens through the queue by the replies of Redis, and loses some requests and
// replies.
func (m *model) hook() redistest.Hook {
	fault := errors.New("connection reset")
	return redistest.Hook{
		Before: func(_ context.Context, cmd redis.Cmder) error {
			if isScript(cmd, abandonScript) {
				m.mu.Lock()
				delete(m.waiting, argOf(cmd, 2)) // its caller has given up
				m.mu.Unlock()
			}
			if m.chance(0.3) {
				m.count("request lost")
				return fault
			}
			return nil
		},
		After: func(_ context.Context, cmd redis.Cmder) error {
			var fence, position string
			if script, ok := cmd.(*redis.Cmd); ok {
				fence, position = parseReply(script.Val())
			}
			switch {
			case (isScript(cmd, acquireScript) || isScript(cmd, tryScript)) && fence != "":
				m.granted(argOf(cmd, 2))
			case isScript(cmd, acquireScript):
				m.queued(argOf(cmd, 2))
			case isScript(cmd, passScript) && fence != "":
				m.granted(argOf(cmd, 3))
				m.count("passed within the process")
			case isScript(cmd, passScript) && position != "":
				m.queued(argOf(cmd, 3)) // the next waiter
			}
			if m.chance(0.3) {
				m.count("reply lost")
				return fault
			}
			return nil
		},
	}
}

// argOf returns the i-th ARGV of a script whose keys are a lock's.
func argOf(cmd redis.Cmder, i int) string { return fmt.Sprint(cmd.Args()[3+3+i]) }

func (m *model) queued(token string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if _, ok := m.waiting[token]; !ok {
		m.waiting[token] = time.Now()
	}
}

func (m *model) granted(token string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.had[token] { // passed on to it, and then found so by its own asking
		return
	}
	m.had[token] = true
	since, ok := m.waiting[token]
	if !ok {
		since = time.Now()
	}
	delete(m.waiting, token)
	for other, earlier := range m.waiting {
		redistest.ErrorIf(m.t, earlier.Before(since),
			"seed %d: %s, in the queue since %v, passed %s, since %v", m.seed, token, since, other, earlier)
	}
}

func (m *model) held(token string, from, to time.Time) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, s := range m.spans {
		redistest.ErrorIf(m.t, from.Before(s.to) && s.from.Before(to),
			"seed %d: %s held from %v to %v, and %s from %v to %v", m.seed, token, from, to, s.token, s.from, s.to)
	}
	m.spans = append(m.spans, span{from, to, token})
}

// work acquires the lock again and again, and does all that callers do with it.
func (m *model) work(locks *Manager, until time.Time) {
	for time.Now().Before(until) {
		ctx, cancel := context.WithTimeout(context.Background(), time.Millisecond+m.duration(4*time.Second))
		lock, err := locks.Acquire(ctx, "a")
		cancel()
		if err != nil {
			m.count("gave up")
			time.Sleep(m.duration(20 * time.Millisecond))
			continue
		}
		m.granted(lock.Token()) // known already, unless a wake-up brought it
		from := time.Now()
		pause := m.duration(30 * time.Millisecond)
		if m.chance(3) {
			m.count("stalled")
			pause = DefaultTTL/2 + m.duration(2*DefaultTTL)
		}
		time.Sleep(pause)
		written, err := locks.Run(context.Background(), guardedWrite, "a", []string{"log"}, lock.Token(), lock.Fence()).Int()
		if err == nil && written == 0 {
			m.count("stale write refused")
		}
		to := time.Now()
		if lock.Deadline().Before(to) {
			to = lock.Deadline()
		}
		if m.chance(2) {
			m.count("crashed")
			m.held(lock.Token(), from, lock.Deadline())
			continue
		}
		m.held(lock.Token(), from, to)
		_ = lock.Release(context.Background())
		if m.chance(50) {
			time.Sleep(m.duration(m.rest))
		}
	}
}

func TestModel(t *testing.T) {
	t.Parallel()
	totals := map[string]int{}
	for _, seed := range []uint64{0, 1, 3, 2, 4, 5} {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			if seed == 2 || seed > 3 {
				redistest.Thorough(t)
			}
			synctest.Test(t, func(t *testing.T) { testModel(t, seed, totals) })
		})
	}
	t.Log(totals)
	for _, what := range []string{"written", "gave up", "stalled", "crashed", "stale write refused", "request lost", "reply lost", "passed within the process"} {
		redistest.ErrorIf(t, totals[what] == 0, "in all runs it never happened: %s", what)
	}
}

// testModel runs the model with one seed, and adds what happened to totals.
func testModel(t *testing.T, seed uint64, totals map[string]int) {
	m := &model{t: t, seed: seed, rest: 40 * time.Millisecond, random: rand.New(rand.NewPCG(seed, 7)), waiting: map[string]time.Time{}, had: map[string]bool{}, counts: map[string]int{}}
	managers, clients := nodes(t, 4, Options{Poll: 20 * time.Millisecond})
	plain := clients[3]
	until := time.Now().Add(20 * time.Second)
	var wg sync.WaitGroup
	active := 1 + int(seed%3) // processes, with more workers each when they are fewer
	workers := 9 / active
	if seed > 2 { // so few that they find it free at times
		workers, m.rest = 1, time.Second
	}
	for i := range active {
		clients[i].AddHook(m.hook())
		for range workers {
			wg.Go(func() { m.work(managers[i], until) })
		}
	}
	wg.Wait()

	lastFence, lastToken, writes := int64(0), "", 0
	for _, line := range plain.LRange(t.Context(), "log", 0, -1).Val() {
		var fence int64
		var token string
		redistest.OK(t, redistest.Err(fmt.Sscan(line, &fence, &token)))
		redistest.ErrorIf(t, fence <= lastFence || token == lastToken,
			"seed %d: %s wrote under fence %d after %s under %d", seed, token, fence, lastToken, lastFence)
		lastFence, lastToken = fence, token
		writes++
	}
	plain.Del(t.Context(), "log")
	time.Sleep(keepQueue + 10*time.Minute) // also tokens that are buried, and who has crashed before them
	checkClean(t, plain)
	m.counts["written"] = writes
	for what, n := range m.counts {
		totals[what] += n
	}
}
