package chaos

import (
	"context"
	"fmt"
	"slices"
	"time"

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

// onLink disturbs networks until heal is called.
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
		inject: func(ctx context.Context, i *injection) (heal, error) {
			return do(i, i.wires(ctx), false)
		},
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
