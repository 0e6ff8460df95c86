package lockmgr

import (
	"context"
	"errors"
	"fmt"
	"reflect"

	"github.com/redis/go-redis/v9"

	"roomd/lockmgr/redisconn/pubsub"
)

// Manager takes locks on one Redis. It is safe for concurrent use.
type Manager struct {
	opts   Options
	life   *lifetime
	names  *names
	sender *sender
	lines  lines
	wakes  wakeUps
	ownHub bool
}

// New returns a Manager that keeps its locks on client. It sends nothing, and
// starts goroutines only when a lock has to be waited for; [Manager.Close] ends
// them.
//
// Calls end with their contexts, at most a quarter of a second later if Redis does not
// answer. What they have begun then goes on without them, for some seconds. For that the
// client needs ContextTimeoutEnabled; without it a call may take as long as the client's
// ReadTimeout.
//
// New returns an [ErrInvalid] that names the field if client is nil or a *redis.Ring, or opts
// cannot be used. If the server is older than Redis 7.0, and says so, the first call that asks
// it returns an ErrInvalid.
func New(client redis.UniversalClient, opts Options) (*Manager, error) {
	if v := reflect.ValueOf(client); client == nil || v.Kind() == reflect.Pointer && v.IsNil() {
		return nil, fmt.Errorf("lockmgr: client is nil: %w", ErrInvalid)
	}
	if _, ring := client.(*redis.Ring); ring {
		return nil, fmt.Errorf("lockmgr: client is a *redis.Ring, which has no script for keys of several servers: %w", ErrInvalid)
	}
	opts = opts.withDefaults()
	if err := opts.validate(); err != nil {
		return nil, err
	}
	_, cluster := client.(*redis.ClusterClient)
	m := &Manager{opts: opts, life: newLifetime(), names: newNames(opts, cluster)}
	var err error
	if m.sender, err = newSender(client, opts, m.life); err != nil {
		return nil, err
	}
	hub := opts.Hub
	if hub == nil {
		hub, m.ownHub = pubsub.New(client, nil), true // a wake-up that is lost costs one poll
	}
	m.lines.init(opts.MaxWaiters)
	m.wakes.init(hub, m.names.wakeChannel)
	return m, nil
}

// Close ends all waiting with [ErrClosed], and all watchdogs, and returns when the
// Manager's goroutines have ended: whoever waited has left the queue by then. If Redis does
// not answer, that takes as long as a request may: some seconds, or the client's
// ReadTimeout if it lacks ContextTimeoutEnabled.
//
// Locks that are held stay held until their deadlines; release them before. The client
// stays the caller's to close.
func (m *Manager) Close() {
	m.life.shut()
	m.wakes.close()
	if m.ownHub {
		m.wakes.hub.Close()
	}
	m.life.wait()
}

// enter counts a caller in life.calls, or says which argument of its call cannot be used,
// or why it may not begin.
func (m *Manager) enter(ctx context.Context, names ...string) error {
	if ctx == nil {
		return errNilContext
	}
	for _, name := range names {
		if err := m.names.check(name); err != nil {
			return err
		}
	}
	return m.life.enter(ctx)
}

// Key returns the key that holds the token of that lock's holder: Prefix + name.
// On Redis Cluster the name is put into braces, unless it has a hash tag of its
// own, so that all keys of a lock share a slot.
func (m *Manager) Key(name string) string { return m.names.key(name) }

// Keys returns the keys of that lock, in the order in which scripts of [NewScript] expect
// them.
func (m *Manager) Keys(name string) []string { return m.names.keys(name) }

// Run runs a script that was made by [NewScript] on the lock of that name. The lock's keys
// and arguments come before those given, so yours begin at KEYS[4] and ARGV[3].
//
// While a slot moves from one master of a Redis Cluster to another, Redis refuses to touch
// the keys of a lock. Run then asks again until they are together, or ctx ends.
func (m *Manager) Run(ctx context.Context, script *redis.Script, name string, keys []string, args ...any) *redis.Cmd {
	if ctx == nil {
		cmd := redis.NewCmd(context.Background())
		cmd.SetErr(fmt.Errorf("lockmgr: run on %q: %w", name, errNilContext))
		return cmd
	}
	return m.sender.run(ctx, script, m.names.scriptKeys(append(m.Keys(name), keys...)), args...)
}

var (
	// ErrHeld says that the lock was not acquired because somebody else holds it
	// or has waited longer. It is worth trying again later.
	ErrHeld = errors.New("lock is held by another")

	// ErrBusy says that an Acquire did not begin to wait: too many wait already
	// (Options.MaxWaiters), or its deadline will have passed before its turn.
	ErrBusy = errors.New("too many wait for the lock")

	// ErrLost says that the lock is not ours any more. What was done under it
	// may have overlapped with another hold. The errors below are ErrLost too,
	// and say how.
	ErrLost = errors.New("lock was lost")

	// ErrExpired: the deadline has passed without an extension.
	ErrExpired = fmt.Errorf("%w: it expired", ErrLost)

	// ErrStolen: the key is gone or holds another's token before the deadline.
	// Redis was emptied or failed over, or somebody deleted the key.
	ErrStolen = fmt.Errorf("%w: somebody else has it", ErrLost)

	// ErrUnreachable: the last extension failed, and the deadline has passed since. Redis did not
	// answer, or it refused: the error of [Lock.Extend] says which.
	ErrUnreachable = fmt.Errorf("%w: redis did not answer the last extension, or refused it", ErrLost)

	// ErrReleased says that the lock has been released already.
	ErrReleased = errors.New("lock is released")

	// ErrClosed says that the Manager is closed, or the Cache of package cachefill.
	ErrClosed = errors.New("lock manager or cache is closed")

	// ErrInvalid says that an argument cannot be used. The message names it and
	// nothing was sent to Redis.
	ErrInvalid = errors.New("invalid argument")
)

var (
	errNilContext = fmt.Errorf("ctx is nil: %w", ErrInvalid)

	// errLate says that the lock was ours, but not any more by the time that we heard.
	errLate = fmt.Errorf("the reply took longer than the TTL: %w", ErrExpired)
)
