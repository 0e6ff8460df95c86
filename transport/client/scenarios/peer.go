package scenarios

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/gorilla/websocket"

	"roomd/transport/protocol"
)

// peer is the server's end of a connection.
type peer struct {
	conn    *websocket.Conn
	frames  chan []byte   // requests, except pings
	pings   chan struct{} // has room for one: further ones are the same news
	closed  chan struct{} // closed when the client has closed, or the connection is broken
	waiting []any         // ids of requests without a reply; only the runner uses it

	mu     sync.Mutex
	silent bool // guarded by mu, as is writing
	code   int  // guarded by mu: the client's close code; 1006 if it sent none
}

func newPeer(conn *websocket.Conn) *peer {
	p := &peer{conn: conn, frames: make(chan []byte, 1000), pings: make(chan struct{}, 1), closed: make(chan struct{})}
	conn.SetPingHandler(func(data string) error {
		p.pinged(func() { _ = conn.WriteControl(websocket.PongMessage, []byte(data), deadline()) })
		return nil
	})
	return p
}

func deadline() time.Time { return time.Now().Add(patience) }

// read reads what the client sends, until the connection ends.
func (p *peer) read(ctx context.Context) {
	stop := context.AfterFunc(ctx, func() { _ = p.conn.Close() })
	defer stop()
	defer p.conn.Close()
	for {
		_, data, err := p.conn.ReadMessage()
		if err != nil {
			p.end(err)
			return
		}
		if frame, id, err := takeID(data); err == nil && same(`{"action":"ping"}`, frame) {
			p.pinged(func() { _ = p.conn.WriteMessage(websocket.TextMessage, fmt.Appendf(nil, `{"id":%.0f}`, id)) })
			continue
		}
		select {
		case p.frames <- data:
		case <-ctx.Done():
		}
	}
}

func (p *peer) end(err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.code = websocket.CloseAbnormalClosure
	var sent *websocket.CloseError
	if errors.As(err, &sent) {
		p.code = sent.Code
	}
	close(p.closed)
}

// pinged notes a ping, and answers it.
func (p *peer) pinged(answer func()) {
	p.mu.Lock()
	if !p.silent {
		answer()
	}
	p.mu.Unlock()
	select {
	case p.pings <- struct{}{}:
	default:
	}
}

// silence ends the answers to pings.
func (p *peer) silence() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.silent = true
}

func (p *peer) send(frame string) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.conn.WriteMessage(websocket.TextMessage, []byte(frame))
}

// reply sends a reply to the oldest request without one.
func (p *peer) reply(frame string) error {
	if len(p.waiting) == 0 {
		return errors.New("there is no request to reply to")
	}
	text, err := withID(frame, p.waiting[0])
	if err != nil {
		return err
	}
	p.waiting = p.waiting[1:]
	return p.send(text)
}

// close ends the connection with a code.
func (p *peer) close(code int) error {
	return p.conn.WriteControl(websocket.CloseMessage, websocket.FormatCloseMessage(code, "as the scenario says"), deadline())
}

// flood sends changes behind a version.
func (p *peer) flood(behind, n int) error {
	for v := behind + 1; v <= behind+n; v++ {
		frame := fmt.Sprintf(`{"event":%q,"room":"42","epoch":"e","version":%d,"from":%d,"changes":[{"type":"data","data":%d}]}`,
			protocol.EventChanges, v, v-1, v)
		if err := p.send(frame); err != nil {
			return err
		}
	}
	return nil
}
