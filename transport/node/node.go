// Package node assembles a roomd node: a Redis client, a coordinator of rooms, and a server of game clients on a TCP
// port. Start with [Start], and end with [Node.Shutdown].
//
// [Main] runs the program roomd (flags, environment, check, token, pages, metrics, signals) from a main function of
// your own:
//
//	func main() {
//		node.Main(room.Rules{Name: "teams/1", Seating: teams{}})
//	}
//
// A game's rules (who may join, and when the game begins) are Config.Room.Rules: see the example. Config.AdminListen
// opens the operators' page and metrics; Config.Registerer adds the metrics to those of a program.
//
// It promises that other connections do not keep game clients out. Connections that are not WebSockets have few slots,
// and 10 s for each TLS handshake and request. Without a free slot, a new connection evicts the oldest of the address
// that has the most (behind a trusted proxy, of the client). Without Config.Serve.Auth the node believes the names
// that clients give, and therefore listens on loopback only, unless Config.Insecure is set.
//
// One goroutine for each address accepts connections, and net/http has one for each connection that is not a
// WebSocket. All have ended when Shutdown returns.
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
	// startTimeout limits the requests to Redis before the node listens.
	startTimeout = 5 * time.Second

	// httpTimeout limits the HTTP requests that still run after the drain.
	httpTimeout = time.Second
)

// Config has the parts of a node.
type Config struct {
	// Listen is the TCP address for game clients, host:port; port 0 takes a free one. The host must be loopback
	// unless Serve.Auth or Insecure is set: without Serve.Auth the server believes the name that a client gives. On
	// loopback without Serve.Auth it answers requests only if their Host is loopback, the host of Listen, or one of
	// Serve.AllowOrigins, because another site's name may lead there. Probes are exempt.
	Listen   string
	Insecure bool

	// TLS has the node's certificate. Nil means plain HTTP. See reload.ServeTLS.
	TLS *tls.Config

	// AdminListen is the TCP address for operators, host:port; empty for none. It serves their page at /admin,
	// /metrics for Prometheus, the operators' API at /api, and /healthz, until the node has been drained. The host
	// must be loopback unless Serve.Auth is set. On loopback everybody on this machine is an operator; elsewhere an
	// admin token is needed.
	AdminListen string

	// Admin serves further paths on AdminListen, such as profiles. Nil serves none.
	Admin http.Handler

	// Registerer gets the metrics of /metrics, except Go's and the process', for a program that serves its own.
	// Shutdown unregisters them. Several nodes need labels of their own: see prometheus.WrapRegistererWith. Without
	// Registerer and AdminListen nothing is counted.
	Registerer prometheus.Registerer

	// Version and Settings are shown to operators of all nodes; the players' page also shows the version if players
	// need no token. The settings must contain no secret, and their names are labels of a metric. Nil Settings means
	// the part of Room that all nodes should share.
	Version  string
	Settings map[string]string

	// Unguarded answers GET /unguarded, where the page shows joins without a lock. If nil, the page says that it is
	// off.
	Unguarded http.Handler

	// OnClient is called with the client of Redis before its first request, to add hooks. It may be nil.
	OnClient func(redis.UniversalClient)

	// Redis is required. The caller closes it after Shutdown.
	Redis *redisurl.DB
	Room  coordinator.Options

	// Serve are the options of the server. Duplicate comes from Room, and the limit on open files may lower
	// MaxConnections.
	Serve transport.Options

	// Webhooks are the receivers of commits. They need Room.Feed and Room.Journal. Their Log is Config.Log.
	Webhooks webhook.Config

	// Log gets messages for the operator, also those of Room and Serve. Nil is silent.
	Log *slog.Logger
}

// Node is a running node.
type Node struct {
	client   redis.UniversalClient
	rooms    *coordinator.Coordinator
	server   *transport.Server
	api      *api.API
	webhooks *webhook.Webhooks
	logs     *ratelog.Set
	public   *site            // for game clients
	admin    *site            // for operators; nil without
	metrics  *metrics.Metrics // nil without Config.AdminListen and Config.Registerer
	hide     func()           // unregisters the metrics; nil before their registration
	most     limits
	failed   chan error

	version  string
	settings map[string]string
}

