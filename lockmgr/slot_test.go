package lockmgr

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"

	"roomd/lockmgr/redistest"
)

// take asks for the lock as a slot's own scripts do, and waits in the queue.
var take = NewScript(`return lock_take(1, ARGV[3], 3000, 60000) and 1 or 0`)

func newSlot(t *testing.T, m *Manager) *Slot {
	t.Helper()
	s, err := m.Slot("a")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	return s
}

// asks returns what Slot.Acquire needs to ask by take.
func asks(s *Slot) func(context.Context) (bool, error) {
	return func(ctx context.Context) (bool, error) {
		cmd, err := s.Ask(ctx, take, s.Token())
		if err != nil {
			return false, err
		}
		return cmd.Bool()
	}
}

// A slot that waits in the queue gets the lock without another poll, and gives it back.
func TestSlotAcquire(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		managers, clients := nodes(t, 2, Options{Poll: time.Second})
		holder := mustAcquire(t, managers[0], "a")
		s := newSlot(t, managers[1])
		got := make(chan error, 1)
		go func() { got <- s.Acquire(t.Context(), asks(s)) }()
		synctest.Wait()
		time.Sleep(time.Millisecond)
		start := time.Now()
		mustRelease(t, holder)
		if err := redistest.Receive(t, got, "the slot to get the lock"); err != nil || time.Since(start) > 0 {
			t.Errorf("%v after %v", err, time.Since(start))
		}
		if token := clients[0].Get(t.Context(), "Lock:a").Val(); token != s.Token() {
			t.Errorf("the lock holds %q", token)
		}
		s.Leave()
		checkClean(t, clients[0])
	})
}

// A wake-up for a token that was renewed since gives the slot nothing.
func TestAWakeUpForAnEarlierToken(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		managers, _ := nodes(t, 2, Options{Poll: time.Second})
		s := newSlot(t, managers[1])
		waits := func() (held bool) {
			if held, err := asks(s)(t.Context()); held || err != nil {
				t.Fatalf("asked: %v, %v", held, err)
			}
			held, err := s.Wait(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			return held
		}
		holder := mustAcquire(t, managers[0], "a")
		if waits() {
			t.Fatal("it has the lock of another")
		}
		mustRelease(t, holder)
		synctest.Wait() // the wake-up has come
		s.Leave()
		holder = mustAcquire(t, managers[0], "a")
		if waits() {
			t.Error("it took the wake-up for its new token")
		}
		s.Leave()
		mustRelease(t, holder)
	})
}

// Whoever uses a slot after Close, or after that of its Manager, subscribes to nothing.
func TestAClosedSlotDoesNotListen(t *testing.T) {
	for name, end := range map[string]func(*Manager, *Slot){
		"slot":    func(_ *Manager, s *Slot) { s.Close() },
		"manager": func(m *Manager, _ *Slot) { m.Close() },
	} {
		synctest.Test(t, func(t *testing.T) {
			managers, _ := nodes(t, 1, Options{})
			m := managers[0]
			s := newSlot(t, m)
			end(m, s)
			if _, err := s.Wait(t.Context()); err != nil && !errors.Is(err, ErrClosed) {
				t.Errorf("%s: %v", name, err)
			}
			m.wakes.mu.Lock()
			defer m.wakes.mu.Unlock()
			if len(m.wakes.locks) > 0 {
				t.Errorf("%s: it listens", name)
			}
		})
	}
}

// AskPlainly takes a free lock only.
func TestAskPlainly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		managers, clients := nodes(t, 2, Options{})
		s, other := newSlot(t, managers[0]), newSlot(t, managers[1])
		if taken, err := s.AskPlainly(t.Context()); !taken || err != nil {
			t.Errorf("a free lock: %v, %v", taken, err)
		}
		if taken, err := other.AskPlainly(t.Context()); taken || err != nil {
			t.Errorf("a lock of another: %v, %v", taken, err)
		}
		other.Leave()
		s.Return(s.Token())
		checkClean(t, clients[0])
	})
}

// Return cleans up once more after Redis has answered: a request that carried the token may have
// waited unread in a connection.
func TestReturnComesAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		managers, clients := nodes(t, 2, Options{TTL: time.Minute})
		s := newSlot(t, managers[0])
		token := s.Token()
		late := newSlot(t, managers[1])
		left := 0
		clients[0].AddHook(redistest.Hook{After: func(ctx context.Context, cmd redis.Cmder) error {
			if !isScript(cmd, leaveScript) {
				return nil
			}
			if left++; left == 1 {
				return late.Run(ctx, take, token).Err()
			}
			return nil
		}})
		s.Renew()
		s.Return(token)
		managers[0].Close()
		checkClean(t, clients[1])
	})
}
