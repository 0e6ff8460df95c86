package lockmgr

import (
	"context"
	"errors"
	"io"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"

	"roomd/lockmgr/redistest"
)

// take asks for the lock as a slot's own scripts do, and waits in the queue.
var take = NewScript(`return lock_acquire(1, ARGV[3], 3000, 60000) and 1 or 0`)

func newSlot(t *testing.T, m *Manager) *Slot {
	t.Helper()
	s, err := m.Slot("a")
	redistest.OK(t, err)
	t.Cleanup(s.Close)
	return s
}

// asks returns what Slot.Acquire needs to ask by take.
func asks(s *Slot) func(context.Context) (bool, error) {
	return func(ctx context.Context) (bool, error) {
		cmd, err := s.Ask(ctx, take)
		if err != nil {
			return false, err
		}
		return cmd.Bool()
	}
}

// A slot that waits in the queue gets the lock without another poll, and gives it back.
func TestSlotAcquire(t *testing.T) {
	virtually(t, 2, Options{Poll: time.Second}, func(t *testing.T, managers []*Manager, clients []*redis.Client) {
		holder := mustAcquire(t, managers[0], "a")
		s := newSlot(t, managers[1])
		got := make(chan error, 1)
		go func() {
			alone, err := s.Acquire(t.Context(), false, asks(s))
			redistest.ErrorIf(t, alone, "it has met nobody, though it waited")
			got <- err
		}()
		synctest.Wait()
		time.Sleep(time.Millisecond)
		start := time.Now()
		mustRelease(t, holder)
		err := redistest.Receive(t, got, "the slot to get the lock")
		redistest.ErrorIf(t, err != nil || time.Since(start) > 0, "%v after %v", err, time.Since(start))
		redistest.Equal(t, "the lock holds", clients[0].Get(t.Context(), "Lock:a").Val(), s.Token())
		s.Abandon()
	})
}

// A slot hears the wake-up for its token, and none for one that was renewed since.
func TestAWakeUpForAnEarlierToken(t *testing.T) {
	virtually(t, 2, Options{Poll: time.Second}, func(t *testing.T, managers []*Manager, _ []*redis.Client) {
		s := newSlot(t, managers[1])
		waits := func() (held bool) {
			held, err := asks(s)(t.Context())
			redistest.FatalIf(t, held || err != nil, "asked: %v, %v", held, err)
			held, err = s.Wait(t.Context())
			redistest.OK(t, err)
			return held
		}
		holder := mustAcquire(t, managers[0], "a")
		redistest.FatalIf(t, waits(), "it has the lock of another")
		mustRelease(t, holder)
		synctest.Wait() // the wake-up has come
		s.Abandon()
		holder = mustAcquire(t, managers[0], "a")
		redistest.ErrorIf(t, waits(), "it took the wake-up for its new token")
		time.AfterFunc(time.Millisecond, func() { mustRelease(t, holder) })
		held, err := s.Wait(t.Context())
		redistest.ErrorIf(t, !held || err != nil, "it was woken: %v, %v", held, err)
		s.Abandon()
	})
}

// Whoever uses a slot after Close, or after that of its Manager, subscribes to nothing.
func TestAClosedSlotDoesNotListen(t *testing.T) {
	for name, end := range map[string]func(*Manager, *Slot){
		"slot":    func(_ *Manager, s *Slot) { s.Close() },
		"manager": func(m *Manager, _ *Slot) { m.Close() },
	} {
		virtually(t, 1, Options{}, func(t *testing.T, managers []*Manager, _ []*redis.Client) {
			m := managers[0]
			s := newSlot(t, m)
			end(m, s)
			_, err := s.Wait(t.Context())
			redistest.ErrorIf(t, err != nil && !errors.Is(err, ErrClosed), "%s: %v", name, err)
			m.wakes.mu.Lock()
			defer m.wakes.mu.Unlock()
			redistest.ErrorIf(t, len(m.wakes.locks) > 0, "%s: it listens", name)
		})
	}
}

// A slot that gets the lock when it asks again, without a wake-up, has met somebody; one that finds
// the lock free has not.
func TestSlotAcquireSaysWhetherItMetAnybody(t *testing.T) {
	virtually(t, 2, Options{Poll: 100 * time.Millisecond}, func(t *testing.T, managers []*Manager, clients []*redis.Client) {
		s := newSlot(t, managers[1])
		alone, err := s.Acquire(t.Context(), false, asks(s))
		redistest.ErrorIf(t, !alone || err != nil, "a free lock: %v, %v", alone, err)
		s.Abandon()
		holder := mustAcquire(t, managers[0], "a")
		time.AfterFunc(time.Second, func() { clients[0].Del(t.Context(), "Lock:a") }) // nobody is told
		if alone, err := s.Acquire(t.Context(), false, asks(s)); alone || err != nil {
			t.Errorf("a lock that was held: %v, %v", alone, err)
		}
		s.Abandon()
		redistest.ErrorIs(t, "the error is", holder.Release(t.Context()), ErrStolen)
	})
}

// refusal is an error by which Redis says that it has not carried out a request.
type refusal string

func (e refusal) Error() string { return string(e) }
func (refusal) RedisError()     {}

// A request was carried out, and the answer lost; it is sent again and answered, and, since nobody knows which token it was
// carried out under, once more: that Redis refuses this last one says nothing of the first.
func TestSlot_InDoubtAfterRefusal(t *testing.T) {
	_, client := redistest.Mini(t)
	m := newManager(t, client, Options{})
	s := newSlot(t, m)
	sent, answers := 0, []error{io.EOF, nil, refusal("TRYAGAIN"), nil}
	send := func(ctx context.Context, command []any) *redis.Cmd {
		cmd := client.Do(ctx, command...)
		if err := answers[sent]; err != nil {
			cmd.SetErr(err)
		}
		sent++
		return cmd
	}
	redistest.OK(t, take.Load(t.Context(), client).Err())
	for _, want := range []struct {
		err   error
		doubt bool
	}{{io.EOF, true}, {refusal("TRYAGAIN"), true}, {nil, false}} {
		if _, err := s.AskBy(t.Context(), send, take); err != want.err || s.InDoubt() != want.doubt {
			t.Fatalf("after %d sendings: %v, in doubt %v; want %v, %v", sent, err, s.InDoubt(), want.err, want.doubt)
		}
	}
	s.Abandon()
	checkClean(t, client)
}

// A slot moves for as long as a caller sends its request itself: the request goes on, and its caller hears nothing of it.
func TestSlot_MovesForLong(t *testing.T) {
	_, client := redistest.Mini(t)
	var first context.Context
	beforeScript(client, take, func(ctx context.Context) error {
		if first == nil {
			first = ctx
		}
		if first.Err() == nil {
			return refusal("TRYAGAIN the slot moves")
		}
		return nil
	})
	s := newSlot(t, newManager(t, client, Options{}))
	redistest.OK(t, redistest.Err(s.Ask(t.Context(), take)))
	s.Abandon()
	checkClean(t, client)
}
