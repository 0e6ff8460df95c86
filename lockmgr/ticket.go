package lockmgr

import (
	"context"
	"sync"

	"github.com/redis/go-redis/v9"

	"roomd/lockmgr/redisconn/pubsub"
)

// Ticket is one process's place in the line for a lock, for those who take the
// lock, do their work and give it back in scripts of their own, built on [Lua].
// Such a script asks with [Ticket.Token]; when it has put the token into the queue,
// the holder of the ticket waits for [Ticket.Woken] and asks again, underneath that
// every Options.Poll, in case a wake-up was lost.
//
// Unlike an [Manager.Acquire], a ticket neither waits for others of the same
// process nor is it waited for: a process has one for each lock, as long as it
// uses that. It is safe for concurrent use.
type Ticket struct {
	m     *Manager
	woken chan struct{}

	mu    sync.Mutex
	slot  slot                 // token, asked and doubt are guarded by mu; the others do not change
	wakes *pubsub.Subscription // guarded by mu: nil until somebody listens
}

// Ticket returns a place in the line for the lock of that name, and sends nothing.
// The keys are those of what the lock guards. Close it when it is needed no more. It
// returns an [ErrInvalid] for a bad name.
func (m *Manager) Ticket(name string, keys ...string) (*Ticket, error) {
	if err := m.checkName(name); err != nil {
		return nil, err
	}
	return &Ticket{m: m, woken: make(chan struct{}, 1), slot: m.newSlot(name, keys...)}, nil
}

// Token returns the value that the lock holds during the next hold.
func (t *Ticket) Token() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.slot.token
}

// Renew returns a new token, unlike any other, and forgets the one before. A token
// serves one hold. It also serves no longer once the outcome of a request that
// carried it is in doubt: such a request may still be on its way.
func (t *Ticket) Renew() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.renewLocked()
}

func (t *Ticket) renewLocked() string {
	t.slot.token, t.slot.asked, t.slot.doubt = t.m.newToken(t.slot.name), nil, false
	select {
	case <-t.woken: // it was for the token before
	default:
	}
	return t.slot.token
}

// Run runs a script on the lock and the ticket's keys as [Manager.Run] does. It is for
// scripts that do not ask for the lock; see Ask.
func (t *Ticket) Run(ctx context.Context, script *redis.Script, args ...any) *redis.Cmd {
	return t.m.runOn(ctx, script, t.slot.on, args...)
}

// Ask runs a script by which the ticket's token may get the lock, or a place in the
// queue. It returns the cause of ctx as soon as that ends; the script may then still be
// carried out, and Leave comes after it.
func (t *Ticket) Ask(ctx context.Context, script *redis.Script, args ...any) (*redis.Cmd, error) {
	return t.ask(ctx, func(ctx context.Context) *redis.Cmd { return t.m.runOn(ctx, script, t.slot.on, args...) })
}

func (t *Ticket) ask(ctx context.Context, send func(context.Context) *redis.Cmd) (*redis.Cmd, error) {
	t.mu.Lock()
	s := t.slot
	t.mu.Unlock()
	cmd, err := s.ask(ctx, send)
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.slot.token == s.token {
		t.slot.asked, t.slot.doubt = s.asked, s.doubt
	}
	return cmd, err
}

// Command returns what Run would send, for a connection of the caller's own: the
// script by its hash if name is "evalsha", or its text if it is "eval".
func (t *Ticket) Command(name string, script *redis.Script, text string, args ...any) []any {
	what := text
	if name == "evalsha" {
		what = script.Hash()
	}
	return t.slot.on.command(name, what, args)
}

// Try takes the lock for Options.TTL if it is free, with one plain command, which
// costs Redis a fraction of a script. It does not see whether anybody waits, so it
// is for those who have met nobody of late: where a lock has just expired under a
// dead holder it may pass who waits there, once. False means that the lock is not
// free, or that it is ours already; a script can tell. It ends with ctx as Ask does.
func (t *Ticket) Try(ctx context.Context) (bool, error) {
	token := t.Token()
	cmd, err := t.ask(ctx, func(ctx context.Context) *redis.Cmd {
		key := t.slot.on.keys[0]
		cmd := redis.NewCmd(ctx, "set", key, token, "px", t.m.ttl, "nx")
		if err := t.m.process(ctx, key, cmd); err != nil && ctx.Err() != nil {
			return failed(ctx)
		}
		return cmd
	})
	if err == redis.Nil {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	return cmd.Val() == "OK", nil
}

// Listen makes sure that wake-ups arrive. It returns at once; those that are
// published before the subscription stands are lost.
func (t *Ticket) Listen() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.wakes != nil {
		return
	}
	t.wakes = t.m.hub.Subscribe(t.m.wakeChannel(t.slot.name), pubsub.Handler{Message: func(payload string) {
		if w, ok := parseWakeUp(payload); ok {
			t.wake(w.token)
		}
	}})
}

func (t *Ticket) wake(token string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if token != t.slot.token {
		return
	}
	select {
	case t.woken <- struct{}{}:
	default:
	}
}

// Woken says that it is the turn of [Ticket.Token]: the lock holds it, for a claim.
func (t *Ticket) Woken() <-chan struct{} { return t.woken }

// Leave gives up: it renews the token, takes the one before out of the queue, and gives
// the lock back if that holds it, after what was asked has ended. If Redis does not answer
// soon it goes on without the caller; if not at all, the claim or the TTL does it.
func (t *Ticket) Leave() {
	t.mu.Lock()
	s := t.slot
	t.renewLocked()
	t.mu.Unlock()
	s.leave()
}

// Return is Leave for a token that was renewed already.
func (t *Ticket) Return(token string) {
	t.mu.Lock()
	s := t.slot
	t.mu.Unlock()
	s.token, s.asked, s.doubt = token, nil, true
	s.leave()
}

// Close stops listening. It gives nothing back; see Leave.
func (t *Ticket) Close() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.wakes != nil {
		t.wakes.Close()
		t.wakes = nil
	}
}
