package redistest

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"roomd/lockmgr/redistest/launch"
)

const (
	masterName = "redistest"
	sentinels  = 3
	quorum     = 2
)

// Sentinel is a primary, its replica and three sentinels, of which two have to
// agree that the primary is down, that end with the test that started them. Its
// methods are for the goroutine of the test.
type Sentinel struct {
	tb        testing.TB
	servers   []*Server
	sentinels []*Server
	admin     map[*Server]*redis.Client // of all five
}

// StartSentinel runs them, and returns when the replica is in sync and every
// sentinel knows all others. args go to the primary and the replica; the rules
// about a missing redis-server are those of Start.
//
// The sentinels call a primary that has not answered for a second down.
func StartSentinel(tb testing.TB, args ...string) *Sentinel {
	tb.Helper()
	s := &Sentinel{tb: tb, admin: make(map[*Server]*redis.Client)}
	// With a file the replica gets the data at once, and then every write as it happens.
	// Without one it waits for 5 s, and gets the writes of its first second late.
	args = append([]string{"--repl-diskless-sync", "no", "--rdb-del-sync-files", "yes"}, args...)
	primary := Start(tb, args...)
	replica := Start(tb, append(args, "--replicaof", "127.0.0.1", strconv.Itoa(primary.port()))...)
	s.servers = []*Server{primary, replica}
	for _, server := range s.servers {
		s.admin[server] = server.Client()
	}
	// A sentinel asks for replicas when it starts and then only every 10 s.
	waitFor(tb, "the replica", func(ctx context.Context) error { return s.inSync(ctx, replica, primary) })
	for range sentinels {
		sentinel := start(tb, watch("127.0.0.1", strconv.Itoa(primary.port()), quorum))
		s.sentinels = append(s.sentinels, sentinel)
		s.admin[sentinel] = sentinel.Client()
	}
	s.tune("PUBLISH-PERIOD", 200, "INFO-PERIOD", 1000, "ASK-PERIOD", 200,
		// Shorter than what makes a server count as down, which is counted from before the
		// first ping. A replica may take over only if it was heard of in the last five periods.
		"PING-PERIOD", 400,
		// After a stall of its own a sentinel does nothing for this long: 30 s by default.
		"TILT-PERIOD", 1000)
	s.WaitReady()
	// They know each other. They tolerate an unexpected primary for four times this long: a
	// new one needs more than a second until all sentinels have heard of it.
	s.tune("PUBLISH-PERIOD", 750)
	return s
}

// watch is a sentinel of the primary at host and port, with more lines of configuration. It writes what
// it learns to its configuration file.
func watch(host, port string, quorum int, more ...string) launch.Command {
	return launch.Command{Ready: "Sentinel ID is", Args: func(s *launch.Server) ([]string, error) {
		path := filepath.Join(s.Dir(), "sentinel.conf")
		lines := append([]string{
			fmt.Sprintf("port %d", s.Port()), "bind 127.0.0.1", fmt.Sprintf("dir %q", s.Dir()), `logfile ""`,
			fmt.Sprintf("sentinel monitor %s %s %s %d", masterName, host, port, quorum),
			"sentinel down-after-milliseconds " + masterName + " 1000", "sentinel failover-timeout " + masterName + " 3000",
		}, more...)
		if slices.ContainsFunc(more, func(line string) bool { return strings.HasPrefix(line, "tls-") }) {
			lines[0] = fmt.Sprintf("port 0\ntls-port %d", s.Port())
		}
		return []string{path, "--sentinel"}, os.WriteFile(path, []byte(strings.Join(lines, "\n")+"\n"), 0o600)
	}}
}

// tune sets times (in ms) that the configuration of sentinels has no option for. Before
// Redis 7 that is not possible, and everything takes longer.
func (s *Sentinel) tune(times ...any) {
	ctx, cancel := context.WithTimeout(context.Background(), stateTimeout)
	defer cancel()
	for _, sentinel := range s.sentinels {
		_ = s.admin[sentinel].Do(ctx, append([]any{"SENTINEL", "DEBUG"}, times...)...).Err()
	}
}

// Client returns a new client that asks the sentinels for the primary, closed
// with the test.
func (s *Sentinel) Client() *redis.Client {
	c := redis.NewFailoverClient(&redis.FailoverOptions{
		MasterName:            masterName,
		SentinelAddrs:         s.Addrs(),
		ContextTimeoutEnabled: true,
		DialTimeout:           time.Second,
		DialerRetries:         1,
	})
	s.tb.Cleanup(func() { _ = c.Close() })
	return c
}

// Addrs returns host:port of every sentinel.
func (s *Sentinel) Addrs() []string {
	var addrs []string
	for _, sentinel := range s.sentinels {
		addrs = append(addrs, sentinel.Addr())
	}
	return addrs
}

// MasterName returns what the sentinels call the primary.
func (s *Sentinel) MasterName() string { return masterName }

// Sentinels returns the three sentinels. One that is restarted has a sentinel's default
// times, so a failover that it leads takes longer.
func (s *Sentinel) Sentinels() []*Server { return s.sentinels }

// Primary returns the server that the sentinels call the primary now.
func (s *Sentinel) Primary() *Server {
	s.tb.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), stateTimeout)
	defer cancel()
	var errs []error
	for _, sentinel := range s.sentinels {
		primary, err := s.primary(ctx, sentinel)
		if err == nil {
			return primary
		}
		errs = append(errs, err)
	}
	s.tb.Fatalf("no sentinel knows the primary: %v", errors.Join(errs...))
	return nil
}

// Replica returns the server that is not the primary now. It need not be running.
func (s *Sentinel) Replica() *Server {
	s.tb.Helper()
	return s.other(s.Primary())
}

func (s *Sentinel) other(server *Server) *Server {
	if server == s.servers[0] {
		return s.servers[1]
	}
	return s.servers[0]
}

// primary returns what one sentinel says.
func (s *Sentinel) primary(ctx context.Context, sentinel *Server) (*Server, error) {
	addr, err := s.admin[sentinel].Do(ctx, "SENTINEL", "GET-MASTER-ADDR-BY-NAME", masterName).StringSlice()
	if err != nil {
		return nil, err
	}
	for _, server := range s.servers {
		if len(addr) == 2 && net.JoinHostPort(addr[0], addr[1]) == server.Addr() {
			return server, nil
		}
	}
	return nil, fmt.Errorf("unknown primary %q", addr)
}