// Start starts a node; the end of ctx stops the attempt. If cfg is unusable, the error names the field. Start also
// fails, for example, if the port is taken, Redis does not answer, or the node lacks a right in Redis.
func Start(ctx context.Context, cfg Config) (_ *Node, err error) {
	wanted := cmp.Or(cfg.Serve.MaxConnections, transport.DefaultMaxConnections)
	most, err := limitsFor(wanted, maxFiles())
	if err != nil {
		return nil, err
	}
	cfg.Serve.MaxConnections = most.clients
	n, err := assemble(&cfg)
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			_ = n.Shutdown(context.WithoutCancel(ctx))
		}
	}()
	n.most = most
	if cfg.OnClient != nil {
		cfg.OnClient(n.client)
	}
	if err := n.show(cfg.Registerer); err != nil {
		return nil, err
	}
	if err := n.listen(&cfg); err != nil {
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
	return n, nil
}

// Validate returns the error that Start would return for an unusable field of cfg. It does not listen, and sends
// nothing to Redis.
func (cfg Config) Validate() error {
	n, err := assemble(&cfg)
	if err != nil {
		return err
	}
	return n.Shutdown(context.Background())
}

// assemble makes the parts of a node. It starts none of them, does not listen, and sends nothing to Redis.
func assemble(cfg *Config) (_ *Node, err error) {
	if err := cfg.check(); err != nil {
		return nil, err
	}
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	n := &Node{version: cfg.Version, failed: make(chan error, 1), logs: ratelog.NewSet(cfg.Log, ratelog.Quiet),
		client: cfg.Redis.NewClient()}
	defer func() {
		if err == nil {
			return
		}
		if n.rooms != nil {
			_ = n.rooms.Close(context.Background())
		}
		_ = n.client.Close()
	}()
	cfg.Room.Log, cfg.Serve.Log, cfg.Webhooks.Log = cfg.Log, cfg.Log, cfg.Log
	cfg.Serve.Duplicate, cfg.Room.Report = cfg.Room.Rules.Duplicate, n.report
	if cfg.AdminListen != "" || cfg.Registerer != nil {
		n.metrics = metrics.New()
		n.metrics.Hook(n.client)
		cfg.Room.Trace = metrics.Join(n.metrics.Rooms, cfg.Room.Trace)
		cfg.Serve.Trace = metrics.Join(n.metrics.Clients, cfg.Serve.Trace)
	}
	if n.rooms, err = coordinator.New(n.client, cfg.Room); err != nil {
		return nil, err
	}
	if n.settings = cfg.Settings; n.settings == nil {
		n.settings = n.rooms.Settings().Strings()
	}
	if n.server, err = transport.New(n.rooms, cfg.Serve); err != nil {
		return nil, err
	}
	if n.api, err = api.New(n.rooms, n.server, cfg.apiOptions()); err != nil {
		return nil, err
	}
	if len(cfg.Webhooks.Receivers) > 0 && !n.rooms.HasFeed() {
		return nil, &room.InvalidError{Field: "Webhooks", Problem: "need a feed: Room.Journal and Room.Feed"}
	}
	n.webhooks, err = webhook.New(n.rooms, cfg.Webhooks)
	return n, err
}

// listen opens the node's addresses, but answers nobody yet.
func (n *Node) listen(cfg *Config) (err error) {
	if cfg.AdminListen != "" {
		if n.admin, err = openSite("--admin-listen", cfg.AdminListen); err != nil {
			return err
		}
	}
	if n.public, err = openSite("--listen", cfg.Listen); err != nil {
		return err
	}
	return n.rooms.SetAddress(knownAs(n.public.Addr()))
}

func (n *Node) startRooms(ctx context.Context, db *redisurl.DB) error {
	limited, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	if err := n.rooms.Ping(limited); err != nil && !redisconn.NotAllowed(err) { // Check explains a missing right
		do, why := explain(ctx, db, err)
		return fmt.Errorf("%w; check %s", why, do)
	}
	if err := n.rooms.Check(limited); err != nil {
		return err
	}
	return n.rooms.Start(limited)
}

