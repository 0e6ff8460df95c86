// Package node puts one roomd node together: a Redis client, a coordinator of rooms, and a
// server of game clients on a TCP port. Start with [Start], and end with [Node.Shutdown].
//
// [Main] is the program roomd, flags, environment, check, token, pages, metrics and signals, for a main function of
// your own:
//
//	func main() {
//		node.Main(room.Rules{Name: "teams/1", Seating: teams{}})
//	}
//
// A game's own rules, who may come in and when it begins, are Config.Room.Rules: see the example.
// Config.AdminListen opens the operators' page and metrics; Config.Registerer adds the metrics to those of a program.
//
// It promises that connections which are not WebSockets keep no game client out: there are few places for them, a new
// one evicts the oldest of the address that has most (behind a trusted proxy, of the client that has most), and each
// TLS handshake and each request has 10 s. Without Config.Serve.Auth it believes the names that clients give, and
// therefore listens on loopback only, unless Config.Insecure is set.
//
// One goroutine accepts connections, and net/http has one for each that is not a WebSocket.
// All have ended when Shutdown returns.
package node

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/redis/go-redis/v9"

	"roomd/lockmgr/redisconn"
	"roomd/lockmgr/redisconn/redisurl"
	"roomd/room"
	"roomd/room/coordinator"
	"roomd/room/ratelog"
	"roomd/transport"
	"roomd/transport/api"
	"roomd/transport/node/internal/metrics"
	"roomd/transport/webhook"
)

const (
	// startTimeout bounds what a node asks of Redis before it listens.
	startTimeout = 5 * time.Second

	// httpTimeout bounds the HTTP requests that still run when the node has been drained.
	httpTimeout = time.Second
)

// Config says what a node is made of.
type Config struct {
	// Listen is the TCP address for game clients, host:port; port 0 takes a free one. Unless Serve.Auth or Insecure
	// is set, the host must be loopback, because the server believes the name that a client gives. On loopback
	// without Serve.Auth it answers, but for probes, only requests whose Host is loopback, the host of Listen, or one
	// of Serve.AllowOrigins: a page of another site may have a name that leads there.
	Listen   string
	Insecure bool

	// TLS has the certificate by which the node speaks TLS. Nil means that it speaks plain HTTP. See reload.ServeTLS.
	TLS *tls.Config

	// AdminListen is the TCP address for operators, host:port; empty for none. It serves their page at
	// /admin, /metrics for Prometheus, the operators' API at /api, and /healthz. Unless Serve.Auth
	// is set, the host must be loopback. On loopback everybody on this machine is an operator;
	// elsewhere an admin token makes one. It is served until the node has been drained.
	AdminListen string

	// Admin serves operators what else there is on AdminListen, such as profiles. Nil serves nothing more.
	Admin http.Handler

	// Registerer gets the node's metrics, for a program that serves its own: they are those of /metrics, without
	// those of Go and the process. Shutdown takes them back. Of several nodes each needs labels of its own: see
	// prometheus.WrapRegistererWith. Without Registerer and AdminListen nothing is counted.
	Registerer prometheus.Registerer

	// Version and Settings are what the node says of itself to operators of all nodes; the page for
	// players shows the version, too, where they need no token. The values of the settings may be no secrets, and
	// their names are labels of a metric. Nil stands for those of Room that all nodes should have in common.
	Version  string
	Settings map[string]string

	// Unguarded answers GET /unguarded, by which the page shows what happens without a lock. Nil
	// serves nothing there, and the page says that it is off.
	Unguarded http.Handler

	// OnClient is called with the client of Redis before the first request, to add hooks to it. Nil is not called.
	OnClient func(redis.UniversalClient)

	// Redis is required. The caller closes it after Shutdown.
	Redis *redisurl.DB
	Room  coordinator.Options

	// Serve are the options of the server. Its Duplicate is taken from Room, and the limit on
	// open files can lower its MaxConnections.
	Serve transport.Options

	// Webhooks say who is told of every commit; Room.Feed and Room.Journal have to be set then. Its Log is taken
	// from here.
	Webhooks webhook.Config

	// Log takes what an operator should know, also for Room and Serve. Nil is silent.
	Log *slog.Logger
}

