package chaos

import (
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"roomd/lockmgr/redistest/launch"
)

const (
	masterName = "chaos"
	sentinels  = 3
)

// sentinel is a primary, its replica, and three Sentinels, of which two have to agree.
type sentinel struct {
	all   []*server
	asked []*launch.Server
	rdb   redis.UniversalClient
}

func startSentinel(ctx context.Context, cfg Config, log func(string) io.Writer) (_ store, err error) {
	s := new(sentinel)
	defer func() {
		if err != nil {
			s.close()
		}
	}()
	var more []string
	for i := range 2 {
		name := fmt.Sprintf("redis-%d", i+1)
		server, err := startServer(ctx, name, cfg, log(name), append(more, "--repl-diskless-sync-delay", "0")...)
		if err != nil {
			return nil, err
		}
		s.all = append(s.all, server)
		more = []string{"--replicaof", "127.0.0.1", strconv.Itoa(server.process.Port())}
	}
	for i := range sentinels {
		watcher, err := launch.Start(ctx, s.watcher(log(fmt.Sprintf("sentinel-%d", i+1))))
		if err != nil {
			return nil, err
		}
		s.asked = append(s.asked, watcher)
	}
	s.tune(ctx)
	s.rdb = redis.NewFailoverClient(&redis.FailoverOptions{
		MasterName: masterName, SentinelAddrs: s.addrs(), DialTimeout: time.Second, DialerRetries: 1, ReadTimeout: 2 * time.Second, ContextTimeoutEnabled: true,
	})
	return s, awaitReady(ctx, s)
}

// watcher is a Sentinel of the primary, which calls it down after a second.
func (s *sentinel) watcher(log io.Writer) launch.Command {
	return launch.Command{Ready: "Sentinel ID is", Log: log, Args: func(w *launch.Server) ([]string, error) {
		path := filepath.Join(w.Dir(), "sentinel.conf")
		lines := []string{
			fmt.Sprintf("port %d", w.Port()), "bind 127.0.0.1", fmt.Sprintf("dir %q", w.Dir()), `logfile ""`,
			fmt.Sprintf("sentinel monitor %s 127.0.0.1 %d 2", masterName, s.all[0].process.Port()),
			"sentinel down-after-milliseconds " + masterName + " 1000", "sentinel failover-timeout " + masterName + " 3000",
		}
		return []string{path, "--sentinel"}, os.WriteFile(path, []byte(strings.Join(lines, "\n")+"\n"), 0o600)
	}}
}

// tune sets times for which the Sentinels have no option; before Redis 7 everything takes longer.
func (s *sentinel) tune(ctx context.Context) {
	for _, addr := range s.addrs() {
		c := redis.NewClient(&redis.Options{Addr: addr})
		_ = c.Do(ctx, "SENTINEL", "DEBUG", "PUBLISH-PERIOD", 500, "INFO-PERIOD", 1000, "ASK-PERIOD", 200, "PING-PERIOD", 400, "TILT-PERIOD", 1000).Err()
		_ = c.Close()
	}
}

func (s *sentinel) addrs() (list []string) {
	for _, w := range s.asked {
		list = append(list, w.Addr())
	}
	return list
}

func (s *sentinel) url() string {
	return "redis+sentinel://" + strings.Join(s.addrs(), ",") + "/" + masterName
}

func (s *sentinel) ends() []end {
	ends := endsOf(s.all)
	for i, addr := range s.addrs() {
		ends = append(ends, end{fmt.Sprintf("sentinel-%d", i+1), addr})
	}
	return ends
}

func (s *sentinel) client() redis.UniversalClient { return s.rdb }

func (s *sentinel) servers() []*server { return s.all }

// primary returns what all Sentinels say. They may not agree while a failover goes on.
func (s *sentinel) primary(ctx context.Context, _ string) (*server, error) {
	said := ""
	for _, addr := range s.addrs() {
		c := redis.NewClient(&redis.Options{Addr: addr, DialTimeout: time.Second})
		at, err := c.Do(ctx, "SENTINEL", "GET-MASTER-ADDR-BY-NAME", masterName).StringSlice()
		_ = c.Close()
		if err != nil || len(at) != 2 {
			return nil, fmt.Errorf("the Sentinel %s: %w", addr, err)
		}
		here := net.JoinHostPort(at[0], at[1])
		if said != "" && here != said {
			return nil, fmt.Errorf("the Sentinels name %s and %s", said, here)
		}
		said = here
	}
	return of(s.all, said)
}

func (s *sentinel) ready(ctx context.Context) error {
	primary, err := s.primary(ctx, "")
	if err != nil {
		return err
	}
	for _, server := range s.all {
		if err := server.replicates(ctx); err != nil {
			return err
		}
		if server != primary && server.follows(ctx) != primary.process.Port() {
			return fmt.Errorf("%s does not follow %s", server.name, primary.name)
		}
	}
	return nil
}

// failOver has the replica take over from a primary that is well.
func (s *sentinel) failOver(ctx context.Context, _ string) (*server, error) {
	primary, err := s.primary(ctx, "")
	if err != nil {
		return nil, err
	}
	c := redis.NewClient(&redis.Options{Addr: s.asked[0].Addr(), DialTimeout: time.Second})
	defer c.Close()
	return primary, c.Do(ctx, "SENTINEL", "FAILOVER", masterName).Err()
}

func (s *sentinel) close() {
	if s.rdb != nil {
		_ = s.rdb.Close()
	}
	for _, w := range s.asked {
		_ = w.Close()
	}
	for _, server := range s.all {
		server.close()
	}
}
