package bench

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gorilla/websocket"
	"golang.org/x/sync/errgroup"

	"roomd/transport/protocol"
)

// The ids of a socket's two requests. At most one is under way.
const (
	joinID  = 1
	leaveID = 2
)

const (
	dialsAtOnce = 32
	actTimeout  = time.Minute
	perNet      = 250 // clients' addresses per network of 256
)

// The starts of frames; see package protocol.
var (
	eventStart = []byte(`{"event":`)
	errorStart = []byte(`"error":`)
)

var errNoReply = errors.New("a frame that is neither the reply nor an event")

// socket is a client with a WebSocket: one user of one room. It is simpler than transport/client, because it
// shares the machine with the server: it encodes its frames once, and recognizes frames by their first bytes.
type socket struct {
	*place
	conn     *websocket.Conn
	requests [2]request   // join, leave
	frame    bytes.Buffer // the last one read
	events   atomic.Int64 // frames other than replies
}

// request is a frame to send, and the start of its reply.
type request struct {
	frame *websocket.PreparedMessage
	start []byte
}

// dial connects the i-th client to a server; address is its URL without a query. On Linux all of 127.0.0.0/8 is
// loopback. There each client has its own address, so that a limit by address does not count them together, and
// none runs out of ports.
func dial(ctx context.Context, address string, i int, at *place) (*socket, error) {
	s := &socket{place: at}
	for n, action := range []string{protocol.ActionJoin, protocol.ActionLeave} {
		id := int64(joinID + n)
		frame, err := websocket.NewPreparedMessage(websocket.TextMessage,
			protocol.AppendRequest(nil, &protocol.Request{ID: id, Action: action, Room: at.id}))
		if err != nil {
			return nil, err
		}
		s.requests[n] = request{frame, fmt.Appendf(nil, `{"id":%d,`, id)}
	}
	var from net.Dialer
	if runtime.GOOS == "linux" {
		from.LocalAddr = &net.TCPAddr{IP: net.IPv4(127, byte(1+i/perNet/perNet), byte(1+i/perNet%perNet),
			byte(1+i%perNet))}
	}
	dialer := websocket.Dialer{NetDialContext: from.DialContext, ReadBufferSize: 1 << 10, WriteBufferSize: 1 << 10}
	conn, resp, err := dialer.DialContext(ctx, address+"?user="+url.QueryEscape(at.user), nil)
	if err != nil {
		if resp != nil {
			err = fmt.Errorf("HTTP %s: %w", resp.Status, err)
		}
		return nil, err
	}
	s.conn = conn
	return s, nil
}

// act alternates between a join and a leave, and waits for the reply.
func (s *socket) act(context.Context) error {
	req, done := s.requests[0], memberIn
	if s.membership == memberIn {
		req, done = s.requests[1], memberOut
	}
	s.membership = memberUnsure
	if err := s.conn.WritePreparedMessage(req.frame); err != nil {
		return err
	}
	for {
		if err := s.read(); err != nil {
			return err
		}
		frame := s.frame.Bytes()
		if bytes.HasPrefix(frame, eventStart) {
			s.events.Add(1)
			continue
		}
		rest, isReply := bytes.CutPrefix(frame, req.start)
		if !isReply {
			return fmt.Errorf("%w: %s", errNoReply, frame)
		}
		if bytes.Contains(rest, errorStart) {
			return fmt.Errorf("refused: %s", frame)
		}
		s.membership = done
		return nil
	}
}

// read reads one frame into s.frame, whose memory it reuses.
func (s *socket) read() error {
	_, r, err := s.conn.NextReader()
	if err != nil {
		return err
	}
	s.frame.Reset()
	_, err = s.frame.ReadFrom(r)
	return err
}

// listen reads events until the connection ends, and returns the reason.
func (s *socket) listen() error {
	for {
		if err := s.read(); err != nil {
			return err
		}
		if !bytes.HasPrefix(s.frame.Bytes(), eventStart) {
			return fmt.Errorf("%w: %s", errNoReply, s.frame.Bytes())
		}
		s.events.Add(1)
	}
}

