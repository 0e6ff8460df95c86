package bench

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/signal"
	"runtime"
	"runtime/debug"
	"runtime/pprof"
	"strings"
	"syscall"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/logging"

	"roomd/lockmgr/redisconn/redisurl"
	"roomd/lockmgr/redistest/launch"
	"roomd/lockmgr/redistest/proxy"
)

const (
	childEnv   = "ROOMLOAD_CHILD" // has the child's task as JSON
	childReady = "the child is ready"
)

// servers are all servers that may run in a child.
var servers = map[string]opener{echoName: openEcho, roomdName: openNode, networkName: openNetwork}

// answer is a child's usage. Memory is in bytes.
type answer struct {
	URL         string
	Resident    int64 // by the operating system; 0 if unknown
	Heap, Stack int64 // in use by Go
	Goroutines  int
	Connections int
	Error       string
}

// Main runs the whole program if this process is a child, and then does not return. Otherwise it does nothing. A child
// runs a server whose memory or processor time must not count as the bench's. The program's main function and TestMain
// call Main first.
func Main() {
	text := os.Getenv(childEnv)
	if text == "" {
		return
	}
	signal.Ignore(syscall.SIGINT)          // a terminal also sends it to children; their parent ends them
	redis.SetLogger(&logging.VoidLogger{}) // go-redis also returns them as errors
	fmt.Println(serve(text, os.Args[1]))
	os.Exit(1)
}

// serve runs the server of a task, and reports its usage at an address, until the process is killed.
func serve(text, address string) error {
	var cfg serverConfig
	err := json.Unmarshal([]byte(text), &cfg)
	if err != nil {
		return err
	}
	open := servers[cfg.Server]
	if open == nil {
		return fmt.Errorf("there is no server %q", cfg.Server)
	}
	if cfg.db, err = redisurl.Open(cfg.Redis); err != nil {
		return err
	}
	s, err := open(context.Background(), cfg)
	if err != nil {
		return err
	}
	asked, err := net.Listen("tcp", address)
	if err != nil {
		return err
	}
	fmt.Println(childReady)
	return http.Serve(asked, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_ = json.NewEncoder(w).Encode(uses(s, r.FormValue("free") != "", r.FormValue("heap")))
	}))
}

// uses returns a server's usage; if free, after it has freed as much memory as possible. heap, if not empty, is a
// file for a profile.
func uses(s server, free bool, heap string) (a answer) {
	if heap != "" {
		runtime.GC() // a profile shows the last collection
		f, err := os.Create(heap)
		if err == nil {
			err = errors.Join(pprof.Lookup("heap").WriteTo(f, 0), f.Close())
		}
		if err != nil {
			a.Error = err.Error()
		}
	}
	if free {
		runtime.GC() // the second one collects memory of finalizers and pools
		debug.FreeOSMemory()
	}
	var used runtime.MemStats
	runtime.ReadMemStats(&used)
	a.URL, a.Resident, a.Heap, a.Stack = s.URL(), resident(), int64(used.HeapInuse), int64(used.StackInuse)
	a.Goroutines, a.Connections = runtime.NumGoroutine(), s.Connections()
	return a
}

// resident returns the resident memory of this process, or 0 if it is unknown.
func resident() (now int64) {
	status, _ := os.ReadFile("/proc/self/status") // only on Linux
	for line := range strings.Lines(string(status)) {
		if _, err := fmt.Sscanf(line, "VmRSS: %d kB", &now); err == nil {
			return now * 1024
		}
	}
	return 0
}

// child is a server in a process of its own, which runs this program again.
type child struct {
	*launch.Server
	url string
}

func openChild(ctx context.Context, cfg serverConfig) (*child, error) {
	if os.Getenv(childEnv) != "" {
		return nil, errors.New("a child starts no children; does the program call bench.Main?")
	}
	program, err := os.Executable()
	if err != nil {
		return nil, err
	}
	text, err := json.Marshal(cfg)
	if err != nil {
		return nil, err
	}
	s, err := launch.Start(ctx, launch.Command{
		Program: program, Env: []string{childEnv + "=" + string(text)}, Ready: childReady,
		Args: func(s *launch.Server) ([]string, error) { return []string{s.Addr()}, nil },
	})
	if err != nil {
		return nil, fmt.Errorf("start a server: %w", err)
	}
	c := &child{Server: s}
	first, err := c.ask(nil)
	if err != nil {
		_ = c.Close()
		return nil, err
	}
	c.url = first.URL
	return c, nil
}

// asking closes its connections, so that they are not counted.
var asking = http.Client{Transport: &http.Transport{DisableKeepAlives: true}}

// ask returns the server's usage; see uses.
func (c *child) ask(how url.Values) (a answer, err error) {
	res, err := asking.Get("http://" + c.Addr() + "/?" + how.Encode())
	if err != nil {
		return a, err
	}
	defer res.Body.Close()
	if err = json.NewDecoder(res.Body).Decode(&a); err == nil && a.Error != "" {
		err = errors.New(a.Error)
	}
	return a, err
}

// network is a network with a delay between nodes and Redis. It has a process of its own, so its cost does not count
// as the nodes' or clients'.
type network struct{ *proxy.Proxy }

func openNetwork(_ context.Context, cfg serverConfig) (server, error) {
	client := cfg.db.NewClient().(*redis.Client)
	defer client.Close() // it never connected
	to := client.Options()
	p, err := proxy.Start(func(ctx context.Context) (net.Conn, error) { return to.Dialer(ctx, to.Network, to.Addr) },
		nil, nil)
	if err != nil {
		return nil, err
	}
	p.Lag(cfg.Delay)
	return network{p}, nil
}

func (n network) URL() string      { return n.Addr() }
func (n network) Connections() int { return n.Carries() }
