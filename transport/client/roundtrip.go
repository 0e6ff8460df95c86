package client

import (
	"context"
	"fmt"

	"roomd/transport/protocol"
)

// roundTrip sends a request and waits for its reply. If apply is not nil, the reading goroutine
// calls it with the reply before it reads on, also if roundTrip has returned because ctx ended.
// If sent is false, the server has not got the request, and never will.
func (l *link) roundTrip(ctx context.Context, req *protocol.Request, apply func(*protocol.Reply)) (reply *protocol.Reply, sent bool, err error) {
	answer := make(chan *protocol.Reply, 1)
	if err := l.post(ctx, req, call{apply, answer}); err != nil {
		return nil, false, fmt.Errorf("not sent: %w", err)
	}
	select {
	case reply := <-answer:
		reply, err = result(reply)
		return reply, true, err
	case <-ctx.Done():
		l.calls.abandon(req.ID)
		err = ctx.Err()
	case <-l.calls.done:
		err = l.calls.cause()
	}
	// An answer that has come says more than how the wait ended.
	select {
	case reply := <-answer:
		reply, err = result(reply)
		return reply, true, err
	default:
		return nil, true, err
	}
}

// post hands a request to the writing goroutine.
func (l *link) post(ctx context.Context, req *protocol.Request, k call) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if err := checkText(req); err != nil {
		return err
	}
	if err := l.calls.add(req, k); err != nil {
		return err
	}
	err := l.hand(ctx, req)
	if err != nil {
		l.calls.remove(req.ID)
	}
	return err
}

func (l *link) hand(ctx context.Context, req *protocol.Request) error {
	frame := protocol.AppendRequest(nil, req)
	if len(frame) > protocol.MaxFrame {
		// The server would end the connection.
		return fmt.Errorf("%s: makes a frame of %d bytes, the limit is %d", longest(req), len(frame), protocol.MaxFrame)
	}
	select {
	case l.outgoing <- frame:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	case <-l.calls.done:
		return l.calls.cause()
	}
}
