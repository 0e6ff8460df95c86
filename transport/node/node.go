// Package node puts one roomd node together: a Redis client, a coordinator of
// rooms, and a server of game clients on a TCP port.
package node

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"time"

	"github.com/redis/go-redis/v9"

	"roomd/lockmgr/redisconn/redisurl"
	"roomd/room"
	"roomd/room/episode"
	"roomd/transport"
)

const (
	// startTimeout bounds the first question to Redis.
	startTimeout = 5 * time.Second

	// hangUpTimeout is for the HTTP requests that run when a node is drained.
	hangUpTimeout = time.Second
)

// Config says what a node is made of.
type Config struct {
	// Listen is the TCP address for game clients, host:port; port 0 takes a free
	// one. Unless Insecure is set the host has to be this machine's loopback,
	// because a client's word for who it is is believed.
	Listen   string
	Insecure bool

	Redis *redisurl.DB
	Room  room.Options
	Serve transport.Options // its Duplicate is taken from Room, and the limit on open files can lower its MaxConnections

	// Log takes what an operator should know, also for Room and Serve. Nil is silent.
	Log *slog.Logger
}

// Node is a running node.
type Node struct {
	client   redis.UniversalClient
	rooms    *room.Coordinator
	server   *transport.Server
	http     *http.Server
	surplus  *episode.Log // connections that are closed because there are too many
	errors   *episode.Log // what net/http reports
	listener net.Listener
	failed   chan error
}

// Start starts a node. It returns an error that names the field if cfg cannot be
// used, and an error if the port is taken, or Redis does not answer or does not allow
// what a node needs.
func Start(ctx context.Context, cfg Config) (_ *Node, err error) {
	if cfg.Redis == nil {
		return nil, errors.New("node: Redis is nil")
	}
	if err := checkListen(cfg.Listen, cfg.Insecure); err != nil {
		return nil, err
	}
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	cfg.Room.Log, cfg.Serve.Log = cfg.Log, cfg.Log
	cfg.Serve.Duplicate = cfg.Room.Rules.Duplicate
	wanted := cmp.Or(cfg.Serve.MaxConnections, transport.DefaultMaxConnections)
	most, err := limitsFor(wanted, maxFiles())
	if err != nil {
		return nil, err
	}
	cfg.Serve.MaxConnections = most.clients
	n := &Node{client: cfg.Redis.NewClient(), failed: make(chan error, 1)}
	defer func() {
		if err != nil {
			if n.rooms != nil {
				_ = n.rooms.Close(context.WithoutCancel(ctx))
			}
			_ = n.client.Close()
		}
	}()
	if n.rooms, err = room.New(n.client, cfg.Room); err != nil {
		return nil, err
	}
	if n.server, err = transport.New(n.rooms, cfg.Serve); err != nil {
		return nil, err
	}
	hello, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	if err := n.rooms.Ping(hello); err != nil {
		return nil, fmt.Errorf("%s does not answer: %w", cfg.Redis, cfg.Redis.Explain(ctx, err))
	}
	if err := n.rooms.Check(hello); err != nil {
		return nil, err
	}
	if err := n.rooms.Start(hello); err != nil {
		return nil, err
	}
	if n.listener, err = net.Listen("tcp", cfg.Listen); err != nil {
		return nil, err
	}
	if most.clients < wanted {
		cfg.Log.Info("the limit on open files (ulimit -n) allows fewer game clients", "clients", most.clients, "instead", wanted, "files", maxFiles())
	}
	n.serve(cfg.Log, most.total)
	return n, nil
}

// checkListen keeps a node that believes its clients from being reached by others.
func checkListen(listen string, insecure bool) error {
	host, _, err := net.SplitHostPort(listen)
	if err != nil {
		return &room.InvalidError{Field: "listen", Problem: fmt.Sprintf("is not host:port: %v", err)}
	}
	ip := net.ParseIP(host)
	if insecure || host == "localhost" || ip != nil && ip.IsLoopback() {
		return nil
	}
	return &room.InvalidError{Field: "listen", Problem: fmt.Sprintf("%s can be reached from other machines, and without authentication every client is believed to be whom it says; listen on 127.0.0.1, or allow it with --insecure", listen)}
}

// Addr returns the host:port that the node listens on.
func (n *Node) Addr() string { return n.listener.Addr().String() }

// URL returns where game clients connect.
func (n *Node) URL() string { return "ws://" + n.Addr() + "/ws" }

// Name returns the node's name in what it writes to Redis.
func (n *Node) Name() string { return n.rooms.Node() }

// Connections returns how many game clients are connected.
func (n *Node) Connections() int { return n.server.Connections() }

// Failed receives the error with which the node stopped listening by itself.
func (n *Node) Failed() <-chan error { return n.failed }

// Shutdown drains the node: no new clients, every request that runs is finished
// and answered, then each connection is closed with 1012 and its user keeps the
// seats. What has not become a WebSocket by then is cut off. When ctx ends first, so
// is the rest, and the cause of ctx is returned. In any case the node gives its lease
// back, if Redis can be reached, and nothing of it runs on afterwards.
func (n *Node) Shutdown(ctx context.Context) error {
	err := n.server.Shutdown(ctx)
	answering, cancel := context.WithTimeout(ctx, hangUpTimeout)
	defer cancel()
	if n.http.Shutdown(answering) != nil {
		_ = n.http.Close()
	}
	if closed := n.rooms.Close(ctx); err == nil {
		err = closed
	}
	_ = n.client.Close()
	n.surplus.Close()
	n.errors.Close()
	return err
}
