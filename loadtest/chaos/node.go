package chaos

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"syscall"
	"time"

	"roomd/lockmgr/redistest/launch"
	"roomd/room"
	"roomd/transport/roomd"
)

// asNode in the environment makes a program that calls Main a node.
const asNode = "ROOMLOAD_CHAOS_NODE"

// hosted says that this program has called Main, so that starting it again makes a node and not another run.
var hosted bool

// Main is roomd with the arguments of the process, if Run has started it for that; then it does not return. Otherwise
// it does nothing. A program that calls Run calls Main first, and so does its TestMain.
func Main() {
	hosted = true
	if os.Getenv(asNode) != "" {
		roomd.Main(room.Rules{})
	}
}

// node is a process of roomd's.
type node struct {
	number  int // from 1
	process *launch.Server
	admin   string // host:port of its operators' side
	stopped bool   // by SIGSTOP
	down    bool   // killed, and not started again
}

// The times of the nodes: short, so that faults of seconds outlast them.
const (
	lockTTL  = time.Second
	lockWait = 3 * time.Second
	nodeTTL  = 3 * time.Second
	grace    = 2 * time.Second

	// eviction is how long a node can be silent until its members have been removed: the others
	// look twice in a nodeTTL.
	eviction = nodeTTL*3/2 + grace
)

// startNode starts a node on the Redis at url, and waits until it takes clients. more are further arguments.
func startNode(ctx context.Context, number int, url string, cfg Config, log io.Writer, more ...string) (*node, error) {
	program, err := os.Executable()
	if err != nil {
		return nil, err
	}
	if !hosted {
		return nil, errors.New("chaos: this program starts itself as a node, and does not call chaos.Main")
	}
	n := &node{number: number}
	n.process, err = launch.Start(ctx, launch.Command{
		Program: program, Env: []string{asNode + "=1"}, Ready: "ready: connect to", Log: log,
		Args: func(s *launch.Server) ([]string, error) {
			port, err := launch.FreePort()
			n.admin = fmt.Sprintf("127.0.0.1:%d", port)
			return append([]string{
				"--listen", s.Addr(), "--admin-listen", n.admin, "--redis", url, "--replicas", fmt.Sprint(cfg.Replicas),
				"--lock-ttl", lockTTL.String(), "--lock-wait", lockWait.String(), "--node-ttl", nodeTTL.String(), "--grace", grace.String(),
				"--capacity", fmt.Sprint(cfg.Capacity), "--journal", "1000000", "--key-prefix", cfg.KeyPrefix,
				"--rate", "off", "--max-per-address", "off", "--max-new-rooms", "off",
			}, more...), err
		},
	})
	if err != nil {
		return nil, fmt.Errorf("node %d: %w", number, err)
	}
	return n, nil
}

func (n *node) kill() {
	n.process.Kill()
	n.down, n.stopped = true, false
}

func (n *node) stop() { n.stopped = n.process.Signal(syscall.SIGSTOP) == nil }

// heal starts a killed node again, and lets a stopped one go on.
func (n *node) heal(ctx context.Context) error {
	if n.stopped {
		n.stopped = false
		return n.process.Signal(syscall.SIGCONT)
	}
	if !n.down {
		return nil
	}
	if err := n.process.Restart(ctx); err != nil {
		return fmt.Errorf("node %d: %w", n.number, err)
	}
	n.down = false
	return nil
}
