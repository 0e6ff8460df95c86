package worker

import (
	"context"
	"io"
	"net/rpc"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/logging"

	"roomd/loadtest/bench/echo"
	"roomd/lockmgr/redisconn/redisurl"
	"roomd/room/coordinator"
	"roomd/transport/node"
)

// Kind is a server that a child can be.
type Kind struct {
	Name string

	// Open starts the server.
	Open func(ctx context.Context, cfg ServerConfig) (Service, error)
}

// Service is a running server.
type Service interface {
	URL() string      // where clients connect
	Connections() int // that are open
	Close()
}

// Main is the whole program if this process is a child, and then does not return. Otherwise it
// does nothing. A child can be any of our servers, and those that are given.
func Main(more ...Kind) {
	if os.Getenv(childEnv) == "" {
		return
	}
	signal.Ignore(syscall.SIGINT) // a terminal sends it to the children, too; they end with the parent
	out := os.Stdout
	os.Stdout = os.Stderr                  // what prints there would break the conversation
	redis.SetLogger(&logging.VoidLogger{}) // callers get the same as errors
	s := rpc.NewServer()
	for name, service := range map[string]any{
		"Child":  new(child),
		"Server": &serverChild{kinds: append([]Kind{nodeKind, echoKind}, more...)},
		"Swarm":  new(swarmChild),
	} {
		if err := s.RegisterName(name, service); err != nil {
			panic(err)
		}
	}
	s.ServeConn(pipe{untilEnd{os.Stdin}, out})
	os.Exit(0)
}

type child struct{}

// Hello says that this is a child.
func (*child) Hello(int, *int) error { return nil }

// untilEnd ends the process when the parent has gone. ServeConn alone would wait for running calls.
type untilEnd struct{ in io.Reader }

func (u untilEnd) Read(p []byte) (int, error) {
	n, err := u.in.Read(p)
	if err != nil {
		os.Exit(0)
	}
	return n, err
}

const stopTimeout = 15 * time.Second

// nodeConfig returns how the bench's nodes are set. They have roomd's own defaults, because these
// are what is measured. On Linux each client has an address of its own, so that a limit by address
// does not bind them together; see source.
func nodeConfig(cfg ServerConfig, db *redisurl.DB) node.Config {
	return node.Config{
		Listen: "127.0.0.1:0",
		Redis:  db,
		Room:   coordinator.Options{Node: cfg.Name},
	}
}

var nodeKind = Kind{Node, func(ctx context.Context, cfg ServerConfig) (Service, error) {
	db, err := redisurl.Open(cfg.Redis)
	if err != nil {
		return nil, err
	}
	n, err := node.Start(ctx, nodeConfig(cfg, db))
	if err != nil {
		db.Close()
		return nil, err
	}
	return nodeService{n, db}, nil
}}

type nodeService struct {
	*node.Node
	db *redisurl.DB
}

// Close drains the node.
func (s nodeService) Close() {
	ctx, cancel := context.WithTimeout(context.Background(), stopTimeout)
	defer cancel()
	_ = s.Shutdown(ctx)
	s.db.Close()
}

var echoKind = Kind{Echo, func(context.Context, ServerConfig) (Service, error) { return echo.Start() }}
