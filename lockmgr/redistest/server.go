// Package redistest gives tests a Redis: a real redis-server of their own in a
// temporary folder, a Cluster or a Sentinel of them, or an in-process miniredis
// whose clock may be virtual. A Proxy in front of a server, and a Hook in a
// client, make requests and replies go missing.
package redistest

import (
	"bufio"
	"fmt"
	"net"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/logging"
	"github.com/redis/go-redis/v9/maintnotifications"
)

// Server is a redis-server process that ends with the test that started it.
type Server struct {
	tb    testing.TB
	dir   string
	port  int
	args  []string
	ready string // what it logs when it accepts connections
	cmd   *exec.Cmd
}

// Start runs a redis-server on a free loopback port, without persistence unless
// args (in the form of its command line) say otherwise.
//
// Where no redis-server is installed the test is skipped with a word about it,
// and fails instead when CI is set in the environment.
func Start(tb testing.TB, args ...string) *Server {
	tb.Helper()
	return start(tb, func(s *Server) { s.configure(args...) })
}

// start runs a server that configure has given its arguments, with the port it
// has just been given. More than one attempt may be needed.
func start(tb testing.TB, configure func(*Server)) *Server {
	tb.Helper()
	needBinary(tb, "redis-server")
	s := &Server{tb: tb, dir: tb.TempDir()}
	const attempts = 5 // somebody else may take the port between our look and redis-server's
	for range attempts {
		s.port = freePort(tb)
		configure(s)
		if s.launch() {
			tb.Cleanup(s.Kill)
			return s
		}
	}
	tb.Fatalf("redis-server did not start in %d attempts", attempts)
	return nil
}

// configure makes s an ordinary server.
func (s *Server) configure(args ...string) {
	s.ready = "Ready to accept connections"
	s.args = append([]string{
		"--port", strconv.Itoa(s.port), "--bind", "127.0.0.1", "--dir", s.dir,
		"--save", "", "--appendonly", "no", "--daemonize", "no", "--logfile", "",
	}, args...)
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

func freePort(tb testing.TB) int {
	tb.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		tb.Fatal(err)
	}
	defer l.Close()
	return l.Addr().(*net.TCPAddr).Port
}

// launch starts the process and waits until it says that it accepts connections.
func (s *Server) launch() bool {
	s.cmd = exec.Command("redis-server", s.args...)
	out, err := s.cmd.StdoutPipe()
	if err != nil {
		s.tb.Fatal(err)
	}
	if err := s.cmd.Start(); err != nil {
		s.tb.Fatal(err)
	}
	ready := false
	lines := bufio.NewScanner(out)
	for !ready && lines.Scan() {
		ready = strings.Contains(lines.Text(), s.ready)
	}
	if !ready {
		_ = s.cmd.Wait()
		return false
	}
	go func() { // keeps the pipe empty; ends with the process
		for lines.Scan() {
		}
	}()
	return true
}

// Addr returns host:port.
func (s *Server) Addr() string { return fmt.Sprintf("127.0.0.1:%d", s.port) }

// URL returns the server's address as a redis:// URL.
func (s *Server) URL() string { return "redis://" + s.Addr() }

// Client returns a new client of the server, closed with the test.
func (s *Server) Client() *redis.Client {
	return newClient(s.tb, &redis.Options{Addr: s.Addr()})
}

// Kill ends the process at once (SIGKILL) and waits until it is gone.
func (s *Server) Kill() {
	if s.cmd.ProcessState == nil {
		_ = s.cmd.Process.Kill()
		_ = s.cmd.Wait()
	}
}

// Restart starts a killed server again on its old port and folder.
func (s *Server) Restart() {
	s.tb.Helper()
	s.Kill()
	if !s.launch() {
		s.tb.Fatalf("redis-server did not start again on %s", s.Addr())
	}
}

// Pause stops the process where it stands (SIGSTOP); Resume lets it go on.
func (s *Server) Pause() { _ = s.cmd.Process.Signal(syscall.SIGSTOP) }

// Resume ends a Pause.
func (s *Server) Resume() { _ = s.cmd.Process.Signal(syscall.SIGCONT) }

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
