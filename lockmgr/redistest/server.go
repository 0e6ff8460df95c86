// Package redistest gives tests a Redis: real redis-servers ([Start], [StartCluster], [StartSentinel]), or an
// in-process one with a virtual clock ([Mini]). A [Proxy] in front of a server and a [Hook] in a client lose
// requests and replies.
//
// Everything ends with the test that started it. Servers also end with the test binary; see package launch.
// Each server and each connection through a Proxy has two goroutines.
package redistest

import (
	"context"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/logging"
	"github.com/redis/go-redis/v9/maintnotifications"

	"roomd/lockmgr/redisconn/embedded"
	"roomd/lockmgr/redistest/launch"
)

// Server is a launch.Redis that ends with its test.
type Server struct {
	tb testing.TB
	*launch.Redis
}

// Start runs a redis-server on a free loopback port, without persistence unless args (in the form of its
// command line) say otherwise.
//
// If no redis-server is installed, Start skips the test, or fails it if CI is set in the environment.
func Start(tb testing.TB, args ...string) *Server {
	tb.Helper()
	return start(tb, launch.Plain(args...))
}

func start(tb testing.TB, command launch.Command) *Server {
	tb.Helper()
	Need(tb, "redis-server")
	r, err := launch.StartRedis(tb.Context(), "redis", command)
	OK(tb, err)
	tb.Cleanup(func() {
		if err := r.Close(); err != nil {
			tb.Error(err)
		}
	})
	return &Server{tb, r}
}

// Client returns a new client of the server, closed with the test.
func (s *Server) Client() *redis.Client {
	return newClient(s.tb, &redis.Options{Addr: s.Addr()})
}

// Ran returns how many scripts and how many commands the server has run so far. Commands in scripts count, too.
func (s *Server) Ran() (scripts, commands float64) {
	s.tb.Helper()
	for name, stats := range s.Client().InfoMap(s.tb.Context(), "commandstats").Val()["Commandstats"] {
		n, _, _ := strings.Cut(strings.TrimPrefix(stats, "calls="), ",")
		count, err := strconv.ParseFloat(n, 64)
		if err != nil {
			s.tb.Fatalf("%s: %v", name, err)
		}
		if name == "cmdstat_evalsha" {
			scripts += count
		}
		commands += count
	}
	return scripts, commands
}

// Restart starts a killed server again on its old port and folder.
func (s *Server) Restart() {
	s.tb.Helper()
	if err := s.Redis.Restart(context.Background()); err != nil {
		s.tb.Fatalf("%s: %v", s.Addr(), err)
	}
}

func init() {
	redis.SetLogger(&logging.VoidLogger{}) // tests end connections on purpose
}

func newClient(tb testing.TB, opts *redis.Options) *redis.Client {
	opts.ContextTimeoutEnabled = true
	opts.DialTimeout = time.Second
	opts.DialerRetries = 1
	opts.MaintNotificationsConfig = &maintnotifications.Config{Mode: maintnotifications.ModeDisabled}
	c := redis.NewClient(opts)
	tb.Cleanup(func() { _ = c.Close() })
	return c
}

// Mini returns an in-process Redis and a client, both closed with the test. Keys expire by the clock of
// time.Now: in a synctest bubble an hour of TTL passes at once.
func Mini(tb testing.TB) (*embedded.Redis, *redis.Client) {
	tb.Helper()
	r := embedded.Start()
	tb.Cleanup(r.Close)
	return r, MiniClient(tb, r)
}

// MiniClient returns another client of r, closed with the test.
func MiniClient(tb testing.TB, r *embedded.Redis) *redis.Client {
	return newClient(tb, r.Options())
}
