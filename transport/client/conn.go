package client

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gorilla/websocket"

	"roomd/transport/protocol"
)

// readLimit is the longest frame that a server may send, in bytes. The list of the largest room, 65,536 members with
// 1 KiB of data each, has 90 MB.
const readLimit = 256 << 20

// readTimeout is how long the server may be silent, without even a ping, before the connection ends. A server pings a
// silent client every few seconds.
const readTimeout = 90 * time.Second

// closeWait is how long the server has to end the connection after a close frame, or after a failed write. After that
// this side closes the socket.
const closeWait = 2 * time.Second

// Conn is one connection of one user, made by [Dial]. It is safe for concurrent use. The callbacks in [Options] must
// not call methods that wait.
type Conn struct {
	socket     *websocket.Conn
	opts       Options
	began      time.Time
	heard      atomic.Int64   // when the server's last bytes came: nanoseconds since began
	outgoing   chan []byte    // frames for the writing goroutine
	done       chan struct{}  // closed when err is set
	closeOnce  sync.Once      // only the first Close sends a close frame
	goroutines sync.WaitGroup // the reader and the writer

	mu     sync.Mutex
	lastID int64           // guarded by mu: id of the newest request
	calls  map[int64]*call // guarded by mu: calls that wait for a reply, by request id
	cut    error           // guarded by mu: why this side closed the socket, nil if it did not
	err    error           // guarded by mu: the *CloseError; nil while the connection is open
}

// newConn returns a Conn that owns socket from now on.
func newConn(socket *websocket.Conn, opts Options) *Conn {
	c := &Conn{
		socket: socket, opts: opts, began: time.Now(),
		outgoing: make(chan []byte), done: make(chan struct{}), calls: make(map[int64]*call),
	}
	socket.SetReadLimit(readLimit)
	socket.SetPingHandler(c.pong)
	socket.SetPongHandler(func(string) error { c.hear(); return nil })
	c.goroutines.Go(c.read)
	c.goroutines.Go(c.write)
	return c
}

// Done returns a channel that is closed when the connection has ended.
func (c *Conn) Done() <-chan struct{} { return c.done }

// Err returns nil as long as Done is open, and then a [*CloseError] with the reason.
func (c *Conn) Err() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.err
}

// Close ends the connection: it sends a close frame, waits up to two seconds for the server's, and closes the socket.
// It returns when the Conn's goroutines have ended. Until then these may call the callbacks, so callbacks must not
// call Close. Waiting requests get a [*CloseError]. Closing again, or after the connection has ended, does nothing.
func (c *Conn) Close() {
	c.closeOnce.Do(func() {
		// If this fails, the server will not answer either, and hangUp ends the connection.
		c.control(websocket.CloseMessage, websocket.FormatCloseMessage(websocket.CloseNormalClosure, ""))
		c.hangUp(errors.New("closed here, and the server did not answer"))
	})
	c.goroutines.Wait()
}

// read reads until the connection ends, and then records why.
func (c *Conn) read() {
	c.hear() // the server has answered the handshake
	var err error
	for err == nil {
		err = c.readFrame()
	}
	_ = c.socket.Close()

	c.mu.Lock()
	defer c.mu.Unlock()
	c.err = closeError(err, c.cut)
	close(c.done)
}

func (c *Conn) readFrame() error {
	kind, from, err := c.socket.NextReader()
	if err != nil {
		return err
	}
	data, err := io.ReadAll(&heardReader{c, from})
	if err != nil {
		return err
	}
	if kind != websocket.TextMessage {
		return c.reject(protocol.CloseNotText, "the server sent a frame that is not text")
	}
	frame, err := protocol.DecodeFrame(data)
	if err != nil {
		return c.reject(websocket.CloseProtocolError, err.Error())
	}
	switch f := frame.(type) {
	case *protocol.Event:
		if c.opts.OnEvent != nil {
			c.opts.OnEvent(f)
		}
	case *protocol.Reply:
		if c.opts.OnReply != nil {
			c.opts.OnReply(f)
		}
		c.deliver(f)
	}
	return nil
}

// heardReader reads a frame. A long frame may leave no room for a pong for a while, so it counts each read as a sign
// of life.
type heardReader struct {
	conn *Conn
	from io.Reader
}

func (r *heardReader) Read(p []byte) (int, error) {
	n, err := r.from.Read(p)
	if n > 0 {
		r.conn.hear()
	}
	return n, err
}

// hear records a sign of life of the server, and extends the socket's read deadline. It ignores the error of a closed
// socket, which may still have frames to read.
func (c *Conn) hear() {
	c.heard.Store(int64(time.Since(c.began)))
	_ = c.socket.SetReadDeadline(time.Now().Add(readTimeout))
}

// pong answers a ping, in the reading goroutine. If the answer cannot be sent, reading goes on: the next write finds
// the error, and a close frame may still have to be read.
func (c *Conn) pong(data string) error {
	c.control(websocket.PongMessage, []byte(data))
	c.hear()
	return nil
}

// reject sends the server a close frame, and returns the error that ends the reading.
func (c *Conn) reject(code int, why string) error {
	c.control(websocket.CloseMessage, websocket.FormatCloseMessage(code, ""))
	return fmt.Errorf("closed here with code %d: %s", code, why)
}

