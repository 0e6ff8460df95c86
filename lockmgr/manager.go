package lockmgr

import (
	"context"
	"errors"
	"fmt"
	"reflect"

	"github.com/redis/go-redis/v9"

	"roomd/lockmgr/redisconn/pubsub"
)

// Manager acquires locks on one Redis. It is safe for concurrent use.
type Manager struct {
	opts   Options
	life   *lifetime
	names  *names
	sender *sender
	lines  lines
	wakes  wakeUps
	ownHub bool
}

// New returns a Manager that keeps its locks in client's Redis. New sends nothing. The Manager starts goroutines only
// when it has to wait for a lock; [Manager.Close] ends them.
//
// If the client has ContextTimeoutEnabled, calls end with their contexts, at most a quarter of a second later if
// Redis does not answer. Their requests then go on for some seconds. Without ContextTimeoutEnabled, a call may take
// as long as the client's ReadTimeout.
//
// New returns an [ErrInvalid] that names the field if client is nil or a *redis.Ring, or opts cannot be used, and
// the client's error if it has no pipeline for Options.Pipelined. If the server says that it is older than Redis
// 7.0, the first call that asks it returns an ErrInvalid.
func New(client redis.UniversalClient, opts Options) (*Manager, error) {
	if v := reflect.ValueOf(client); client == nil || v.Kind() == reflect.Pointer && v.IsNil() {
		return nil, invalid("client is nil")
	}
	if _, ring := client.(*redis.Ring); ring {
		return nil, invalid("client is a *redis.Ring, which has no script for keys of several servers")
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
		hub, m.ownHub = pubsub.New(client, nil), true // nil: waiters poll, so nobody is told of a lost connection
	}
	m.lines.init(opts.MaxWaiters)
	m.wakes.init(hub, m.names.wakeChannel)
	return m, nil
}

// Close ends all waiting with [ErrClosed], stops all watchdogs, takes the waiters out of the queue, and returns
// when the Manager's goroutines have ended. If Redis does not answer, that takes some seconds, or the client's
// ReadTimeout if the client lacks ContextTimeoutEnabled.
//
// Locks that are held stay held until they expire; release them before. The caller closes the client.
func (m *Manager) Close() {
	m.life.shut()
	m.wakes.close()
	if m.ownHub {
		m.wakes.hub.Close()
	}
	m.life.wait()
}

// enter adds a caller to life.calls. It fails for an unusable argument, an ended ctx, and after Close.
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

// Key returns the key that holds the token of the lock's holder: Prefix + name. On Redis Cluster, Key puts
// braces around the name unless it has a hash tag, so that all keys of a lock share a slot.
func (m *Manager) Key(name string) string { return m.names.key(name) }

// Keys returns the keys of the lock in the order that scripts of [NewScript] expect.
func (m *Manager) Keys(name string) []string { return m.names.keys(name) }

// Run runs a script of [NewScript] on the lock of that name. The lock's own keys and arguments come first, so
// yours start at KEYS[4] and ARGV[3].
//
// While a slot moves from one master of a Redis Cluster to another, Redis refuses scripts with several keys of
// that slot. Run then retries until Redis accepts the script, or ctx ends.
func (m *Manager) Run(ctx context.Context, script *redis.Script, name string, keys []string, args ...any) *redis.Cmd {
	if ctx == nil {
		cmd := redis.NewCmd(context.Background())
		cmd.SetErr(fmt.Errorf("lockmgr: run on %q: %w", name, errNilContext))
		return cmd
	}
	return m.sender.run(ctx, script, m.names.scriptKeys(append(m.Keys(name), keys...)), args...)
}

var (
	// ErrHeld says that the lock was not acquired because somebody else holds it or has waited longer. You may
	// try again later.
	ErrHeld = errors.New("lock is held by another")

	// ErrBusy says that an Acquire was refused instead of waiting: too many wait already (Options.MaxWaiters),
	// or the deadline of its ctx would most likely pass before its turn.
	ErrBusy = errors.New("too many wait for the lock")

	// ErrLost says that the lock was lost. Work done under it may have overlapped with another hold. The next
	// three errors are ErrLost too, and say how it was lost.
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

	// ErrInvalid says that an argument cannot be used, or that Redis is too old. The message says which. Redis
	// has not executed the request.
	ErrInvalid = errors.New("invalid argument")
)

var (
	errNilContext = fmt.Errorf("ctx is nil: %w", ErrInvalid)

	// errLate says that Redis gave us the lock, but the hold was over when the reply arrived.
	errLate = fmt.Errorf("the reply took longer than the TTL: %w", ErrExpired)
)
