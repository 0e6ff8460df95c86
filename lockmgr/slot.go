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
	// cleanupTimeout bounds the clean-up of an acquire that gave up, and the release at the end of Do.
	cleanupTimeout = time.Second

	// cleanupWait is how long a caller waits for its clean-up: enough for a Redis that answers, and short if it
	// does not.
	cleanupWait = 50 * time.Millisecond

	// maxDoubts is how often in a row a request may be sent twice before Ask gives up.
	maxDoubts = 10
)

// Slot is an attempt to acquire a lock for its token: it asks for the lock, waits in the queue until the token
// has the lock, or abandons the attempt. [Manager.Acquire] uses a slot.
//
// A slot of your own is for a process that acquires the lock, does its work and releases the lock in scripts of
// its own, made by [NewScript]. Such a script acquires the lock with lock_acquire and [Slot.Token], and
// releases it with lock_release. Unlike calls of Acquire, slots of one process do not wait for each other: a
// process needs only one per lock, for as long as it uses the lock.
//
// A slot is used by one goroutine at a time.
type Slot struct {
	m    *Manager
	name string
	on   scriptKeys
	ttl  time.Duration // of its next hold

	// The request under way, which may give the token the lock, or a position in the queue; nil if none is.
	asked *call[*redis.Cmd]

	// ask must repeat the request: Redis has executed it, but perhaps for an earlier token.
	repeats bool

	listens listenState // guarded by wakeUps.mu

	mu       sync.Mutex
	grants   chan *grant   // guarded by mu: holds of the token; nil is only a reason to ask; see inbox
	tokens   *tokens       // guarded by mu
	first    tokens        // tokens points to it until Renew
	position int64         // guarded by mu: last known position in the queue, or the fence of a hold; 0 before
	waited   time.Time     // guarded by mu: when the last request was sent that Redis answered with a position
	trip     time.Duration // guarded by mu: how long its answer took
}

// Slot returns a slot for the lock of that name, and sends nothing. keys are the keys that the lock guards; in
// the slot's scripts they follow the lock's own. Close the slot when you no longer need it. Slot returns an
// [ErrInvalid] for a bad name.
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

// Token returns the slot's token, which is the value of the lock's key while the slot has the lock. [Slot.Ask]
// changes the token when the outcome of a request that carried it is in doubt.
func (s *Slot) Token() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.tokens.String()
}

// Renew gives the slot a new token, unlike any other, and returns it. A token serves one hold.
func (s *Slot) Renew() string {
	s.asked, s.repeats = nil, false
	s.mu.Lock()
	defer s.mu.Unlock()
	s.tokens, s.position, s.waited, s.trip = newTokens(s.m.names, s.name), 0, time.Time{}, 0
	s.grants = nil // its content is for the old token
	return s.tokens.current
}

// Promised records that Redis may still execute a script that gives the token the lock or a position. Abandon
// then makes sure that the script does neither.
func (s *Slot) Promised() { s.tokens.promise(true) }

// Run runs a script on the lock and the slot's keys as [Manager.Run] does. For scripts that ask for the lock
// use Ask.
func (s *Slot) Run(ctx context.Context, script *redis.Script, args ...any) *redis.Cmd {
	return s.m.sender.run(ctx, script, s.on, args...)
}

// Command returns Run's command for a script, to be sent on a connection of the caller's own. The caller has to load
// the script if Redis does not know it.
func (s *Slot) Command(script *redis.Script, args ...any) []any {
	return s.on.command(script, args...)
}

// Ask runs a script that may give the slot's token the lock, or a position in the queue. The token comes before
// args, as ARGV[3]; only Ask may send it to a script that acquires the lock. Each sending has a token of its
// own. If an earlier sending was not answered, the token of the last one inherits the lock or the position from
// it, and Ask asks again. Token then returns the last one.
//
// Soon after ctx has ended, Ask returns the cause of ctx; Redis may still execute the script. Then ask again with
// the same script and arguments, to learn the result; or call Abandon, which waits for the script, or makes sure
// that it does nothing.
func (s *Slot) Ask(ctx context.Context, script *redis.Script, args ...any) (*redis.Cmd, error) {
	on := s.on.with(s.tokens)
	return s.ask(ctx, func(ctx context.Context) *redis.Cmd { return s.m.sender.run(ctx, script, on, args...) })
}

// AskBy is like Ask, but send sends the command, on a connection of the caller's own; see Command. If AskBy
// returns because ctx has ended, it may still call send in the background.
func (s *Slot) AskBy(ctx context.Context, send func(ctx context.Context, command []any) *redis.Cmd,
	script *redis.Script, args ...any) (*redis.Cmd, error) {
	command := s.on.with(s.tokens).command(script, args...)
	return s.ask(ctx, func(ctx context.Context) *redis.Cmd { return send(ctx, command) })
}

