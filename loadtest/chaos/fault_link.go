package chaos

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"time"

	"roomd/lockmgr/redisconn/redisurl"
	"roomd/lockmgr/redistest/proxy"
)

var linkFaults = []*Fault{
	clientsLink("clients-lag", "20 to 300 ms of delay each way between a node and its clients", lagged),
	clientsLink("clients-hole", "nothing arrives between a node and its clients, or only one way", holed),
	clientsLink("clients-reset", "resets of all connections between a node and its clients, twice a second", resetted),
	clientsLink("clients-swallow", "connections between a node and its clients end in place of the next frame, twice a second", swallowed),
	redisLink("net-lag", "5 to 60 ms of delay each way between a node and Redis: one server of it, or all, Sentinels included", true, lagged),
	redisLink("net-hole", "nothing arrives between a node and Redis, or only one way", true, holed),
	redisLink("net-reset", "resets of all connections between a node and Redis, twice a second", false, resetted),
	redisLink("net-swallow", "Redis does what a node asks for, and connections end in place of the next reply, twice a second", false, swallowed),
}

// onLink disturbs networks until heal is called. slow makes delays longer.
type onLink func(i *injection, on []*proxy.Proxy, slow bool) (heal, error)

// each returns a function that calls f for all proxies.
func each(on []*proxy.Proxy, f func(p *proxy.Proxy)) func() {
	return func() {
		for _, p := range on {
			f(p)
		}
	}
}

func clientsLink(name, what string, do onLink) *Fault {
	return &Fault{Name: name, What: what, inject: func(_ context.Context, i *injection) (heal, error) {
		n := i.random.IntN(len(i.run.nodes))
		i.on = fmt.Sprintf("clients of node %d", n+1)
		return do(i, []*proxy.Proxy{i.run.nodes[n].links.clients}, true)
	}}
}

func redisLink(name, what string, evicts bool, do onLink) *Fault {
	return &Fault{
		Name: name, What: what, evicts: evicts,
		inject: func(ctx context.Context, i *injection) (heal, error) { return do(i, i.wires(ctx), false) },
	}
}

// wires chooses a node, and networks between it and Redis: all of them, the one to the server of a random room,
// or any one.
func (i *injection) wires(ctx context.Context) (on []*proxy.Proxy) {
	n := i.random.IntN(len(i.run.nodes))
	all := i.run.nodes[n].links.redis
	how, room, one := i.random.IntN(3), i.random.IntN(len(i.run.Rooms())), i.random.IntN(len(all))
	chosen := all[one:][:1]
	switch how {
	case 0:
		chosen = all
	case 1: // if that server is unknown, another fault is at work
		if s, err := i.run.store.primary(ctx, i.run.Rooms()[room]); err == nil {
			chosen = all[slices.Index(i.run.store.all, s):][:1]
		}
	}
	to := chosen[0].name
	if len(chosen) > 1 {
		to = "all of redis"
	}
	i.on = fmt.Sprintf("node %d to %s", n+1, to)
	if i.run.nodes[n].links.used() != nil {
		i.on += ", which it reaches otherwise"
	}
	for _, w := range chosen {
		on = append(on, w.proxy)
	}
	return on
}

func lagged(i *injection, on []*proxy.Proxy, slow bool) (heal, error) {
	d := time.Duration(5+i.random.IntN(55)) * time.Millisecond
	if slow {
		d *= 5
	}
	each(on, func(p *proxy.Proxy) { p.Lag(d) })()
	return healed(each(on, func(p *proxy.Proxy) { p.Lag(0) }))
}

func holed(i *injection, on []*proxy.Proxy, _ bool) (heal, error) {
	begin := (*proxy.Proxy).Pause
	switch i.random.IntN(3) {
	case 1:
		i.on += ", that way"
		begin = func(p *proxy.Proxy) { p.PauseWay(proxy.ToServer) }
	case 2:
		i.on += ", back"
		begin = func(p *proxy.Proxy) { p.PauseWay(proxy.ToClient) }
	}
	each(on, begin)()
	return healed(each(on, (*proxy.Proxy).Resume))
}

func resetted(_ *injection, on []*proxy.Proxy, _ bool) (heal, error) {
	return repeat(500*time.Millisecond, each(on, (*proxy.Proxy).Reset))
}

func swallowed(_ *injection, on []*proxy.Proxy, _ bool) (heal, error) {
	return repeat(500*time.Millisecond, each(on, (*proxy.Proxy).Swallow))
}

// healed returns the heal of a fault that f ends.
func healed(f func()) (heal, error) {
	return func(context.Context) error { f(); return nil }, nil
}

// end is a process of Redis that nodes connect to.
type end struct{ name, addr string }

// wire is the network between a node and one end.
type wire struct {
	end
	proxy *proxy.Proxy
}

// links are the networks of a node: to its clients, to each Redis server and to each Sentinel.
type links struct {
	clients *proxy.Proxy
	redis   []wire
}

// carry starts a network to an address.
func carry(addr string) (*proxy.Proxy, error) {
	dial := func(ctx context.Context) (net.Conn, error) { return new(net.Dialer).DialContext(ctx, "tcp", addr) }
	return proxy.Start(dial, nil, nil)
}

// lead starts a network to each of the ends.
func (l *links) lead(ends []end) error {
	for _, e := range ends {
		p, err := carry(e.addr)
		if err != nil {
			return err
		}
		l.redis = append(l.redis, wire{e, p})
	}
	return nil
}

// linksOf in the environment of a node maps addresses to its networks: ADDRESS=THROUGH, separated by commas.
const linksOf = "ROOMLOAD_CHAOS_LINKS"

// env returns the variable linksOf with its value. Redis' servers report the same addresses to all nodes, so other URLs
// are not enough: a node's dialer has to replace each address.
func (l *links) env() string {
	var pairs []string
	for _, w := range l.redis {
		pairs = append(pairs, w.addr+"="+w.proxy.Addr())
	}
	return linksOf + "=" + strings.Join(pairs, ",")
}

// dialThrough returns a node's dialer to Redis; said is the value of linksOf. It refuses addresses without a network,
// so that no connection bypasses the networks.
func dialThrough(said string) redisurl.Dialer {
	through := make(map[string]string)
	for pair := range strings.SplitSeq(said, ",") {
		addr, by, _ := strings.Cut(pair, "=")
		through[addr] = by
	}
	return func(ctx context.Context, network, addr string) (net.Conn, error) {
		by := through[addr]
		if by == "" {
			return nil, &net.OpError{Op: "dial", Net: network, Err: fmt.Errorf("chaos: no network leads to %s", addr)}
		}
		return new(net.Dialer).DialContext(ctx, network, by)
	}
}

// used returns an error unless the node has connected to Redis through its networks. A program that does not
// call Main does not.
func (l *links) used() error {
	for _, w := range l.redis {
		if w.proxy.Carries() > 0 {
			return nil
		}
	}
	return errors.New("its connections to Redis do not lead through networks of chaos")
}

func (l *links) close() {
	if l.clients != nil {
		l.clients.Close()
	}
	for _, w := range l.redis {
		w.proxy.Close()
	}
}
