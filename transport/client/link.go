package client

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/gorilla/websocket"

	"roomd/transport/protocol"
)

// link keeps a client connected: it runs one session after the other.
type link struct {
	cfg        Config
	ctx        context.Context // cancelled when Close is called
	stop       context.CancelFunc
	done       chan struct{} // closed when the client is Lost
	goroutines sync.WaitGroup

	mu       sync.Mutex // guards the fields below, and the rooms' state
	state    State
	degraded bool             // the server says that it is degraded
	session  *session         // on the current connection, or nil
	last     error            // why the last attempt to connect failed
	err      error            // why the client is Lost
	rooms    map[string]*Room // by id: rooms that have not ended
	user     string           // the user's name in the server's spelling, once known
	changed  signal           // a field above has changed, or a room is restored
}

// run makes one connection after the other until the client ends.
func (l *link) run() {
	k := newConnector(&l.cfg)
	err := l.sessions(&k)
	if l.ctx.Err() != nil {
		err = &CloseError{Code: websocket.CloseNormalClosure, Text: "by the program"}
	}
	l.stop()
	if !errors.Is(err, ErrClosed) {
		err = fmt.Errorf("%w: %w", ErrClosed, err)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.state, l.session, l.err = Lost, nil, err
	for _, r := range l.rooms {
		r.endLocked(err)
	}
	close(l.done)
	l.changed.notify()
}

// silentAttempts is how many failed attempts at the first connection pass before the program is told.
const silentAttempts = 3

// sessions runs a session on each connection, and returns the error that makes another connection useless.
func (l *link) sessions(k *connector) error {
	for attempts := 1; ; attempts++ {
		var conn *Conn
		token := ""
		final, err := k.attempt(l.ctx, func(address, shown string, opts Options) (err error) {
			token, opts.OnEvent = shown, l.event
			conn, err = l.cfg.dial(l.ctx, address, opts)
			return err
		})
		if err == nil {
			began := time.Now()
			l.begin(conn, token).run()
			err = conn.Err()
			final = k.ends(err, time.Since(began))
		} else {
			l.mu.Lock()
			l.last = err
			l.mu.Unlock()
		}
		if l.ctx.Err() != nil {
			return l.ctx.Err()
		}
		if final {
			return err
		}
		if attempts == silentAttempts && !k.before {
			l.cfg.OnUnreachable(err)
		}
		l.disconnected(err)
		if err := k.backoff.Wait(l.ctx); err != nil {
			return err
		}
	}
}

// disconnected records the end of a connection. The rooms show their last state until they are restored.
func (l *link) disconnected(why error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, r := range l.rooms {
		r.disconnectedLocked()
	}
	if l.state != Connecting {
		l.state = Reconnecting
	}
	l.session, l.last, l.degraded = nil, why, false
	l.changed.notify()
}

// begin makes conn the client's connection, and starts to restore the client's rooms.
func (l *link) begin(conn *Conn, token string) *session {
	s := &session{link: l, conn: conn, token: token, window: maxWindow, began: time.Now()}
	s.ctx, s.cancel = context.WithCancel(l.ctx)
	l.mu.Lock()
	defer l.mu.Unlock()
	l.session, l.last, l.state = s, nil, l.connectedLocked()
	for _, r := range l.rooms {
		r.restoreLocked()
	}
	l.changed.notify()
	return s
}

// connectedLocked returns the state of a client that has a connection.
func (l *link) connectedLocked() State {
	if l.degraded {
		return Degraded
	}
	return Connected
}

// connected waits for the first connection. Errors are as for Connect.
func (l *link) connected(ctx context.Context) error {
	err := l.await(ctx, func() bool { return l.state != Connecting })
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case err == nil && l.state == Lost:
		return l.last
	case err == nil:
		return nil
	case l.last != nil:
		err = fmt.Errorf("%w: %w", err, l.last)
	}
	return fmt.Errorf("client: not connected: %w", err)
}

// locked returns a function that calls apply with the mutex held, and then wakes the requests that wait.
func (l *link) locked(apply func(*protocol.Reply)) func(*protocol.Reply) {
	return func(reply *protocol.Reply) {
		l.mu.Lock()
		defer l.mu.Unlock()
		apply(reply)
		l.changed.notify()
	}
}

// do sends a request, and repeats it after a lost connection if that does no harm. It also tries up to rateTries
// times if the server refuses the request because too many came at once.
func (l *link) do(ctx context.Context, k *call) (*protocol.Reply, error) {
	tries := 0
	for prefix := "not sent: "; ; prefix = "" {
		s, err := l.ready(ctx, k)
		if err != nil {
			return nil, k.failed(fmt.Errorf("%s%w", prefix, err))
		}
		reply, begun, again, err := s.ask(ctx, k)
		switch {
		case again && tries+1 < rateTries:
			tries++
		case !errors.Is(err, ErrClosed): // err may be nil
			return reply, k.failed(err)
		case begun && !protocol.ActionNamed(k.req.Action).Repeats:
			return nil, k.failed(fmt.Errorf("%w: %w", errNoReply, err))
		}
	}
}

// errNoReply is for a request that the server may have carried out.
var errNoReply = protocol.NewError(protocol.CodeUnknown, "sent, but no reply came")

// ready waits for a session that can send the request by ask.
func (l *link) ready(ctx context.Context, k *call) (s *session, err error) {
	waited := l.await(ctx, func() bool {
		s, err = l.readyLocked(k)
		return s != nil || err != nil
	})
	return s, cmp.Or(err, waited)
}

// readyLocked returns a session that can send the request, and counts the request there; or nil if there is none now.
// The error says why there never will be one.
func (l *link) readyLocked(k *call) (*session, error) {
	r := k.room
	switch {
	case k.err != nil:
		return nil, k.err
	case l.err != nil:
		return nil, l.err
	case r != nil && r.err != nil:
		return nil, r.err
	case l.session == nil, l.session.conn.Err() != nil, r != nil && r.awaitsSnapshotLocked():
		return nil, nil
	case k.enters, protocol.ActionNamed(k.req.Action).Host: // a host first needs its membership restored
		r = l.rooms[cmp.Or(k.req.Room, k.req.Party)]
	}
	if r != nil && !r.restoredLocked() || !l.session.mayAskLocked() {
		return nil, nil
	}
	return l.session, nil
}

// await waits until condition returns true, or ctx ends. condition runs with the mutex held.
func (l *link) await(ctx context.Context, condition func() bool) error {
	return l.changed.await(ctx, &l.mu, condition)
}

// signal wakes goroutines that wait for a change of some state.
type signal struct {
	changed chan struct{} // closed at the next change; nil if nobody waits
}

// notify wakes all who wait. Call it with the mutex of the state held.
func (s *signal) notify() {
	if s.changed != nil {
		close(s.changed)
		s.changed = nil
	}
}

// await waits until condition returns true, or ctx ends. condition runs with the mutex of the state held.
func (s *signal) await(ctx context.Context, mu *sync.Mutex, condition func() bool) error {
	for {
		mu.Lock()
		if condition() {
			mu.Unlock()
			return nil
		}
		if s.changed == nil {
			s.changed = make(chan struct{})
		}
		changed := s.changed
		mu.Unlock()
		select {
		case <-changed:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}
