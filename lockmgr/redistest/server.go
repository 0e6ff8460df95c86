package redistest

import (
	"context"
	"os"
	"os/exec"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/logging"
	"github.com/redis/go-redis/v9/maintnotifications"

	"roomd/lockmgr/redistest/launch"
)

// Server is a redis-server process that ends with its test.
type Server struct {
	tb      testing.TB
	process *launch.Server
}

// Start runs a redis-server on a free loopback port, without persistence unless
// args (in the form of its command line) say otherwise.
//
// If no redis-server is installed Start skips the test, or fails it if CI is set in the
// environment.
func Start(tb testing.TB, args ...string) *Server {
	tb.Helper()
	return start(tb, launch.Plain(args...))
}

func start(tb testing.TB, command launch.Command) *Server {
	tb.Helper()
	needBinary(tb, "redis-server")
	process, err := launch.Start(tb.Context(), command)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		if err := process.Close(); err != nil {
			tb.Error(err)
		}
	})
	return &Server{tb, process}
}

func needBinary(tb testing.TB, name string) {
	tb.Helper()
	if _, err := exec.LookPath(name); err == nil {
		return
	}
	if os.Getenv("CI") != "" {
		tb.Fatalf("%s is not installed; in CI it has to be", name)
	}
	tb.Skipf("%s is not installed: this test needs the real one", name)
}

// Addr returns host:port.
func (s *Server) Addr() string { return s.process.Addr() }

// URL returns the server's address as a redis:// URL.
func (s *Server) URL() string { return s.process.URL() }

func (s *Server) port() int { return s.process.Port() }

// Client returns a new client of the server, closed with the test.
func (s *Server) Client() *redis.Client {
	return newClient(s.tb, &redis.Options{Addr: s.Addr()})
}

// Kill ends the process at once (SIGKILL) and waits until it is gone.
func (s *Server) Kill() { s.process.Kill() }

// Restart starts a killed server again on its old port and folder.
func (s *Server) Restart() {
	s.tb.Helper()
	if err := s.process.Restart(context.Background()); err != nil {
		s.tb.Fatalf("%s: %v", s.Addr(), err)
	}
}

// Pause stops the process where it stands (SIGSTOP); Resume lets it go on.
func (s *Server) Pause() { _ = s.process.Signal(syscall.SIGSTOP) }

// Resume ends a Pause.
func (s *Server) Resume() { _ = s.process.Signal(syscall.SIGCONT) }

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
