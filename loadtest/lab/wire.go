package lab

import (
	"bufio"
	"context"
	"io"
	"net"
	"slices"
	"strings"
	"sync"

	"github.com/alicebob/miniredis/v2/proto"

	"roomd/loadtest/lab/anomaly"
)

// wire is a TCP proxy between one process and Redis. It passes the requests of all its
// connections one after the other through the observer, and so knows the effect of each.
// It can swallow a reply, and holds all traffic while its caller is stopped. It finds
// the steps of roomd, which does not call caller.at, by the effects of its requests.
type wire struct {
	x        *cell
	caller   *caller
	listener net.Listener
	wg       sync.WaitGroup // the accept loop and every connection

	turn sync.Mutex // held from a request to its reply

	mu    sync.Mutex
	ended bool                  // guarded by mu
	conns map[net.Conn]struct{} // guarded by mu; on both sides
	loses func(effect) bool     // guarded by mu; the reply to swallow, once
}

func newWire(x *cell, c *caller) (*wire, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	w := &wire{x: x, caller: c, listener: l, conns: make(map[net.Conn]struct{})}
	w.wg.Go(func() {
		for {
			client, err := l.Accept()
			if err != nil {
				return
			}
			w.wg.Go(func() { w.serve(client) })
		}
	})
	return w, nil
}

func (w *wire) addr() string { return w.listener.Addr().String() }

// lose makes the wire swallow the reply to the next request with that effect.
func (w *wire) lose(has func(effect) bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.loses = has
}

// cut closes all connections, and every new one at once.
func (w *wire) cut() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.ended = true
	for conn := range w.conns {
		_ = conn.Close()
	}
}

func (w *wire) isCut() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.ended
}

// close ends the wire and waits for its goroutines.
func (w *wire) close() {
	w.cut()
	_ = w.listener.Close()
	w.wg.Wait()
}

// keep registers a connection, and returns false if the wire was cut.
func (w *wire) keep(conn net.Conn) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.conns[conn] = struct{}{}
	return !w.ended
}

func (w *wire) forget(conn net.Conn) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.conns, conn)
	_ = conn.Close()
}

// serve carries requests and replies until either side hangs up.
func (w *wire) serve(client net.Conn) {
	defer w.forget(client)
	if !w.keep(client) {
		return
	}
	model := w.x.lab.redis.Options()
	server, err := model.Dialer(context.Background(), model.Network, model.Addr)
	if err != nil {
		return
	}
	defer w.forget(server)
	if !w.keep(server) {
		return
	}
	requests, replies := bufio.NewReader(client), bufio.NewReader(server)
	for silent := false; ; {
		raw, err := proto.Read(requests)
		if err != nil {
			return
		}
		args, err := proto.ReadStrings(raw)
		if err != nil || len(args) == 0 {
			return
		}
		args[0] = strings.ToUpper(args[0])
		if strings.HasSuffix(args[0], "SUBSCRIBE") {
			_, _ = io.WriteString(server, raw)
			w.stream(client, server, requests, replies)
			return
		}
		reply, lost, ok := w.exchange(args, raw, server, replies)
		if !ok {
			return
		}
		// After a lost reply nothing more arrives on its connection.
		if silent = silent || lost; !silent {
			_, _ = io.WriteString(client, reply)
		}
	}
}

// exchange runs a request and returns the reply, and whether to lose it. It returns
// false if the caller is gone.
func (w *wire) exchange(args []string, raw string, server io.Writer, replies *bufio.Reader) (reply string, lost, ok bool) {
	w.turn.Lock()
	defer w.turn.Unlock()
	carryOut := func() error {
		_, err := io.WriteString(server, raw)
		if err == nil {
			reply, err = proto.Read(replies)
		}
		return err
	}
	x := w.x
	onLock := slices.Contains(args, x.lockKey)
	if !onLock && args[0] != "EXEC" && !slices.Contains(args, x.listKey) {
		return reply, false, carryOut() == nil
	}
	follows := onLock && x.d == &roomd
	if follows && x.observer.owner() == w.caller.user && !w.caller.reach(stepRead) {
		return "", false, false
	}
	did, err := x.observer.around(context.Background(), w.caller.user, args, carryOut)
	if err != nil {
		if !w.isCut() {
			x.fail(err)
		}
		return "", false, false
	}
	if did.gave {
		w.caller.reach(stepGave)
	}
	if follows && !strings.HasPrefix(reply, "-") && !w.follow(did) {
		return "", false, false
	}
	return reply, w.loseOne(did), true
}

// follow finds the step that roomd's caller has reached, and reports whether the caller
// survives it.
func (w *wire) follow(did effect) bool {
	switch {
	case did.stored:
		return w.caller.reach(stepWrote) && w.caller.reach(stepGiving)
	case did.took:
		return w.caller.reach(stepLocked)
	case !did.owns:
		w.caller.turnedAway()
	}
	return true
}

func (w *wire) loseOne(did effect) bool {
	w.mu.Lock()
	lost := w.loses != nil && w.loses(did)
	if lost {
		w.loses = nil
	}
	w.mu.Unlock()
	if lost {
		w.caller.loseReply()
	}
	return lost
}

func (c *caller) loseReply() {
	c.record(anomaly.Event{Kind: anomaly.ReplyLost})
	c.x.mu.Lock()
	defer c.x.mu.Unlock()
	c.lost, c.x.struck = true, true
	c.x.changed.Broadcast()
}

// stream carries a pub/sub connection, on which messages come at any time. It holds
// them while the wire holds all traffic.
func (w *wire) stream(client, server net.Conn, requests, replies io.Reader) {
	w.wg.Go(func() {
		defer server.Close()
		_, _ = io.Copy(server, requests)
	})
	defer client.Close()
	buffer := make([]byte, 4096)
	for {
		n, err := replies.Read(buffer)
		w.awaitTurn()
		if _, werr := client.Write(buffer[:n]); err != nil || werr != nil {
			return
		}
	}
}

// awaitTurn returns when the wire does not hold its traffic.
func (w *wire) awaitTurn() {
	w.turn.Lock()
	defer w.turn.Unlock()
}
