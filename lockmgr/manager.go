package lockmgr

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/google/uuid"
	"github.com/redis/go-redis/v9"

	"roomd/lockmgr/pubsub"
)

const (
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
	client   redis.UniversalClient
	opts     Options
	cluster  *redis.ClusterClient // the client, if it is of a Redis Cluster
	single   *redis.Client        // the client, if plain commands may be sent; see takePlainly
	node     [4]byte              // begins the UUID of every token
	pipe     *redis.AutoPipeliner // nil unless requests share round trips, to one server
	underway atomic.Int64         // requests of a Manager that is Pipelined
	lockAt   []any                // what every script that is built on Lua has first: the arguments of lock_at
	ttl      any                  // of a hold, in ms
	keep     any                  // keepQueue in ms
	hub      *pubsub.Hub
	ownHub   bool

	life context.Context
	end  context.CancelFunc

	mu    sync.Mutex
	lines map[string]*line    // guarded by mu: locks that this process waits for
	quiet map[string]struct{} // guarded by mu: locks at which nobody else was met of late
	wg    sync.WaitGroup      // clean-ups; guarded by mu as long as life has not ended
}

// New returns a Manager that keeps its locks on client. It sends nothing, and
// starts goroutines only when a lock has to be waited for; [Manager.Close] ends
// them.
//
// For calls to end with their contexts the client needs ContextTimeoutEnabled;
// without it go-redis waits for its own ReadTimeout first.
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
		quiet:  make(map[string]struct{}),
	}
	id := uuid.New()
	copy(m.node[:], id[:])
	m.cluster, _ = client.(*redis.ClusterClient)
	if !opts.Pipelined { // there requests go out in any order
		m.single, _ = client.(*redis.Client)
	}
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
	m.lockAt = []any{publish, opts.Claim.Milliseconds()}
	if m.hub == nil {
		m.hub, m.ownHub = pubsub.New(client, nil), true // a wake-up that is lost costs one poll
	}
	m.life, m.end = context.WithCancel(context.Background())
	return m, nil
}

// TTL returns how long a hold lasts.
func (m *Manager) TTL() time.Duration { return m.opts.TTL }

// Close ends all waiting with [ErrClosed] and waits for the Manager's goroutines.
// Locks that are held stay held; release them before, or let them expire. The
// client stays the caller's to close.
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
	m.wg.Wait()
}

// Acquire takes the lock of that name. While somebody else holds it, it waits its
// turn: first come, first served between the processes that wait, and within
// this one.
//
// It returns the cause of ctx, together with [ErrHeld], when ctx ends first;
// [ErrBusy] at once if too many wait or the deadline of ctx cannot be met;
// [ErrInvalid] for a bad name; [ErrClosed]; and the client's error if Redis cannot
// be asked. Whenever it returns an error the lock is not held, and nothing waits
// for it.
func (m *Manager) Acquire(ctx context.Context, name string) (*Lock, error) {
	if err := m.checkName(name); err != nil {
		return nil, err
	}
	start := time.Now()
	w, err := m.join(ctx, name)
	if err != nil {
		return nil, fmt.Errorf("lockmgr: acquire %q: %w", name, err)
	}
	g, err := m.wait(ctx, w)
	if err != nil {
		return nil, fmt.Errorf("lockmgr: acquire %q: %w", name, err)
	}
	if m.opts.Observer.Acquired != nil {
		m.opts.Observer.Acquired(name, time.Since(start))
	}
	return newLock(m, name, w.keys, w.token, m.opts.TTL, g), nil
}

// TryAcquire takes the lock of that name if it is free and nobody waits for it,
// and returns [ErrHeld] if not. Its other errors are those of [Manager.Acquire].
func (m *Manager) TryAcquire(ctx context.Context, name string) (*Lock, error) {
	if err := m.checkName(name); err != nil {
		return nil, err
	}
	keys, token := m.Keys(name), m.newToken(name)
	g, _, err := m.ask(ctx, keys, token, 0)
	switch {
	case err != nil:
		m.leave(name, token)
		return nil, fmt.Errorf("lockmgr: acquire %q: %w", name, err)
	case g == nil:
		return nil, fmt.Errorf("lockmgr: acquire %q: %w", name, ErrHeld)
	}
	if m.opts.Observer.Acquired != nil {
		m.opts.Observer.Acquired(name, 0)
	}
	return newLock(m, name, keys, token, m.opts.TTL, g), nil
}

// grant is a hold that begins.
type grant struct {
	fence int64
	since time.Time     // not after Redis gave it
	lasts time.Duration // from since
}

// ask asks Redis once for the lock. If somebody else has it, the token waits in
// the queue (unless keep is zero), behind as many as ahead says. On an error the
// request may have been carried out although its reply did not come: see leave.
func (m *Manager) ask(ctx context.Context, keys []string, token string, keep time.Duration) (g *grant, ahead int, err error) {
	a, err := m.asked(ctx, func(args []any) *redis.Cmd {
		return m.run(ctx, acquireScript, keys, args)
	}, token, keep)
	return a.grant, a.ahead, err
}

// answer is what Redis said to a token that asked for a lock.
type answer struct {
	grant *grant // nil if it has to wait
	ahead int    // behind so many
	moment
}

func (m *Manager) asked(ctx context.Context, run func(args []any) *redis.Cmd, token string, keep time.Duration) (answer, error) {
	if err := m.ended(ctx); err != nil {
		return answer{}, err
	}
	sent := time.Now()
	reply, err := run([]any{token, m.ttl, keep.Milliseconds()}).Slice()
	if err != nil {
		if ended := m.ended(ctx); ended != nil {
			err = ended
		}
		return answer{}, err
	}
	if fence, ok := reply[0].(int64); ok {
		return answer{grant: &grant{fence, sent, m.opts.TTL}}, nil
	}
	ahead, _ := reply[1].(int64)
	now, _ := reply[2].(int64)
	return answer{ahead: int(ahead), moment: moment{sent, now}}, nil
}

// leave takes a token out of the queue, and gives back what it may have been
// given. If Redis does not answer at once, it goes on without the caller for a
// while; if not at all, the claim or the TTL does it.
func (m *Manager) leave(name, token string) {
	done := make(chan struct{})
	if !m.background(func() {
		defer close(done)
		m.clean(name, token)
	}) {
		m.clean(name, token)
		return
	}
	patience := time.NewTimer(cleanupPatience)
	defer patience.Stop()
	select {
	case <-done:
	case <-patience.C:
	}
}

func (m *Manager) clean(name, token string) {
	// Not a caller's context: that one has ended.
	ctx, cancel := context.WithTimeout(context.Background(), cleanupTimeout)
	defer cancel()
	_ = m.run(ctx, leaveScript, m.Keys(name), []any{token}).Err()
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
