// Package node puts one roomd node together: a Redis client, a coordinator of
// rooms, and a server of game clients on a TCP port.
package node

import (
	"context"
	"errors"
	"fmt"
	stdlog "log"
	"net"
	"net/http"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/rs/zerolog"

	"roomd/room"
	"roomd/room/redisurl"
	"roomd/transport"
)

const (
	// startTimeout bounds the first question to Redis.
	startTimeout = 5 * time.Second

	headerTimeout = 10 * time.Second
	idleTimeout   = 2 * time.Minute
	maxHeader     = 16 << 10
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
	Serve transport.Options // its Duplicate is taken from Room

	// Log takes what an operator should know, also for Room and Serve. The zero
	// value is silent.
	Log zerolog.Logger
}

// Node is a running node.
type Node struct {
	client   redis.UniversalClient
	rooms    *room.Coordinator
	server   *transport.Server
	http     *http.Server
	listener net.Listener
	failed   chan error
}

// Start starts a node. It returns an error that names the field if cfg cannot be
// used, and an error if the port is taken or Redis does not answer.
func Start(ctx context.Context, cfg Config) (_ *Node, err error) {
	if cfg.Redis == nil {
		return nil, errors.New("node: Redis is nil")
	}
	if err := checkListen(cfg.Listen, cfg.Insecure); err != nil {
		return nil, err
	}
	cfg.Room.Log, cfg.Serve.Log = cfg.Log, cfg.Log
	cfg.Serve.Duplicate = cfg.Room.Rules.Duplicate
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
		return nil, fmt.Errorf("%s does not answer: %w", cfg.Redis, err)
	}
	if err := n.rooms.Start(hello); err != nil {
		return nil, err
	}
	if n.listener, err = net.Listen("tcp", cfg.Listen); err != nil {
		return nil, err
	}
	n.http = &http.Server{
		Handler:           n.server.Handler(),
		ReadHeaderTimeout: headerTimeout,
		IdleTimeout:       idleTimeout,
		MaxHeaderBytes:    maxHeader,
		ErrorLog:          stdlog.New(cfg.Log.With().Str("level", "warn").Logger(), "", 0),
	}
	go func() { n.failed <- n.http.Serve(n.listener) }() // ends with Shutdown
	return n, nil
}

// checkListen keeps a node that believes its clients from being reached by others.
func checkListen(listen string, insecure bool) error {
	host, _, err := net.SplitHostPort(listen)
	if err != nil {
		return fmt.Errorf("listen: %q is not host:port: %w", listen, err)
	}
	ip := net.ParseIP(host)
	if insecure || host == "localhost" || ip != nil && ip.IsLoopback() {
		return nil
	}
	return fmt.Errorf("listen: %s can be reached from other machines, and without authentication every client is believed to be whom it says; listen on 127.0.0.1, or allow it with --insecure", listen)
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
// seats. When ctx ends first, what is left is cut off and the cause of ctx is
// returned. Nothing of the node runs on afterwards.
func (n *Node) Shutdown(ctx context.Context) error {
	err := n.server.Shutdown(ctx)
	if shut := n.http.Shutdown(ctx); shut != nil {
		_ = n.http.Close()
	}
	if closed := n.rooms.Close(ctx); err == nil {
		err = closed
	}
	_ = n.client.Close()
	return err
}