// Node is a running node.
type Node struct {
	client   redis.UniversalClient
	rooms    *coordinator.Coordinator
	server   *transport.Server
	api      *api.API
	webhooks *webhook.Webhooks
	http     *http.Server
	tls      *tls.Config  // nil for plain HTTP
	evicted  *ratelog.Log // connections that were closed because there were too many
	names    *ratelog.Log // requests by a name that is not the node's
	errors   *ratelog.Log // that net/http reports
	listener net.Listener
	admin    *admin           // nil without
	metrics  *metrics.Metrics // nil without Config.AdminListen and Config.Registerer
	hide     func()           // takes the metrics back; nil before they are registered
	bounded  *listener        // what accepts game clients
	most     atomic.Pointer[limits]
	failed   chan error

	version  string
	settings atomic.Pointer[map[string]string]
}

// Start starts a node; the end of ctx stops the attempt. It returns an error that names the field if cfg cannot be
// used, and an error if the port is taken, Redis does not answer, or Redis does not allow what a node needs.
func Start(ctx context.Context, cfg Config) (_ *Node, err error) {
	if cfg.Redis == nil {
		return nil, errors.New("node: Redis is nil")
	}
	if err := checkListen(cfg.Listen, cfg.Insecure || cfg.Serve.Auth != nil); err != nil {
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
	n := &Node{version: cfg.Version, tls: cfg.TLS, failed: make(chan error, 1)}
	n.most.Store(&most)
	if n.admin, err = listenAdmin(cfg.AdminListen, cfg.Serve.Auth, cfg.Log); err != nil {
		return nil, err
	}
	n.client = cfg.Redis.NewClient()
	defer func() {
		if err != nil {
			n.abandon(ctx)
		}
	}()
	if err := n.build(&cfg); err != nil {
		return nil, err
	}
	if n.listener, err = net.Listen("tcp", cfg.Listen); err != nil {
		return nil, fmt.Errorf("--listen: %w", err)
	}
	if err := n.rooms.SetAddress(knownAs(n.listener.Addr())); err != nil {
		return nil, err
	}
	if err := n.startRooms(ctx, cfg.Redis); err != nil {
		return nil, err
	}
	if most.clients < wanted {
		cfg.Log.Info("the limit on open files (ulimit -n) allows fewer game clients", "clients", most.clients,
			"instead", wanted, "files", maxFiles())
	}
	n.serve(&cfg)
	n.webhooks.Start()
	if n.admin != nil {
		n.admin.serve(cfg.Admin, n.metrics.Handler(), n.api)
	}
	return n, nil
}

// build makes the parts of a node, none of which does anything yet.
func (n *Node) build(cfg *Config) (err error) {
	if err := n.count(cfg); err != nil {
		return err
	}
	if cfg.OnClient != nil {
		cfg.OnClient(n.client)
	}
	cfg.Room.Report = n.report
	if n.rooms, err = coordinator.New(n.client, cfg.Room); err != nil {
		return err
	}
	n.setSettings(cfg.Settings)
	if n.server, err = transport.New(n.rooms, cfg.Serve); err != nil {
		return err
	}
	if n.api, err = api.New(n.rooms, n.server, cfg.apiOptions()); err != nil {
		return err
	}
	if n.webhooks, err = cfg.webhooks(n.rooms); err != nil {
		return err
	}
	return n.show(cfg.Registerer)
}

// abandon ends what there is of a node that could not be started.
func (n *Node) abandon(ctx context.Context) {
	if n.hide != nil {
		n.hide()
	}
	n.admin.shutdown(ctx)
	if n.listener != nil {
		_ = n.listener.Close()
	}
	if n.rooms != nil {
		_ = n.rooms.Close(context.WithoutCancel(ctx))
	}
	_ = n.client.Close()
}

// webhooks returns those of a node with such rooms.
func (cfg *Config) webhooks(rooms *coordinator.Coordinator) (*webhook.Webhooks, error) {
	if len(cfg.Webhooks.Receivers) > 0 && !rooms.HasFeed() {
		return nil, &room.InvalidError{Field: "Webhooks", Problem: "need a feed: Room.Journal and Room.Feed"}
	}
	hooks := cfg.Webhooks
	hooks.Log = cfg.Log
	return webhook.New(rooms, hooks)
}

// startRooms checks Redis, and announces the node there.
func (n *Node) startRooms(ctx context.Context, db *redisurl.DB) error {
	limited, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	if err := n.rooms.Ping(limited); err != nil && !redisconn.NotAllowed(err) { // Check knows what to say then
		switch err = db.Explain(ctx, err); {
		case errors.Is(err, redisurl.ErrLogin):
			return fmt.Errorf("%s answers: %w; give another --redis-password-file, or another user in the URL", db, err)
		case errors.Is(err, redisurl.ErrSentinelLogin):
			return fmt.Errorf("%s: %w; give another --redis-sentinel-password-file, or another sentinel_username in the URL", db, err)
		case redisconn.Answered(err):
			return fmt.Errorf("%s answers, and refuses what a node asks: %w", db, err)
		}
		return fmt.Errorf("%s does not answer: %w", db, err)
	}
	if err := n.rooms.Check(limited); err != nil {
		return err
	}
	return n.rooms.Start(limited)
}

// checkListen refuses an address that other machines can reach, unless that is allowed: without
// tokens the server believes its clients.
func checkListen(listen string, anywhere bool) error {
	host, _, err := net.SplitHostPort(listen)
	if err != nil {
		return &room.InvalidError{Field: "listen", Problem: fmt.Sprintf("is not host:port: %v", err)}
	}
	if anywhere || isLoopback(host) {
		return nil
	}
	return &room.InvalidError{Field: "listen", Problem: fmt.Sprintf("%s can be reached from other machines, and without authentication anybody there can act as any user; give a key for tokens (--auth-secret-file), listen on 127.0.0.1, or allow it with --insecure", listen)}
}

// Addr returns the host:port that the node listens on.
func (n *Node) Addr() string { return n.listener.Addr().String() }

// URL returns where game clients connect.
func (n *Node) URL() string {
	if n.tls != nil {
		return "wss://" + n.Addr() + "/ws"
	}
	return "ws://" + n.Addr() + "/ws"
}

// Name returns the node's name in what it writes to Redis.
func (n *Node) Name() string { return n.rooms.Node() }

// Connections returns how many game clients are connected.
func (n *Node) Connections() int { return n.server.Connections() }

// Alive returns an error if the node stands still for a reason of its own, and nil also while
// Redis does not answer. It may block instead.
func (n *Node) Alive() error {
	n.server.Connections()
	return n.rooms.Alive()
}

// Failed returns a channel that receives the error with which the node stopped listening.
func (n *Node) Failed() <-chan error { return n.failed }

// DrainRequested returns a channel that is closed when an operator, on any node, has asked this one
// to stop. The owner of the node does that as after SIGTERM.
func (n *Node) DrainRequested() <-chan struct{} { return n.rooms.DrainRequested() }

// Retire makes /readyz fail, so that load balancers send no more clients. Everybody is served as
// before, also who connects. Shutdown is to follow.
func (n *Node) Retire() { n.server.Retire() }

// Shutdown drains the node: it accepts no clients, finishes and answers the requests that run,
// and closes each connection with 1012; the users keep their seats. Then it cuts off what is
// not a WebSocket. When ctx ends first it cuts off the rest, too, and returns the cause of ctx.
// Either way the node gives its lease back, if Redis can be reached, and has no goroutine left.
func (n *Node) Shutdown(ctx context.Context) error {
	err := n.server.Shutdown(ctx)
	answering, cancel := context.WithTimeout(ctx, httpTimeout)
	defer cancel()
	if n.http.Shutdown(answering) != nil {
		_ = n.http.Close()
	}
	n.webhooks.Close()
	if closed := n.rooms.Close(ctx); err == nil {
		err = closed
	}
	_ = n.client.Close()
	n.evicted.Close()
	n.names.Close()
	n.errors.Close()
	showing, cancel := context.WithTimeout(context.WithoutCancel(ctx), httpTimeout)
	defer cancel()
	n.admin.shutdown(showing)
	if n.hide != nil {
		n.hide()
	}
	n.api.Close()
	return err
}

// knownAs returns the host and port by which an operator knows a node that listens on addr.
func knownAs(addr net.Addr) string {
	tcp, ok := addr.(*net.TCPAddr)
	host, err := os.Hostname()
	if !ok || !tcp.IP.IsUnspecified() || err != nil {
		return addr.String()
	}
	return net.JoinHostPort(host, strconv.Itoa(tcp.Port))
}
