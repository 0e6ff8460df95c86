package main

import (
	"roomd/cmd/roomd/unguarded"
	"roomd/transport/node"
)

// compare lets the page of a node show what happens without a lock, and returns what ends that
// after the node. Where other machines can come, or players have tokens, there is no such thing.
func (c *config) compare(n *node.Config) (end func()) {
	if n.Serve.Auth != nil || !node.IsLoopback(c.Listen) {
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
