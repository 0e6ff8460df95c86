package lab

import (
	"context"
	"net"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"roomd/loadtest/lab/anomaly"
	"roomd/lockmgr/redistest/proxy"
)

// wire is a proxy between one process and Redis. It passes the requests of all its connections one after the other through
// the observer, and so knows the effect of each. It can swallow a reply, and holds all traffic while its caller is stopped.
// It finds the steps of roomd, which does not call caller.at, by the effects of its requests.
type wire struct {
	x      *cell
	caller *caller
	proxy  *proxy.Proxy

	turn  sync.Mutex        // held from a request to its reply
	loses func(effect) bool // guarded by turn; the reply to swallow, once
	ended atomic.Bool
}

func newWire(x *cell, c *caller) (*wire, error) {
	w := &wire{x: x, caller: c}
	model := x.lab.redis.Options()
	dial := func(ctx context.Context) (net.Conn, error) { return model.Dialer(ctx, model.Network, model.Addr) }
	var err error
	w.proxy, err = proxy.Start(dial, w.exchange, func() { // returns when the wire does not hold its traffic
		w.turn.Lock()
		defer w.turn.Unlock()
	})
	return w, err
}

// lose makes the wire swallow the reply to the next request with that effect.
func (w *wire) lose(has func(effect) bool) {
	w.turn.Lock()
	defer w.turn.Unlock()
	w.loses = has
}

// cut closes all connections, and every new one at its first request.
func (w *wire) cut() {
	w.ended.Store(true)
	w.proxy.Cut()
}

// exchange runs a request, and says what becomes of its reply. It cuts the connection if the caller is gone.
func (w *wire) exchange(args []string, carryOut func() ([]byte, error)) proxy.Action {
	if w.ended.Load() {
		return proxy.Cut
	}
	x, c := w.x, w.caller
	if strings.HasSuffix(args[0], "SUBSCRIBE") {
		_, _ = carryOut() // the proxy knows its error
		return proxy.Pass
	}
	w.turn.Lock()
	defer w.turn.Unlock()
	onLock := slices.Contains(args, x.lockKey)
	if !onLock && args[0] != "EXEC" && !slices.Contains(args, x.listKey) {
		_, _ = carryOut()
		return proxy.Pass
	}
	follows := onLock && x.d == &roomd
	if follows && x.observer.owner() == c.user && !c.reach(stepRead) {
		return proxy.Cut
	}
	var reply []byte
	did, err := x.observer.around(context.Background(), c.user, args, func() (err error) {
		reply, err = carryOut()
		return err
	})
	if err != nil {
		if !w.ended.Load() {
			x.fail(err)
		}
		return proxy.Cut
	}
	if did.gave {
		c.reach(stepGave)
	}
	if follows && reply[0] != '-' { // the step that roomd's caller has reached
		switch {
		case did.stored && !(c.reach(stepWrote) && c.reach(stepGiving)), did.took && !did.stored && !c.reach(stepLocked):
			return proxy.Cut
		case !did.stored && !did.took && !did.owns:
			c.turnedAway()
		}
	}
	if w.loses == nil || !w.loses(did) {
		return proxy.Pass
	}
	w.loses = nil
	c.record(anomaly.Event{Kind: anomaly.ReplyLost})
	x.mu.Lock()
	defer x.mu.Unlock()
	c.lost = true
	x.struckLocked(c)
	return proxy.Silence
}
