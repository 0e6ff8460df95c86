package worker

import (
	"bytes"
	"context"
	"io"
	"net/url"
	"time"

	"roomd/transport/protocol"
)

// attack is one way to behave badly.
type attack struct {
	name      string
	attackers int // each with one connection at a time

	// run attacks over one connection until the server ends it, or ctx does, and returns why.
	run func(ctx context.Context, a *attackChild, i int) error
}

// attacks, in their order. An attacker encodes what it sends once, and writes much at a time, so
// that the server does the work.
var attacks = []attack{
	{"flood", 1, flood},
	{"deaf", 1, deaf},
	{"slow-frame", 1, slowFrame},
	{"half-open", 1000, halfOpen},
	{"pings", 1, pings(nil)},
	{"long-pings", 1, pings(make([]byte, 125))},
}

const (
	burst     = 64 << 10 // bytes that an attacker writes at a time, about
	perByte   = time.Second
	deafBytes = 4 << 10 // that its kernel takes although it does not read
)

// flood joins and leaves a busy room as often as it can, without waiting for replies.
func flood(ctx context.Context, a *attackChild, i int) error {
	w, err := a.open(ctx, i)
	if err != nil {
		return err
	}
	pair := append(newRequest(joinID, protocol.ActionJoin, a.cfg.Room).frame, newRequest(leaveID, protocol.ActionLeave, a.cfg.Room).frame...)
	return a.flood(w, bytes.Repeat(pair, burst/len(pair)))
}

// pings sends as many pings as it can.
func pings(payload []byte) func(context.Context, *attackChild, int) error {
	ping := appendFrame(nil, opPing, payload)
	many := bytes.Repeat(ping, burst/len(ping))
	return func(ctx context.Context, a *attackChild, i int) error {
		w, err := a.open(ctx, i)
		if err != nil {
			return err
		}
		return a.flood(w, many)
	}
}

// flood writes the same over and over, and reads what comes.
func (a *attackChild) flood(w *wire, data []byte) error {
	done := make(chan error, 1)
	go func() { done <- drain(w) }()
	for a.write(w, data) == nil {
	}
	return <-done // which knows the close code
}

// drain reads until the connection ends, closes it, and returns why it ended.
func drain(w *wire) error {
	defer w.Close()
	for {
		if _, _, err := w.next(); err != nil {
			return err
		}
	}
}

// deaf is in a busy room, asks for its list all the time, and reads nothing.
func deaf(ctx context.Context, a *attackChild, i int) error {
	w, err := a.open(ctx, i)
	if err != nil {
		return err
	}
	defer w.Close()
	if tcp, ok := w.Conn.(interface{ SetReadBuffer(int) error }); ok {
		_ = tcp.SetReadBuffer(deafBytes)
	}
	if err := a.write(w, newRequest(joinID, protocol.ActionJoin, a.cfg.Room).frame); err != nil {
		return err
	}
	users := newRequest(leaveID, protocol.ActionUsers, a.cfg.Room).frame
	for many := bytes.Repeat(users, burst/len(users)); ; {
		if err := a.write(w, many); err != nil {
			return err
		}
	}
}

// slowFrame sends a request at a byte a second.
func slowFrame(ctx context.Context, a *attackChild, i int) error {
	w, err := a.open(ctx, i)
	if err != nil {
		return err
	}
	done := make(chan error, 1)
	go func() { done <- drain(w) }()
	frame := appendFrame(nil, opText, bytes.Repeat([]byte(" "), 10_000))
	for {
		if err := a.write(w, frame[:1]); err != nil {
			return <-done
		}
		frame = frame[1:]
		select {
		case err := <-done:
			return err
		case <-time.After(perByte):
		}
	}
}

// halfOpen begins a handshake, and does not go on.
func halfOpen(ctx context.Context, a *attackChild, i int) error {
	u, err := url.Parse(a.cfg.Address)
	if err != nil {
		return err
	}
	conn, err := connect(ctx, u.Host, i)
	if err != nil {
		return err
	}
	defer conn.Close()
	context.AfterFunc(ctx, func() { _ = conn.Close() })
	if err := a.write(conn, []byte(requestHead(u, "attacker"))); err != nil {
		return err
	}
	if _, err := io.Copy(io.Discard, conn); err != nil {
		return err
	}
	return io.EOF
}
