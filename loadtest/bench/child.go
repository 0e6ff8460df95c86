package bench

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"os/signal"
	"runtime"
	"runtime/debug"
	"runtime/pprof"
	"strings"
	"syscall"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/logging"

	"roomd/lockmgr/redisconn/redisurl"
	"roomd/lockmgr/redistest/proxy"
)

const (
	childEnv    = "ROOMLOAD_CHILD" // has the task of a child, as JSON
	exitTimeout = 20 * time.Second
)

// servers are what a child can be.
var servers = map[string]opener{echoName: openEcho, roomdName: openNode, networkName: openNetwork}

// task says which server a child is.
type task struct {
	Server      string
	Redis, Name string
	Delay       time.Duration
}

// question is what a parent wants to know.
type question struct {
	Free        bool   // collect garbage before, and give memory that nothing uses back to the system
	HeapProfile string // a file that gets a profile; empty is none
}

// answer is the first line of a child, and then the one to each question. Memory is in bytes.
type answer struct {
	URL         string
	Resident    int64 // as an operator sees it; 0 if the system does not say
	Heap, Stack int64 // that Go has in use
	Goroutines  int
	Connections int
	Error       string
}

// Main is the whole program if this process is a child, and then does not return. Otherwise it does nothing. A child
// is a server whose memory or processor time must not be that of the bench. The program's main function, and TestMain, call Main first.
// A child ends when its standard input does, so it cannot outlive its parent.
func Main() {
	text := os.Getenv(childEnv)
	if text == "" {
		return
	}
	signal.Ignore(syscall.SIGINT) // a terminal sends it to the children, too; they end with the parent
	out := json.NewEncoder(os.Stdout)
	os.Stdout = os.Stderr                  // what prints there would break the conversation
	redis.SetLogger(&logging.VoidLogger{}) // callers get the same as errors
	s, err := start(text)
	if err != nil {
		_ = out.Encode(answer{Error: err.Error()})
		os.Exit(1)
	}
	_ = out.Encode(answer{URL: s.URL()})
	in := json.NewDecoder(os.Stdin)
	for q := (question{}); in.Decode(&q) == nil; q = (question{}) {
		_ = out.Encode(q.answer(s))
	}
	s.Close()
	os.Exit(0)
}

func start(text string) (server, error) {
	var t task
	if err := json.Unmarshal([]byte(text), &t); err != nil {
		return nil, err
	}
	open := servers[t.Server]
	if open == nil {
		return nil, fmt.Errorf("there is no server %q", t.Server)
	}
	db, err := redisurl.Open(t.Redis) // it ends with the process
	if err != nil {
		return nil, err
	}
	return open(context.Background(), serverConfig{db: db, name: t.Name, delay: t.Delay})
}

func (q question) answer(s server) (a answer) {
	if q.HeapProfile != "" {
		runtime.GC() // a profile is as of the last collection
		f, err := os.Create(q.HeapProfile)
		if err == nil {
			err = errors.Join(pprof.Lookup("heap").WriteTo(f, 0), f.Close())
		}
		if err != nil {
			a.Error = err.Error()
		}
	}
	if q.Free {
		runtime.GC() // twice: what finalizers and pools hold goes with the second
		debug.FreeOSMemory()
	}
	var used runtime.MemStats
	runtime.ReadMemStats(&used)
	a.Resident, a.Heap, a.Stack = resident(), int64(used.HeapInuse), int64(used.StackInuse)
	a.Goroutines, a.Connections = runtime.NumGoroutine(), s.Connections()
	return a
}

// resident returns how much memory of this process is resident, 0 if that is not known.
func resident() (now int64) {
	status, _ := os.ReadFile("/proc/self/status") // of Linux
	for line := range strings.Lines(string(status)) {
		if _, err := fmt.Sscanf(line, "VmRSS: %d kB", &now); err == nil {
			return now * 1024
		}
	}
	return 0
}

// child is a server in a process of its own. It is this program again.
type child struct {
	url  string
	cmd  *exec.Cmd
	pipe io.Closer
	in   *json.Encoder
	out  *json.Decoder
}

// openChild starts a server, which is killed when ctx ends.
func openChild(ctx context.Context, t task) (*child, error) {
	if os.Getenv(childEnv) != "" {
		return nil, errors.New("a child starts no children; does the program call bench.Main?")
	}
	program, err := os.Executable()
	if err != nil {
		return nil, err
	}
	text, err := json.Marshal(t)
	if err != nil {
		return nil, err
	}
	cmd := exec.CommandContext(ctx, program)
	cmd.Env, cmd.Stderr = append(os.Environ(), childEnv+"="+string(text)), os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	c := &child{cmd: cmd, pipe: in, in: json.NewEncoder(in), out: json.NewDecoder(out)}
	first, err := c.read()
	if err != nil {
		c.close()
		return nil, fmt.Errorf("start a server: %w", err)
	}
	c.url = first.URL
	return c, nil
}

func (c *child) ask(q question) (answer, error) {
	if err := c.in.Encode(q); err != nil {
		return answer{}, err
	}
	return c.read()
}

func (c *child) read() (a answer, err error) {
	if err := c.out.Decode(&a); err != nil {
		return a, fmt.Errorf("the process has ended: %w", err)
	}
	if a.Error != "" {
		return a, errors.New(a.Error)
	}
	return a, nil
}

// close ends the child and returns when it is gone.
func (c *child) close() {
	_ = c.pipe.Close()
	late := time.AfterFunc(exitTimeout, func() { _ = c.cmd.Process.Kill() })
	defer late.Stop()
	_ = c.cmd.Wait()
}

// network is a way to Redis on which everything needs some time. It is a process of its own, so what it costs is not
// counted as that of nodes and clients.
type network struct{ *proxy.Proxy }

func openNetwork(_ context.Context, cfg serverConfig) (server, error) {
	client := cfg.db.NewClient().(*redis.Client)
	defer client.Close() // it never connected
	to := client.Options()
	p, err := proxy.Start(func(ctx context.Context) (net.Conn, error) { return to.Dialer(ctx, to.Network, to.Addr) }, nil, nil)
	if err != nil {
		return nil, err
	}
	p.Lag(cfg.delay)
	return network{p}, nil
}

func (n network) URL() string      { return n.Addr() }
func (n network) Connections() int { return n.Carries() }
