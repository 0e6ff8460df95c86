package chaos

import (
	"context"
	"fmt"
	"time"

	"roomd/lockmgr/redistest/proxy"
)

var linkFaults = []*Fault{
	clientsLink("clients-lag", "20 to 300 ms of delay each way between a node and its clients", lagged),
	clientsLink("clients-hole", "nothing arrives between a node and its clients, or only one way", holed),
	clientsLink("clients-reset", "resets of all connections between a node and its clients, twice a second", resetted),
	clientsLink("clients-swallow", "connections between a node and its clients end in place of the next frame, twice a second", swallowed),
	redisLink("net-lag", "5 to 60 ms of delay each way between a node and Redis", true, lagged),
	redisLink("net-hole", "nothing arrives between a node and Redis, or only one way", true, holed),
	redisLink("net-reset", "resets of all connections between a node and Redis, twice a second", false, resetted),
	redisLink("net-swallow", "Redis does what a node asks for, and connections end in place of the next reply, twice a second", false, swallowed),
}

// onLink does something to a network, until heal.
type onLink func(i *injection, p *proxy.Proxy, slow bool) (heal func(context.Context) error, err error)

func clientsLink(name, what string, do onLink) *Fault {
	return &Fault{Name: name, What: what, loses: losesNothing, inject: func(_ context.Context, i *injection) (func(context.Context) error, error) {
		n := i.random.IntN(len(i.run.links))
		i.on = fmt.Sprintf("clients of node %d", n+1)
		return do(i, i.run.links[n].clients, true)
	}}
}

func redisLink(name, what string, evicts bool, do onLink) *Fault {
	return &Fault{
		Name: name, What: what, loses: losesNothing, evicts: evicts, Profiles: []string{Standalone},
		inject: func(_ context.Context, i *injection) (func(context.Context) error, error) {
			n := i.random.IntN(len(i.run.links))
			i.on = fmt.Sprintf("node %d to redis", n+1)
			return do(i, i.run.links[n].redis, false)
		},
	}
}

func lagged(i *injection, p *proxy.Proxy, slow bool) (func(context.Context) error, error) {
	d := time.Duration(5+i.random.IntN(55)) * time.Millisecond
	if slow {
		d *= 5
	}
	p.Lag(d)
	return func(context.Context) error { p.Lag(0); return nil }, nil
}

func holed(i *injection, p *proxy.Proxy, _ bool) (func(context.Context) error, error) {
	switch i.random.IntN(3) {
	case 0:
		p.Pause()
	case 1:
		i.on += ", that way"
		p.PauseWay(proxy.ToServer)
	case 2:
		i.on += ", back"
		p.PauseWay(proxy.ToClient)
	}
	return func(context.Context) error { p.Resume(); return nil }, nil
}

func resetted(_ *injection, p *proxy.Proxy, _ bool) (func(context.Context) error, error) {
	return repeat(500*time.Millisecond, p.Reset)
}

func swallowed(_ *injection, p *proxy.Proxy, _ bool) (func(context.Context) error, error) {
	return repeat(500*time.Millisecond, p.Swallow)
}
