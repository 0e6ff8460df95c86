package bench

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/url"
	"sync/atomic"
	"time"

	"github.com/gorilla/websocket"

	"roomd/lockmgr/redisconn/pause"
	"roomd/transport/protocol"
)

// The ids of a socket's two requests. It never has more than one under way.
const (
	joinID  = 1
	leaveID = 2
)

// How frames begin; see package protocol.
var (
	eventStart = []byte(`{"event":`)
	errorStart = []byte(`"error":`)
)

var errNoReply = errors.New("a frame that is neither the reply nor an event")

// socket is one client of the whole path: one user of one room over a WebSocket. It is as
// cheap as possible, because it shares the machine with the server: it encodes its frames
// once, and distinguishes those that it reads by their first bytes.
type socket struct {
	conn       *websocket.Conn
	room       int // its number
	user       string
	requests   [2]request // join, leave
	membership membership
	pace       time.Duration // between two actions, on average
	frame      []byte        // the last one read
	events     atomic.Int64  // frames other than replies
}

// request is a frame to send, and the first bytes of its reply.
type request struct {
	frame *websocket.PreparedMessage
	start []byte
}

func newRequest(id int64, action, room string) (request, error) {
	frame, err := websocket.NewPreparedMessage(websocket.TextMessage,
		protocol.AppendRequest(nil, &protocol.Request{ID: id, Action: action, Room: room}))
	return request{frame, fmt.Appendf(nil, `{"id":%d,`, id)}, err
}

func newSocket(room int, id, user string) (s *socket, err error) {
	s = &socket{room: room, user: user}
	if s.requests[0], err = newRequest(joinID, protocol.ActionJoin, id); err != nil {
		return nil, err
	}
	s.requests[1], err = newRequest(leaveID, protocol.ActionLeave, id)
	return s, err
}

// dial connects to a server; address is its URL without a query.
func (s *socket) dial(ctx context.Context, address string) error {
	conn, resp, err := websocket.DefaultDialer.DialContext(ctx, address+"?user="+url.QueryEscape(s.user), http.Header{})
	if err != nil {
		if resp != nil {
			err = fmt.Errorf("HTTP %s: %w", resp.Status, err)
		}
		return err
	}
	s.conn = conn
	return nil
}

// until sets a deadline for reading. A connection that has passed it is useless.
func (s *socket) until(deadline time.Time) { _ = s.conn.SetReadDeadline(deadline) }

// act sends a join or a leave, by turns, and waits for its reply.
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
		if bytes.HasPrefix(s.frame, eventStart) {
			s.events.Add(1)
			continue
		}
		rest, isReply := bytes.CutPrefix(s.frame, req.start)
		if !isReply {
			return fmt.Errorf("%w: %s", errNoReply, s.frame)
		}
		if bytes.Contains(rest, errorStart) {
			return fmt.Errorf("refused: %s", s.frame)
		}
		s.membership = done
		return nil
	}
}

// rest makes a pause if the socket has a pace, at random, so that sockets with the same do not act in step.
func (s *socket) rest(ctx context.Context, end time.Time) time.Time {
	if s.pace == 0 {
		return end
	}
	_ = pause.For(ctx, rand.N(2*s.pace))
	return time.Now()
}

// read reads one frame into s.frame, and reuses its memory.
func (s *socket) read() error {
	_, r, err := s.conn.NextReader()
	if err != nil {
		return err
	}
	s.frame = s.frame[:0]
	for {
		if len(s.frame) == cap(s.frame) {
			s.frame = append(s.frame, 0)[:len(s.frame)]
		}
		n, err := r.Read(s.frame[len(s.frame):cap(s.frame)])
		s.frame = s.frame[:len(s.frame)+n]
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

// listen reads events until the connection ends, and returns why it ended.
func (s *socket) listen() error {
	for {
		if err := s.read(); err != nil {
			return err
		}
		if !bytes.HasPrefix(s.frame, eventStart) {
			return fmt.Errorf("%w: %s", errNoReply, s.frame)
		}
		s.events.Add(1)
	}
}

func (s *socket) close() {
	if s.conn != nil {
		_ = s.conn.Close()
	}
}
