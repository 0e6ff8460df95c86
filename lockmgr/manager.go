package lockmgr

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/google/uuid"
	"github.com/redis/go-redis/v9"

	"roomd/lockmgr/redisconn"
	"roomd/lockmgr/redisconn/pubsub"
)

const (
	// requestTimeout bounds a request that does not end with its caller.
	requestTimeout = 3 * time.Second

	// cleanupTimeout bounds the clean-up after an acquire that gave up. The
	// context that ended can no longer be used for it.
	cleanupTimeout = time.Second

	// cleanupPatience is how long a caller waits for its clean-up: long enough
	// for a Redis that answers, and no burden to a caller when it does not.
	cleanupPatience = 50 * time.Millisecond

	// keepQueue is how long Redis keeps a queue that nobody asks about.
	keepQueue = time.Minute
)

// Manager takes locks on one Redis. It is safe for concurrent use.
type Manager struct {
	client    redis.UniversalClient
	opts      Options
	cluster   *redis.ClusterClient // the client, if it is of a Redis Cluster
	node      [4]byte              // begins the UUID of every token
	pipe      *redis.AutoPipeliner // nil unless requests share round trips, to one server
	underway  atomic.Int64         // requests of a Manager that is Pipelined
	slowUntil atomic.Int64         // in ns since 1970: Redis did not answer at once
	first     []any                // what ARGV begins with in every script that uses the lock's rules: publish, claim
	ttl       any                  // of a hold, in ms
	keep      any                  // keepQueue in ms
	hub       *pubsub.Hub
	ownHub    bool

	life     context.Context // ends when Close begins
	end      context.CancelFunc
	moments  *redisconn.SharedTimeout // of requests that callers wait for themselves
	requests *redisconn.SharedTimeout // of requests that do not end with their callers

	calls sync.WaitGroup // those who may begin requests: Acquire and the like. It grows under mu, until life has ended
	tasks sync.WaitGroup // goroutines that ask Redis. It grows under mu, until sealed

	mu     sync.Mutex
	lines  map[string]*line // guarded by mu: locks that this process waits for
	sealed bool             // guarded by mu: Close waits for the last tasks
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
// New returns an [ErrInvalid] that names the field if client is nil or opts
// cannot be used.
func New(client redis.UniversalClient, opts Options) (*Manager, error) {
	if client == nil {
		return nil, fmt.Errorf("lockmgr: client is nil: %w", ErrInvalid)
	}
	opts = opts.withDefaults()
	if err := opts.validate(); err != nil {
		return nil, err
	}
	m := &Manager{
		client: client,
		opts:   opts,
		hub:    opts.Hub,
		ttl:    opts.TTL.Milliseconds(),
		keep:   keepQueue.Milliseconds(),
		lines:  make(map[string]*line),
	}
	id := uuid.New()
	copy(m.node[:], id[:])
	m.cluster, _ = client.(*redis.ClusterClient)
	if opts.Pipelined && m.cluster == nil {
		pipe, err := client.AsyncAutoPipelineWithOptions(pipelining)
		if err != nil {
			return nil, fmt.Errorf("lockmgr: %w", err)
		}
		m.pipe = pipe
	}
	publish := "PUBLISH"
	if m.cluster != nil {
		publish = "SPUBLISH"
	}
	m.first = []any{publish, opts.Claim.Milliseconds()}
	if m.hub == nil {
		m.hub, m.ownHub = pubsub.New(client, nil), true // a wake-up that is lost costs one poll
	}
	m.life, m.end = context.WithCancel(context.Background())
	m.requests = redisconn.NewSharedTimeout(context.WithValue(context.Background(), sendMode{}, sendUnattended), requestTimeout)
	m.moments = redisconn.NewSharedTimeout(context.WithValue(m.life, sendMode{}, sendDirectly), directPatience)
	return m, nil
}

// TTL returns how long a hold lasts.
func (m *Manager) TTL() time.Duration { return m.opts.TTL }

// Close ends all waiting with [ErrClosed], and all watchdogs, and returns when the
// Manager's goroutines have ended: what waited has left the queue by then. If Redis does
// not answer, that takes as long as a request may: some seconds, or the client's
// ReadTimeout if it lacks ContextTimeoutEnabled.
//
// Locks that are held stay held until their deadlines; release them before. The client
// stays the caller's to close.
func (m *Manager) Close() {
	m.mu.Lock()
	m.end()
	for _, l := range m.lines {
		l.forgetLocked()
	}
	m.mu.Unlock()
	if m.ownHub {
		m.hub.Close()
	}
	m.calls.Wait()
	m.mu.Lock()
	m.sealed = true
	m.mu.Unlock()
	m.tasks.Wait()
}

// enter counts a caller in calls, so that Close waits for it, or says why it may not
// begin.
func (m *Manager) enter(ctx context.Context, names ...string) error {
	if err := m.check(ctx, names...); err != nil {
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if err := m.ended(ctx); err != nil {
		return err
	}
	m.calls.Add(1)
	return nil
}

// check says which argument of a call cannot be used.
func (m *Manager) check(ctx context.Context, names ...string) error {
	if ctx == nil {
		return errNilContext
	}
	for _, name := range names {
		if err := m.checkName(name); err != nil {
			return err
		}
	}
	return nil
}

// spawn runs f in a goroutine that Close waits for. Once Close has ended, or waits for
// the last of them, it does nothing and returns false.
func (m *Manager) spawn(f func()) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.sealed {
		return false
	}
	m.tasks.Go(f)
	return true
}

// ended returns why a caller need not wait any more, or nil.
func (m *Manager) ended(ctx context.Context) error {
	if m.life.Err() != nil {
		return ErrClosed
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return nil
}