// check returns an error if Redis is missing, an address is malformed, or metrics cannot show the settings; also if
// other machines can reach an address without tokens, unless Insecure allows it.
func (cfg *Config) check() error {
	if cfg.Redis == nil {
		return errors.New("node: Redis is nil")
	}
	check := func(field, addr string, anywhere bool, why string) error {
		host, _, err := net.SplitHostPort(addr)
		switch {
		case err != nil:
			return &room.InvalidError{Field: field, Problem: "is not host:port: " + err.Error()}
		case !anywhere && !isLoopback(host):
			return &room.InvalidError{Field: field, Problem: addr + " can be reached from other machines, " + why}
		}
		return nil
	}
	tokens := cfg.Serve.Auth != nil
	err := check("listen", cfg.Listen, tokens || cfg.Insecure, "and without authentication anybody there can act as "+
		"any user; give a key for tokens (--auth-secret-file), listen on 127.0.0.1, or allow it with --insecure")
	if err == nil && cfg.AdminListen != "" {
		err = check("AdminListen", cfg.AdminListen, tokens, "where an admin token is needed: give a key for tokens "+
			"(--auth-secret-file), or listen on 127.0.0.1")
	}
	return cmp.Or(err, metrics.CheckSettings(cfg.Settings))
}

// Addr returns the host:port that the node listens on.
func (n *Node) Addr() string { return n.public.Addr().String() }

// URL returns the address for game clients.
func (n *Node) URL() string {
	if n.public.secure != nil {
		return "wss://" + n.Addr() + "/ws"
	}
	return "ws://" + n.Addr() + "/ws"
}

// Name returns the name that the node has in Redis.
func (n *Node) Name() string { return n.rooms.Node() }

// Connections returns the number of connected game clients.
func (n *Node) Connections() int { return n.server.Connections() }

// Alive returns an error, or blocks, if the node has stalled for a reason of its own. While Redis does not answer, it
// returns nil.
func (n *Node) Alive() error {
	n.server.Connections()
	return n.rooms.Alive()
}

// Failed returns a channel that receives the error that stopped the listening.
func (n *Node) Failed() <-chan error { return n.failed }

// DrainRequested returns a channel that is closed when an operator, on any node, asks this one to stop. The node's
// owner then does the same as after SIGTERM.
func (n *Node) DrainRequested() <-chan struct{} { return n.rooms.DrainRequested() }

// Retire makes /readyz fail, so that load balancers send no more clients. Clients are still served, including new
// ones. Call Shutdown next.
func (n *Node) Retire() { n.server.Retire() }

// Shutdown drains the node: it accepts no clients, finishes and answers the running requests, and closes each
// connection with 1012; the users keep their seats. Then it cuts off the other connections. If ctx ends first it cuts
// off all, and returns the cause of ctx. In any case the node releases its lease, if Redis can be reached, and its
// goroutines end.
func (n *Node) Shutdown(ctx context.Context) error {
	err := n.server.Shutdown(ctx)
	answering, cancel := context.WithTimeout(ctx, httpTimeout)
	defer cancel()
	n.public.shutdown(answering)
	n.webhooks.Close()
	if closed := n.rooms.Close(ctx); err == nil {
		err = closed
	}
	_ = n.client.Close()
	showing, cancel := context.WithTimeout(context.WithoutCancel(ctx), httpTimeout)
	defer cancel()
	n.admin.shutdown(showing)
	if n.hide != nil {
		n.hide()
	}
	n.api.Close()
	n.logs.Close()
	return err
}

// knownAs returns the host and port that operators see for a node that listens on addr.
func knownAs(addr net.Addr) string {
	tcp, ok := addr.(*net.TCPAddr)
	host, err := os.Hostname()
	if !ok || !tcp.IP.IsUnspecified() || err != nil {
		return addr.String()
	}
	return net.JoinHostPort(host, strconv.Itoa(tcp.Port))
}
