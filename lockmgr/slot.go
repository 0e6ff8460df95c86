package lockmgr

import (
	"context"
	"fmt"
	"slices"
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

	// maxDoubts is how often in a row a request may be sent twice before an Ask gives up.
	maxDoubts = 10
)

// Slot is a token on its way to a lock: it asks for the lock, waits in the queue until it
// has the lock, or abandons the attempt. [Manager.Acquire] waits by a slot.
//
// A slot of your own is for a process that acquires the lock, does its work and releases the lock
// in scripts of its own, made by [NewScript]. Such a script acquires the lock with
// lock_acquire and [Slot.Token], and releases it with lock_release. Unlike an Acquire, such a
// slot neither waits for others of the same process, nor do they wait for it: a process
// has one for each lock, for as long as it uses that.
//
// A slot is used by one goroutine at a time.
type Slot struct {
	m    *Manager
	name string
	on   scriptKeys
	ttl  time.Duration // of its hold

	// The request by which the token may have got the lock, or a position in the queue, and
	// that has not been seen to end; nil if there is none.
	asked *call[*redis.Cmd]

	// Redis has carried out what was asked, in doubt under which token, and was asked again since.
	repeats bool

	listens listenState // guarded by wakeUps.mu

	mu       sync.Mutex
	grants   chan *grant   // guarded by mu: the lock is the token's, nil says only that it is worth asking; see inbox
	tokens   *tokens       // guarded by mu
	first    tokens        // what tokens points to until Renew
	position int64         // guarded by mu: in the queue, as far as it is known, or the fence of a hold; 0 before
	waited   time.Time     // guarded by mu: when Redis was asked last and answered that it has to wait
	trip     time.Duration // guarded by mu: how long that took
}

// Slot returns a slot for the lock of that name, and sends nothing. The keys are those of
// what the lock guards; they come after the lock's own in the slot's scripts. Close it when
// it is needed no more. It returns an [ErrInvalid] for a bad name.
func (m *Manager) Slot(name string, keys ...string) (*Slot, error) {
	if err := m.names.check(name); err != nil {
		return nil, fmt.Errorf("lockmgr: %w", err)
	}
	s := new(Slot)
	s.init(m, name)
	s.on = m.names.scriptKeys(slices.Concat(s.on.keys, keys))
	return s, nil
}

func (s *Slot) init(m *Manager, name string) {
	s.m, s.name, s.on, s.ttl = m, name, m.names.of(name), m.opts.TTL
	s.first.init(m.names, name)
	s.tokens = &s.first
}

// Token returns the slot's token: the value that the lock holds during its hold. [Slot.Ask]
// takes another one when the outcome of a request that carried it is in doubt.
func (s *Slot) Token() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.tokens.String()
}

// Renew returns a new token, unlike any other, and forgets the one before. A token serves
// one hold.
func (s *Slot) Renew() string {
	s.asked, s.repeats = nil, false
	s.mu.Lock()
	defer s.mu.Unlock()
	s.tokens, s.position, s.waited, s.trip = newTokens(s.m.names, s.name), 0, time.Time{}, 0
	s.grants = nil // what is in there is for the token before
	return s.tokens.current
}

// Promised says that a script which gives the lock to the slot's token, or lets it wait, may
// still be carried out. So Abandon sees to it that the script then does not.
func (s *Slot) Promised() { s.tokens.promise(true) }

// Run runs a script on the lock and the slot's keys as [Manager.Run] does. It is for
// scripts that do not ask for the lock; see Ask.
func (s *Slot) Run(ctx context.Context, script *redis.Script, args ...any) *redis.Cmd {
	return s.m.sender.run(ctx, script, s.on, args...)
}

// Command returns the command by which Run runs a script, for a connection of the
// caller's own. That has to load the script if Redis does not know it.
func (s *Slot) Command(script *redis.Script, args ...any) []any {
	return s.on.command(script, args...)
}

