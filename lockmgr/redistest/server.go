// Package redistest gives tests a Redis: real redis-servers ([Start], [StartCluster], [StartSentinel]), or an
// in-process one with a virtual clock ([Mini]). A [Proxy] in front of a server and a [Hook] in a client lose
// requests and replies.
//
// Everything ends with the test that started it. Servers also end with the test binary; see package launch.
// A server has two goroutines, a connection through a Proxy one, or two once it subscribes.
package redistest

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/logging"
	"github.com/redis/go-redis/v9/maintnotifications"

	"roomd/lockmgr/redisconn/embedded"
	"roomd/lockmgr/redistest/certs"
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

// Ran returns how many scripts the server has run by EVALSHA so far, and how many commands, with those in scripts.
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

// Restart starts the server again on its old port and folder, after a Kill if it runs.
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

// StartTLS runs a redis-server as Start does. At addr it speaks TLS with clients that have a certificate of
// authority; Addr and Client still mean the port without TLS. If redis-server was built without TLS, StartTLS
// skips the test, or fails it if CI is set.
func StartTLS(tb testing.TB, authority *certs.Authority, args ...string) (s *Server, addr string) {
	tb.Helper()
	needTLS(tb)
	options := tlsOptions(authority)
	command := launch.Plain()
	plain := command.Args
	command.Args = func(s *launch.Server) ([]string, error) {
		port, err := launch.FreePort()
		if err != nil {
			return nil, err
		}
		addr = fmt.Sprintf("127.0.0.1:%d", port)
		line, err := plain(s)
		line = append(line, "--tls-port", strconv.Itoa(port))
		for _, option := range options {
			line = append(line, "--"+option[0], option[1])
		}
		return append(line, args...), err
	}
	return start(tb, command), addr
}

// StartSentinelTLS runs one sentinel that speaks only TLS and asks for a password. Its primary is the server at
// primary, whose default user has no password. It returns the sentinel's address.
func StartSentinelTLS(tb testing.TB, authority *certs.Authority, primary, password string) (addr string) {
	tb.Helper()
	needTLS(tb)
	host, port, _ := strings.Cut(primary, ":")
	more := []string{"requirepass " + password, "tls-replication yes"}
	for _, option := range tlsOptions(authority) {
		more = append(more, fmt.Sprintf("%s %q", option[0], option[1]))
	}
	return start(tb, launch.Watch(host, port, 1, more...)).Addr()
}

func tlsOptions(authority *certs.Authority) [][2]string {
	cert, key := authority.Issue("redis")
	return [][2]string{{"tls-cert-file", cert}, {"tls-key-file", key}, {"tls-ca-cert-file", authority.File},
		{"tls-auth-clients", "yes"}}
}
