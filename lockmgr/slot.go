package lockmgr

import (
	"context"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"roomd/lockmgr/redisconn"
)

const (
	// cleanupTimeout bounds the clean-up after an acquire that gave up. The
	// context that ended can no longer be used for it.
	cleanupTimeout = time.Second

	// cleanupWait is how long a caller waits for its clean-up: long enough for a Redis
	// that answers, and no burden to a caller when it does not.
	cleanupWait = 50 * time.Millisecond
)

// Slot is a token on its way to a lock: it asks for the lock, waits in the queue until it
// has the lock, or gives up. [Manager.Acquire] waits by a slot.
//
// A slot of your own is for a process that takes the lock, does its work and gives the lock
// back in scripts of its own, made by [NewScript]. Such a script takes the lock with
// lock_take and [Slot.Token], and gives it back with lock_give. Unlike an Acquire, such a
// slot neither waits for others of the same process, nor do they wait for it: a process
// has one for each lock, for as long as it uses that.
//
// A slot is used by one goroutine at a time.
type Slot struct {
	m    *Manager
	name string
	on   scriptKeys
	turn chan *grant // the lock is the token's; nil says only that it is worth asking

	// The request by which the token may have got the lock, or a place in the queue, and
	// that has not been seen to end; nil if there is none.
	asked   *call[*redis.Cmd]
	inDoubt bool // a request has ended without an answer

	hearing hearing // guarded by wakeUps.mu

	mu     sync.Mutex
	token  string        // guarded by mu
	place  int64         // guarded by mu: in the queue, as far as it is known; 0 before
	waited time.Time     // guarded by mu: when Redis was asked last and answered that it has to wait
	trip   time.Duration // guarded by mu: how long that took
}

// Slot returns a slot for the lock of that name, and sends nothing. The keys are those of
// what the lock guards; they come after the lock's own in the slot's scripts. Close it when
// it is needed no more. It returns an [ErrInvalid] for a bad name.
func (m *Manager) Slot(name string, keys ...string) (*Slot, error) {
	if err := m.names.check(name); err != nil {
		return nil, err
	}
	s := new(Slot)
	s.init(m, name, keys...)
	return s, nil
}

func (s *Slot) init(m *Manager, name string, keys ...string) {
	s.m, s.name, s.on = m, name, m.names.scriptKeys(append(m.names.keys(name), keys...))
	s.turn, s.token = make(chan *grant, 1), m.names.newToken(name)
}

// Token returns the value that the lock holds during the slot's next hold.
func (s *Slot) Token() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.token
}

// Renew returns a new token, unlike any other, and forgets the one before. A token serves
// one hold. It also serves no longer once the outcome of a request that carried it is in
// doubt: that request may still be on its way.
func (s *Slot) Renew() string {
	s.asked, s.inDoubt = nil, false
	s.mu.Lock()
	defer s.mu.Unlock()
	s.token, s.place, s.waited, s.trip = s.m.names.newToken(s.name), 0, time.Time{}, 0
	select {
	case <-s.turn: // it was for the token before
	default:
	}
	return s.token
}

// Run runs a script on the lock and the slot's keys as [Manager.Run] does. It is for
// scripts that do not ask for the lock; see Ask.
func (s *Slot) Run(ctx context.Context, script *redis.Script, args ...any) *redis.Cmd {
	return s.m.sender.run(ctx, script, s.on, args...)
}

// Command returns the command by which Run runs a script, for a connection of the
// caller's own. That has to load the script if Redis does not know it.
func (s *Slot) Command(script *redis.Script, args ...any) []any {
	return s.on.command(script.Hash(), args)
}

// Ask runs a script by which the slot's token may get the lock, or a place in the queue.
// It returns the cause of ctx as soon as that ends; the script may then still be carried
// out, and Leave comes after it.
func (s *Slot) Ask(ctx context.Context, script *redis.Script, args ...any) (*redis.Cmd, error) {
	return s.ask(ctx, func(ctx context.Context) *redis.Cmd { return s.m.sender.run(ctx, script, s.on, args...) })
}

// AskPlainly takes the lock for Options.TTL if it is free, by a plain SET NX, which costs
// Redis a sixth of a script. It does not see whether anybody waits, so it is for callers
// that have met nobody of late: where a lock has just expired under a dead holder, it may
// overtake those who wait, once. It draws no fence. False means that the lock is not free, or
// is the token's already; a script can tell. It ends with ctx as Ask does.
func (s *Slot) AskPlainly(ctx context.Context) (bool, error) {
	key, token := s.on.keys[0], s.Token()
	cmd, err := s.ask(ctx, func(ctx context.Context) *redis.Cmd {
		cmd := redis.NewCmd(ctx, "set", key, token, "px", s.m.opts.TTL.Milliseconds(), "nx")
		if err := s.m.sender.process(ctx, key, cmd); err != nil && ctx.Err() != nil {
			return failed(ctx)
		}
		return cmd
	})
	if err == redis.Nil {
		return false, nil
	}
	return err == nil && cmd.Val() == "OK", err
}

// ask sends a request by which the token may get the lock, or a place in the queue. It
// returns the cause of ctx, or ErrClosed, soon after ctx has ended or the Manager was
// closed; the request may then still be carried out, and Leave comes after it.
func (s *Slot) ask(ctx context.Context, send func(ctx context.Context) *redis.Cmd) (*redis.Cmd, error) {
	sender, life := s.m.sender, s.m.life
	if err := life.ended(ctx); err != nil {
		return nil, err
	}
	if sender.isPrompt() {
		cmd, abandoned, err := sender.byCaller(ctx, send)
		s.inDoubt = s.inDoubt || !redisconn.Answered(err)
		if abandoned != nil {
			s.asked = start(life, func() (*redis.Cmd, error) {
				own := sender.own.Context()
				if err := abandoned.wait(own); err == nil || !redisconn.Answered(err) {
					cmd, _ := abandoned.cmd.(*redis.Cmd)
					return cmd, noAnswer(own, err)
				}
				return sender.unattended(send) // Redis did not know the script, or is not the one to ask
			})
		}
		if err != errSlow {
			return cmd, err
		}
	}
	if s.asked == nil {
		s.asked = start(life, func() (*redis.Cmd, error) { return sender.unattended(send) })
	}
	cmd, err := s.asked.waitOpen(ctx, life)
	select {
	case <-s.asked.done:
		s.inDoubt = s.inDoubt || !redisconn.Answered(s.asked.err)
		s.asked = nil
	default: // it goes on without us; leave waits for it
	}
	return cmd, err
}