// InDoubt reports whether Redis may have executed, or may still execute, an unanswered request of the slot. If
// Ask has failed and InDoubt is false, Redis has executed nothing of it.
func (s *Slot) InDoubt() bool { return s.asked != nil || s.repeats || s.tokens.inDoubt() != "" }

// ask sends a request that may give the token the lock, or a position in the queue, and repeats it until its
// effect is not in doubt. others are attempts of other slots in the same request.
func (s *Slot) ask(ctx context.Context, send func(ctx context.Context) *redis.Cmd,
	others ...attempt) (*redis.Cmd, error) {
	t := s.tokens // a request that goes on without its caller must not name tokens of a later attempt
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

// request sends a request that names tokens. Soon after ctx has ended or the Manager was closed, it returns the
// cause of ctx or ErrClosed. Redis may still execute the request then, and the next call waits for that result
// instead of sending its own. So the next call has to be the same request, unless Abandon or Renew comes before.
func (s *Slot) request(ctx context.Context, send func(ctx context.Context) *redis.Cmd) (*redis.Cmd, error) {
	sender, life := s.m.sender, s.m.life
	if err := life.ended(ctx); err != nil {
		return nil, err
	}
	if s.asked == nil && sender.isPrompt() { // asked is an earlier sending of the same request
		cmd, abandoned, err := sender.byCaller(ctx, send)
		if abandoned != nil {
			s.asked = start(life, func() (*redis.Cmd, error) {
				own, cancel := context.WithTimeout(sender.own.Context(), directTimeout)
				defer cancel()
				if err := abandoned.wait(own); err == nil {
					return abandoned.cmd, nil
				}
				return sender.unattended(send) // Redis is silent, did not know the script, or is not the right server
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

// lifetime ends a Manager's waiting, and counts the calls and goroutines that Close waits for.
type lifetime struct {
	ctx context.Context // cancelled when Close is called
	end context.CancelFunc

	calls sync.WaitGroup // callers that may still send requests: grows under mu, until ctx has ended
	tasks sync.WaitGroup // goroutines that ask Redis: grows under mu, until sealed

	mu     sync.Mutex
	sealed bool // guarded by mu: Close waits for the last tasks
}

func newLifetime() *lifetime {
	l := new(lifetime)
	l.ctx, l.end = context.WithCancel(context.Background())
	return l
}

// enter adds a caller to calls, or returns why it is refused. Without an error, the caller has to call
// calls.Done at its end.
func (l *lifetime) enter(ctx context.Context) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := l.ended(ctx); err != nil {
		return err
	}
	l.calls.Add(1)
	return nil
}

// run runs f in a goroutine that Close waits for. Once Close waits for the last goroutines, run calls f itself.
func (l *lifetime) run(f func()) {
	l.mu.Lock()
	sealed := l.sealed
	if !sealed {
		l.tasks.Go(f)
	}
	l.mu.Unlock()
	if sealed {
		f()
	}
}

// ended returns why a caller has to stop waiting, or nil.
func (l *lifetime) ended(ctx context.Context) error {
	if l.ctx.Err() != nil {
		return ErrClosed
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return nil
}

func (l *lifetime) shut() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.end()
}

// wait waits for the callers, and then for the goroutines.
func (l *lifetime) wait() {
	l.calls.Wait()
	l.mu.Lock()
	l.sealed = true
	l.mu.Unlock()
	l.tasks.Wait()
}

// call is a request that runs in a goroutine of its own. When its caller stops waiting, the call goes on, and may
// still have its effect. Work that has to come after the call waits for done.
type call[T any] struct {
	done  chan struct{}
	value T     // written before done is closed
	err   error // written before done is closed
}

// start runs ask once in a goroutine that Close waits for; see lifetime.run.
func start[T any](life *lifetime, ask func() (T, error)) *call[T] {
	c := &call[T]{done: make(chan struct{})}
	life.run(func() { c.finish(ask()) })
	return c
}

func (c *call[T]) finish(value T, err error) {
	c.value, c.err = value, err
	close(c.done)
}

// wait returns the call's result, or the cause of ctx if ctx ends first.
func (c *call[T]) wait(ctx context.Context) (T, error) {
	select {
	case <-c.done:
		return c.value, c.err
	default:
	}
	select {
	case <-c.done:
		return c.value, c.err
	case <-ctx.Done():
		var none T
		return none, context.Cause(ctx)
	}
}

// waitOpen is like wait, but also returns ErrClosed when the Manager is closed.
func (c *call[T]) waitOpen(ctx context.Context, life *lifetime) (T, error) {
	select {
	case <-c.done:
		return c.value, c.err
	case <-ctx.Done():
	case <-life.ctx.Done():
	}
	var none T
	return none, life.ended(ctx)
}