// crowd has all clients of a measurement with WebSockets.
type crowd struct {
	sockets   []*socket
	listening sync.WaitGroup
	mu        sync.Mutex
	deaf      []error // guarded by mu; why sockets stopped listening
}

// connect connects a client for each place, some at a time, and calls then. Without an error, the caller closes
// the crowd.
func connect(ctx context.Context, places []*place, address func(client int) string,
	then func(c *crowd, client int) error) (*crowd, error) {
	c := &crowd{sockets: make([]*socket, len(places))}
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(dialsAtOnce)
	for i, at := range places {
		group.Go(func() (err error) {
			if c.sockets[i], err = dial(ctx, address(i), i, at); err != nil {
				return fmt.Errorf("connect: %w", err)
			}
			return then(c, i)
		})
	}
	if err := group.Wait(); err != nil {
		c.close()
		return nil, err
	}
	return c, nil
}

func (c *crowd) act(client int) error {
	s := c.sockets[client]
	_ = s.conn.SetReadDeadline(time.Now().Add(actTimeout))
	if err := s.act(context.Background()); err != nil {
		return fmt.Errorf("join or leave: %w", err)
	}
	return s.conn.SetReadDeadline(time.Time{})
}

// listen makes a client listen until its connection ends.
func (c *crowd) listen(client int) {
	c.listening.Go(func() {
		err := c.sockets[client].listen()
		c.mu.Lock()
		defer c.mu.Unlock()
		c.deaf = append(c.deaf, err)
	})
}

// allHeard returns an error if a socket has stopped listening.
func (c *crowd) allHeard() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.deaf) > 0 {
		return fmt.Errorf("%d clients were cut off, the first: %w", len(c.deaf), c.deaf[0])
	}
	return nil
}

// close sends close frames for all clients, and ends their connections.
func (c *crowd) close() {
	for _, s := range c.sockets {
		if s != nil {
			_ = s.conn.WriteControl(websocket.CloseMessage,
				websocket.FormatCloseMessage(websocket.CloseNormalClosure, ""), time.Now().Add(time.Second))
			_ = s.conn.Close()
		}
	}
	c.listening.Wait()
}

// trySockets measures servers through WebSockets, all in this process. At each table half of the clients act
// and half stay. If all acted, they would do so in step, because clients that share a hold get their answers
// together and ask again together; and nobody would be in the room to get an event.
func (c *cell) trySockets(ctx context.Context) (*Result, error) {
	nodes, closeAll, err := openAll(c, func(t target) (server, error) {
		return c.who.serve(ctx, serverConfig{db: c.redis.DB, Name: t.name, Seats: c.load.clients / c.load.rooms})
	}, server.Close)
	defer closeAll()
	if err != nil {
		return nil, err
	}
	rooms := c.load.names(c.prefix)
	places := newPlaces(c.load, rooms)
	half := len(places) / 2
	crowd, err := connect(ctx, places, func(i int) string { return nodes[c.load.node(i)].URL() },
		func(crowd *crowd, i int) error {
			if i < half {
				return nil
			}
			defer crowd.listen(i)
			return crowd.act(i)
		})
	if err != nil {
		return nil, err
	}
	defer crowd.close() // before the servers, which would wait for connections
	acting := crowd.sockets[:half]
	for _, s := range acting { // a connection after its deadline is useless
		_ = s.conn.SetReadDeadline(time.Now().Add(maxWarmUp + c.duration + grace))
	}
	runtime.GC()
	d := c.driver()
	d.probe = func(ctx context.Context) (usage, error) {
		u, err := c.usage(ctx)
		for _, s := range crowd.sockets {
			u.events += float64(s.events.Load())
		}
		return u, err
	}
	m, err := drive(ctx, d, acting)
	if err != nil {
		return nil, err
	}
	if err := crowd.allHeard(); err != nil {
		return nil, err
	}
	v, err := c.check(ctx, rooms, places)
	return newResult(m, v), err
}
