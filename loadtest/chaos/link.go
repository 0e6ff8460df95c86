package chaos

import (
	"context"
	"net"

	"roomd/lockmgr/redistest/proxy"
)

// links are the networks of a node: to its clients, and to Redis.
type links struct {
	clients *proxy.Proxy
	redis   *proxy.Proxy // nil where nodes find the servers of Redis by themselves
}

// carry starts a network in front of an address.
func carry(addr string) (*proxy.Proxy, error) {
	return proxy.Start(func(ctx context.Context) (net.Conn, error) { return new(net.Dialer).DialContext(ctx, "tcp", addr) }, nil, nil)
}

func (l *links) close() {
	for _, p := range []*proxy.Proxy{l.clients, l.redis} {
		if p != nil {
			p.Close()
		}
	}
}