// control sends a control frame, or gives up after a second.
func (c *Conn) control(kind int, data []byte) {
	_ = c.socket.WriteControl(kind, data, time.Now().Add(time.Second))
}

// write sends the frames of requests, until the connection ends.
func (c *Conn) write() {
	for {
		select {
		case frame := <-c.outgoing:
			err := c.socket.SetWriteDeadline(time.Now().Add(c.opts.WriteTimeout))
			if err == nil {
				err = c.socket.WriteMessage(websocket.TextMessage, frame)
			}
			if errors.Is(err, websocket.ErrCloseSent) {
				return // Close or the reader has sent a close frame, and ends the connection
			}
			if err != nil {
				c.hangUp(fmt.Errorf("sending: %w", err))
				return
			}
		case <-c.done:
			return
		}
	}
}

// hangUp gives the reader closeWait to read the server's last frames, above all its close frame. If the connection
// has not ended by then, it closes the socket, and records reason as the cause.
func (c *Conn) hangUp(reason error) {
	timer := time.NewTimer(closeWait)
	defer timer.Stop()
	select {
	case <-c.done:
	case <-timer.C:
		c.drop(reason)
	}
}

// drop closes the socket at once, without a close frame, so that the server keeps the user's seats. Under TLS it
// skips the close notification, which could block if the server does not read.
func (c *Conn) drop(reason error) {
	c.mu.Lock()
	c.cut = cmp.Or(c.cut, reason)
	c.mu.Unlock()
	if secure, ok := c.socket.NetConn().(*tls.Conn); ok {
		_ = secure.NetConn().Close()
		return
	}
	_ = c.socket.Close()
}

// Do sets the ID of a request, sends it, and waits for the reply. OnReply gets the same reply, so do not change it.
//
// The error holds a [*protocol.Error] if the server refused, in a [*ConflictError] if a condition was not met; a
// [*CloseError], which is [ErrClosed], if the connection has ended; or ctx.Err(); otherwise it names a field that
// cannot be sent. After a CloseError and ctx.Err(), the server may have carried out the request. It has not if the
// text has "not sent", or if the code is [protocol.CloseRestart]: a server answers all that it has started before it
// restarts. A reply after the end of ctx goes to OnReply only.
//
// With [protocol.ActionAuth], Do sends the server a newer token of the same user, which extends the life of the
// connection. On a connection that was dialed without [Options.Token], it must be the first request. The error is
// [ErrUnauthorized] if the server does not accept the token; the older one then stays valid.
func (c *Conn) Do(ctx context.Context, r protocol.Request) (*protocol.Reply, error) {
	k := newCall(r)
	reply, _, err := c.roundTrip(ctx, k)
	return reply, k.failed(err)
}

// roundTrip sends a request and waits for its reply. If ctx ends first, the call's apply still gets a later reply,
// because the server has run the request. begun is false if the server has not started the request, and never will.
func (c *Conn) roundTrip(ctx context.Context, k *call) (reply *protocol.Reply, begun bool, err error) {
	k.answer = make(chan *protocol.Reply, 1)
	if err := c.post(ctx, k); err != nil {
		return nil, false, fmt.Errorf("not sent: %w", err)
	}
	select {
	case reply = <-k.answer:
	case <-ctx.Done():
		err = ctx.Err()
		if k.apply == nil {
			c.forget(k)
		}
	case <-c.done:
		err = c.Err()
	}
	if reply == nil {
		// Prefer a reply that has arrived to the end of the wait.
		select {
		case reply = <-k.answer:
		default:
			return nil, !isRestart(err), err
		}
	}
	switch {
	case reply.Error == nil:
		return reply, true, nil
	case reply.Error.Is(protocol.ErrConflict):
		return nil, true, &ConflictError{reply.Epoch, reply.Version, reply.Data, reply.Error}
	}
	return nil, true, reply.Error
}

// post gives the request its id, and passes it to the writing goroutine.
func (c *Conn) post(ctx context.Context, k *call) error {
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case k.err != nil:
		return k.err
	}
	if err := c.expect(k); err != nil {
		return err
	}
	frame, err := k.frame()
	if err == nil {
		select {
		case c.outgoing <- frame:
			return nil
		case <-ctx.Done():
			err = ctx.Err()
		case <-c.done:
			err = c.Err()
		}
	}
	c.forget(k)
	return err
}

// expect registers the call for its reply.
func (c *Conn) expect(k *call) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.err != nil {
		return c.err
	}
	c.lastID++
	k.req.ID = c.lastID
	c.calls[k.req.ID] = k
	return nil
}

func (c *Conn) forget(k *call) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.calls, k.req.ID)
}

// deliver applies a reply, and passes it to the request that it answers, if that still waits.
func (c *Conn) deliver(reply *protocol.Reply) {
	if reply.ID == nil {
		return
	}
	c.mu.Lock()
	k, ok := c.calls[*reply.ID]
	delete(c.calls, *reply.ID) // a second reply with the same id must not block the reading goroutine
	c.mu.Unlock()
	if !ok {
		return
	}
	if k.apply != nil {
		k.apply(reply)
	}
	k.answer <- reply
}
