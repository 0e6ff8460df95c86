package chaos

import (
	"context"
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
		roomd.MainVia(room.Rules{}, dialThrough(os.Getenv(linksOf)))
	}
}

// node is a process of roomd's.
type node struct {
	start
	process *launch.Server
	admin   string  // host:port of its operators' side
	version version // that it is, or will be when it starts again
	stopped bool    // by SIGSTOP
	down    bool    // killed or told to end, and not started again
}

// start is how a node is started.
type start struct {
	number   int // from 1
	programs map[version]string
	links    *links
	url      string // of Redis
	cfg      Config
	more     []string // further arguments
	log      io.Writer
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

// startNode starts a node, and waits until it takes clients.
func startNode(ctx context.Context, s start) (*node, error) {
	n := &node{start: s}
	if s.number%2 == 0 && s.programs[other] != "" {
		n.version = other
	}
	command := n.command(n.version)
	args := command.Args
	command.Args = func(s *launch.Server) ([]string, error) { // each attempt to start has another port
		port, err := launch.FreePort()
		if err != nil {
			return nil, err
		}
		n.admin = fmt.Sprintf("127.0.0.1:%d", port)
		return args(s)
	}
	var err error
	if n.process, err = launch.Start(ctx, command); err == nil && n.version == own {
		if err = n.links.used(); err != nil {
			_ = n.process.Close()
		}
	}
	if err != nil {
		return nil, fmt.Errorf("node %d: %w", n.number, err)
	}
	return n, nil
}

// command is what starts the node as a version.
func (n *node) command(v version) launch.Command {
	c := launch.Command{Program: n.programs[v], Env: []string{asNode + "=1", n.links.env()}, Ready: "ready: connect to", Log: n.log}
	c.Args = func(s *launch.Server) ([]string, error) {
		return append([]string{
			"--listen", s.Addr(), "--admin-listen", n.admin, "--redis", n.url, "--replicas", fmt.Sprint(n.cfg.Replicas),
			"--lock-ttl", lockTTL.String(), "--lock-wait", lockWait.String(), "--node-ttl", nodeTTL.String(), "--grace", grace.String(),
			"--capacity", fmt.Sprint(n.cfg.Capacity), "--journal", "1000000", "--key-prefix", n.cfg.KeyPrefix,
			"--rate", "off", "--max-per-address", "off", "--max-new-rooms", "off",
		}, n.more...), nil
	}
	if v == other {
		c = inEnvironment(c)
	}
	return c
}

func (n *node) kill() {
	n.process.Kill()
	n.down, n.stopped = true, false
}

func (n *node) stop() { n.stopped = n.process.Signal(syscall.SIGSTOP) == nil }

// heal starts a node again that is down, and lets a stopped one go on.
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