// Ask runs a script by which the slot's token may get the lock, or a position in the queue. The
// token comes before args, as ARGV[3]; only an Ask may send it to a script that acquires the lock.
// Each sending has a token of its own. If an earlier one was not answered, the token of the
// last one gets what the earlier one has, the lock or its position, and Ask asks again. Token
// then returns the last.
//
// Ask returns the cause of ctx as soon as that ends; the script may then still be carried
// out. Ask again with the same script and arguments, which hears what became of it; or call Abandon, which comes after
// it, or sees to it that the script does nothing.
func (s *Slot) Ask(ctx context.Context, script *redis.Script, args ...any) (*redis.Cmd, error) {
	command := s.on.asking(script, s.tokens, args)
	return s.ask(ctx, func(ctx context.Context) *redis.Cmd { return s.m.sender.send(ctx, script, s.on, command) })
}

// AskBy is Ask where send puts the command on the wire, on a connection of the caller's own; see Command. It
// may be called again after AskBy has returned because ctx has ended.
func (s *Slot) AskBy(ctx context.Context, send func(ctx context.Context, command []any) *redis.Cmd, script *redis.Script, args ...any) (*redis.Cmd, error) {
	command := s.on.asking(script, s.tokens, args)
	return s.ask(ctx, func(ctx context.Context) *redis.Cmd { return send(ctx, command) })
}

// InDoubt reports whether something that was asked by the slot was not answered, and may be carried out. If an Ask
// has failed and it was not, Redis has got nothing of it.
func (s *Slot) InDoubt() bool { return s.asked != nil || s.repeats || s.tokens.inDoubt() != "" }

// ask sends a request by which the token may get the lock, or a position in the queue, until
// nothing of that is in doubt any more.
//
// others are those of other slots, which the same request names.
func (s *Slot) ask(ctx context.Context, send func(ctx context.Context) *redis.Cmd, others ...attempt) (*redis.Cmd, error) {
	t := s.tokens // what goes on without the caller is not to name those of a later attempt
	for range maxDoubts {
		cmd, err := s.request(ctx, send)
		carriedOut, doubt := err == nil || err == redis.Nil, false
		if redisconn.Answered(err) {
			doubt = t.answered()
			for _, o := range others {
				doubt = o.tokens.answered() || doubt
			}
		}
		if !doubt || !carriedOut {
			s.repeats = s.repeats && !carriedOut
			return cmd, err
		}
		s.repeats = true
		all := append([]attempt{{s.on.only(lockKeys), t}}, others...)
		_, err = s.request(ctx, func(ctx context.Context) *redis.Cmd { return s.m.inherit(ctx, all) })
		if err != nil {
			return nil, err
		}
		for _, a := range all {
			a.tokens.answered()
			a.tokens.inherited()
		}
	}
	return nil, errNoAnswer
}

// request sends a request that names tokens. It returns the cause of ctx, or ErrClosed, soon
// after ctx has ended or the Manager was closed; the request may then still be carried out, and the next call
// waits for what became of it. So that has to be the same request, unless Abandon or Renew comes before.
func (s *Slot) request(ctx context.Context, send func(ctx context.Context) *redis.Cmd) (*redis.Cmd, error) {
	sender, life := s.m.sender, s.m.life
	if err := life.ended(ctx); err != nil {
		return nil, err
	}
	if s.asked == nil && sender.isPrompt() { // else an earlier attempt at the same request goes on
		cmd, abandoned, err := sender.byCaller(ctx, send)
		if abandoned != nil {
			s.asked = start(life, func() (*redis.Cmd, error) {
				own, cancel := context.WithTimeout(sender.own.Context(), directTimeout)
				defer cancel()
				if err := abandoned.wait(own); err == nil {
					return abandoned.cmd, nil
				}
				return sender.unattended(send) // Redis is silent, did not know the script, or is not the one to ask
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
		s.asked = nil
	default: // it goes on without us; abandon waits for it
	}
	return cmd, err
}
