package lockmgr

import (
	"context"
	"sync"

	"github.com/redis/go-redis/v9"

	"roomd/lockmgr/pubsub"
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
	name  string
	on    onKeys
	lock  any // the lock's own key
	woken chan struct{}

	mu    sync.Mutex
	token string               // guarded by mu
	wakes *pubsub.Subscription // guarded by mu: nil until somebody listens
}

// Ticket returns a place in the line for the lock of that name, and sends nothing.
// The keys are those of what the lock guards. Close it when it is needed no more. It
// returns an [ErrInvalid] for a bad name.
func (m *Manager) Ticket(name string, keys ...string) (*Ticket, error) {
	if err := m.checkName(name); err != nil {
		return nil, err
	}
	on := m.onKeys(append(m.Keys(name), keys...))
	return &Ticket{m: m, name: name, on: on, lock: on.keys[0], woken: make(chan struct{}, 1), token: m.newToken(name)}, nil
}

// Token returns the value that the lock holds during the next hold.
func (t *Ticket) Token() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.token
}

// Renew returns a new token, unlike any other, and forgets the one before. A token
// serves one hold. It also serves no longer once the outcome of a request that
// carried it is in doubt: such a request may still be on its way.
func (t *Ticket) Renew() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.token = t.m.newToken(t.name)
	select {
	case <-t.woken: // it was for the token before
	default:
	}
	return t.token
}

// Run runs a script on the lock and the ticket's keys as [Manager.Run] does.
func (t *Ticket) Run(ctx context.Context, script *redis.Script, args ...any) *redis.Cmd {
	return t.m.runOn(ctx, script, t.on, args)
}

// Command returns what Run would send, for a connection of the caller's own: the
// script by its hash if name is "evalsha", or its text if it is "eval".
func (t *Ticket) Command(name string, script *redis.Script, text string, args ...any) []any {
	what := text
	if name == "evalsha" {
		what = script.Hash()
	}
	return t.on.command(name, what, args)
}

// Try takes the lock for Options.TTL if it is free, with one plain command, which
// costs Redis a fraction of a script. It does not see whether anybody waits, so it
// is for those who have met nobody of late: where a lock has just expired under a
// dead holder it may pass who waits there, once. False means that the lock is not
// free, or that it is ours already; a script can tell.
func (t *Ticket) Try(ctx context.Context) (bool, error) {
	cmd := redis.NewBoolCmd(ctx, "set", t.lock, t.Token(), "px", t.m.ttl, "nx")
	if err := t.m.process(ctx, t.on.keys[0], cmd); err != nil {
		return false, err
	}
	return cmd.Val(), nil
}

// Listen makes sure that wake-ups arrive. It returns at once; those that are
// published before the subscription stands are lost.
func (t *Ticket) Listen() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.wakes != nil {
		return
	}
	t.wakes = t.m.hub.Subscribe(t.m.wakeChannel(t.name), pubsub.Handler{Message: func(payload string) {
		if o, ok := parseOffer(payload); ok {
			t.wake(o.token)
		}
	}})
}

func (t *Ticket) wake(token string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if token != t.token {
		return
	}
	select {
	case t.woken <- struct{}{}:
	default:
	}
}

// Woken says that it is the turn of [Ticket.Token]: the lock holds it, for a claim.
func (t *Ticket) Woken() <-chan struct{} { return t.woken }

// Leave gives up: it renews the token, and returns the one before.
func (t *Ticket) Leave() {
	token := t.Token()
	t.Renew()
	t.Return(token)
}

// Return takes a token out of the queue, and gives the lock back if that holds the
// token. If Redis does not answer soon it goes on without the caller; if not at
// all, the claim or the TTL does it.
func (t *Ticket) Return(token string) { t.m.leave(t.name, token) }

// Close stops listening. It gives nothing back; see Leave.
func (t *Ticket) Close() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.wakes != nil {
		t.wakes.Close()
		t.wakes = nil
	}
}
