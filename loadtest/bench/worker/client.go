package worker

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"roomd/transport/protocol"
)

// The ids of a client's two requests. It never has more than one under way.
const (
	joinID  = 1
	leaveID = 2
)

// answerTimeout is how long a client waits for a reply: far longer than a node needs to answer busy.
const answerTimeout = time.Minute

// closeWait is how long the server may take to close a connection.
const closeWait = 5 * time.Second

// How frames begin; see package protocol.
var (
	eventStart = []byte(`{"event":`)
	errorStart = []byte(`"error":`)
)

// client is one ordinary user, with one connection and one room. A goroutine reads.
type client struct {
	wire        *wire
	join, leave request
	replies     chan []byte   // at most one
	ended       chan struct{} // closed when nothing more can be read
	why         error         // of that; read it when ended is closed
	in          bool          // the last reply says that the client is in its room

	mu sync.Mutex // guards writing
}

// request is a frame to send, and the first bytes of its reply.
type request struct{ frame, start []byte }

func newRequest(id int64, action, room string) request {
	r := protocol.Request{ID: id, Action: action, Room: room}
	return request{appendFrame(nil, opText, protocol.AppendRequest(nil, &r)), fmt.Appendf(nil, `{"id":%d,`, r.ID)}
}

// newClient connects the i-th client. The caller closes it.
func newClient(ctx context.Context, address, user, room string, i int) (*client, error) {
	w, err := dial(ctx, address, user, i)
	if err != nil {
		return nil, err
	}
	c := &client{
		wire: w, join: newRequest(joinID, protocol.ActionJoin, room), leave: newRequest(leaveID, protocol.ActionLeave, room),
		replies: make(chan []byte, 1), ended: make(chan struct{}),
	}
	go c.listen()
	return c, nil
}

// listen reads until the connection ends.
func (c *client) listen() {
	defer close(c.ended)
	for {
		op, payload, err := c.wire.next()
		switch {
		case err != nil:
			c.why = err
			_ = c.wire.Close()
			return
		case op == opPing:
			_ = c.write(appendFrame(nil, opPong, payload)) // the next read says what is wrong
		case op == opText && !bytes.HasPrefix(payload, eventStart):
			select {
			case c.replies <- bytes.Clone(payload):
			default: // to no request; nobody waits for it
			}
		}
	}
}

func (c *client) write(frame []byte) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	_, err := c.wire.Write(frame)
	return err
}

// do sends a request and waits for its reply. A Refusal is the server's answer; with any other
// error there was none.
func (c *client) do(r request) error {
	timer := time.NewTimer(answerTimeout)
	defer timer.Stop()
	if err := c.write(r.frame); err != nil {
		return c.ending(err)
	}
	select {
	case reply := <-c.replies:
		rest, isReply := bytes.CutPrefix(reply, r.start)
		if code := errorCode(reply); code != "" || bytes.Contains(rest, errorStart) {
			return &Refusal{code}
		}
		if !isReply {
			return fmt.Errorf("not the reply: %.200s", reply)
		}
		return nil
	case <-c.ended:
		return c.ending(nil)
	case <-timer.C:
		return fmt.Errorf("no answer within %v", answerTimeout)
	}
}

// ending returns why the connection ended. That it could not be written to says less than what the
// server has sent before.
func (c *client) ending(written error) error {
	select {
	case <-c.ended:
		return c.why
	case <-time.After(time.Second):
		return errors.Join(errors.New("the connection broke"), written)
	}
}

// close says goodbye, so that the server frees the connection at once.
func (c *client) close() {
	_ = c.write(appendFrame(nil, opClose, []byte{0x03, 0xe8}))
	select {
	case <-c.ended: // the server has closed
	case <-time.After(closeWait):
		_ = c.wire.Close()
		<-c.ended
	}
}
