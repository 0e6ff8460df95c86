package chaos

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"

	"roomd/lockmgr/redisconn/redisurl"
	"roomd/lockmgr/redistest/proxy"
)

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

// dialThrough returns a node's dialer to Redis for the output of env. It refuses addresses without a network,
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
