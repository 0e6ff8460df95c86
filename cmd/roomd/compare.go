package main

import (
	"net"
	"strings"

	"roomd/cmd/roomd/unguarded"
	"roomd/transport/node"
)

// compare lets the page of a node show what happens without a lock, and returns what ends that
// after the node. Where other machines can come, or players have tokens, there is no such thing.
func (c *config) compare(n *node.Config) (end func()) {
	host, _, err := net.SplitHostPort(c.Listen)
	if err != nil || n.Serve.Auth != nil || !isLoopback(host) {
		return func() {}
	}
	client := n.Redis.NewClient()
	lists := unguarded.New(client)
	n.Unguarded = lists
	return func() {
		lists.Close()
		_ = client.Close()
	}
}

func isLoopback(host string) bool {
	ip := net.ParseIP(host)
	return strings.EqualFold(host, "localhost") || ip != nil && ip.IsLoopback()
}
