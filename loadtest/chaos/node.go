package chaos

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"roomd/lockmgr/redistest/launch"
	"roomd/lockmgr/redistest/proxy"
	"roomd/room"
	roomd "roomd/transport/node"
)

// asNode in the environment makes a program that calls Main run a node.
const asNode = "ROOMLOAD_CHAOS_NODE"

// hosted says that this program has called Main, so it runs a node when it is started again.
var hosted bool

// Main runs roomd with the arguments of the process if Run has started it for that, and then does not return.
// Otherwise it does nothing. A program that calls Run calls Main first, and so does its TestMain.
func Main() {
	hosted = true
	if os.Getenv(asNode) != "" {
		roomd.MainVia(room.Rules{}, dialThrough(os.Getenv(linksOf)))
	}
}

// process is a target of faults.
type process struct {
	server  *launch.Server
	name    string
	stopped bool // by SIGSTOP
	down    bool // killed or told to end
}

func (p *process) kill() {
	p.server.Kill()
	p.down, p.stopped = true, false
}

func (p *process) stop() { p.stopped = p.server.Signal(syscall.SIGSTOP) == nil }

// heal starts a process that is down, and continues a stopped one.
func (p *process) heal(ctx context.Context) error {
	if p.stopped {
		p.stopped = false
		return p.server.Signal(syscall.SIGCONT)
	}
	if !p.down {
		return nil
	}
	if err := p.server.Restart(ctx); err != nil {
		return fmt.Errorf("%s: %w", p.name, err)
	}
	p.down = false
	return nil
}

// node is a process of roomd with its networks.
type node struct {
	process
	run    *run
	number int // starts at 1
	links  links
	admin  string       // host:port of its API for operators
	door   *proxy.Proxy // network to admin for readers of the feed
	other  bool         // it runs Config.OtherProgram, or will at its next start
	log    io.Writer
}

// Times of the nodes. They are short, so that faults of seconds outlast them.
const (
	lockTTL  = time.Second
	lockWait = 3 * time.Second
	nodeTTL  = 3 * time.Second
	grace    = 2 * time.Second

	// eviction is how long a node can be silent until its members are removed: the others check twice in a nodeTTL.
	eviction = nodeTTL*3/2 + grace
)

// startNode starts a node with its networks, and waits until it accepts clients.
func (r *run) startNode(ctx context.Context, number int) (err error) {
	n := &node{run: r, number: number, log: r.log(fmt.Sprintf("node-%d", number))}
	n.name = fmt.Sprintf("node %d", number)
	r.nodes = append(r.nodes, n)
	n.other = number%2 == 0 && r.cfg.OtherProgram != ""
	if err = n.links.lead(r.store.ends); err != nil {
		return err
	}
	if n.server, err = launch.Start(ctx, n.command()); err == nil && !n.other {
		err = n.links.used()
	}
	if err != nil {
		return fmt.Errorf("%s: %w", n.name, err)
	}
	if n.links.clients, err = carry(n.server.Addr()); err == nil {
		n.door, err = carry(n.admin)
	}
	return err
}

// command returns the command that starts the node in its version.
func (n *node) command() launch.Command {
	c := launch.Command{Program: n.run.program, Env: []string{asNode + "=1", n.links.env()},
		Ready: "ready: connect to", Log: n.log}
	c.Args = func(s *launch.Server) ([]string, error) {
		if n.server == nil { // each attempt to start uses another port
			port, err := launch.FreePort()
			if err != nil {
				return nil, err
			}
			n.admin = fmt.Sprintf("127.0.0.1:%d", port)
		}
		cfg := n.run.cfg
		return append([]string{
			"--listen", s.Addr(), "--admin-listen", n.admin, "--redis", n.run.store.url, "--replicas",
			fmt.Sprint(cfg.Replicas),
			"--lock-ttl", lockTTL.String(), "--lock-wait", lockWait.String(), "--node-ttl", nodeTTL.String(),
			"--grace", grace.String(),
			"--capacity", fmt.Sprint(cfg.Capacity), "--journal", "1000000", "--key-prefix", cfg.KeyPrefix,
			"--rate", "off", "--max-per-address", "off", "--max-new-rooms", "off",
		}, n.run.feed.args()...), nil
	}
	if n.other {
		c.Program = n.run.cfg.OtherProgram
		c = inEnvironment(c)
	}
	return c
}

func (n *node) close() {
	n.links.close()
	if n.server != nil {
		_ = n.server.Close()
	}
}

// server is a redis-server process.
type server struct {
	*launch.Redis
	process
	persist string
}

func persistArgs(persist string) []string {
	if persist == PersistNone {
		return nil
	}
	return []string{"--appendonly", "yes", "--appendfsync", persist}
}

// Files of a server. An AOF has a folder.
const (
	appendFolder = "appendonlydir"
	dumpFile     = "dump.rdb"
)

// saved returns the path of the server's data.
func (s *server) saved() string {
	if s.persist == PersistNone {
		return filepath.Join(s.Dir(), dumpFile)
	}
	return filepath.Join(s.Dir(), appendFolder)
}

// copyData copies the current data, and returns the path of the copy.
func (s *server) copyData(ctx context.Context) (string, error) {
	copied := filepath.Join(s.Dir(), "copy")
	if err := os.RemoveAll(copied); err != nil {
		return "", err
	}
	if s.persist == PersistNone {
		if err := s.Admin.Save(ctx).Err(); err != nil {
			return "", err
		}
		return copied, os.Rename(s.saved(), copied)
	}
	return copied, os.CopyFS(copied, os.DirFS(s.saved()))
}

// restore replaces the data of a killed server by a copy; "" removes them.
func (s *server) restore(copied string) error {
	if err := os.RemoveAll(s.saved()); err != nil || copied == "" {
		return err
	}
	return os.Rename(copied, s.saved())
}

// follows returns the port of a server's primary, or 0 if it is a primary or does not answer.
func (s *server) follows(ctx context.Context) int {
	is, err := s.Replication(ctx)
	if err != nil || is["role"] != "slave" {
		return 0
	}
	port, _ := strconv.Atoi(is["master_port"])
	return port
}

// inEnvironment turns a command's flags into environment variables, because a version ignores unknown variables.
func inEnvironment(c launch.Command) launch.Command {
	program, flags := c.Program, c.Args
	c.Program = "env" // replaces itself by the program
	c.Args = func(s *launch.Server) ([]string, error) {
		args, err := flags(s)
		var set []string
		for i := 0; i+1 < len(args); i += 2 {
			name := strings.ReplaceAll(strings.TrimPrefix(args[i], "--"), "-", "_")
			set = append(set, "ROOMD_"+strings.ToUpper(name)+"="+args[i+1])
		}
		return append(set, program), err
	}
	return c
}

var updateFault = &Fault{
	Name: "node-update", What: "SIGTERM of a node, which drains; it starts again, as the other version if there is one (--update-from)",
	inject: func(_ context.Context, i *injection) (heal, error) {
		n, updated := i.node(), i.run.cfg.OtherProgram == ""
		if !updated {
			i.on += map[bool]string{false: " goes back", true: " is updated"}[n.other]
		}
		n.down = true
		return func(ctx context.Context) error {
			if err := n.server.Wait(ctx); err != nil {
				return fmt.Errorf("%s drains: %w", n.name, err)
			}
			if !updated { // otherwise it failed to start
				n.other = !n.other
				if err := n.server.Become(n.command()); err != nil {
					return err
				}
				updated = true
			}
			return n.heal(ctx)
		}, n.server.Signal(syscall.SIGTERM)
	},
}
