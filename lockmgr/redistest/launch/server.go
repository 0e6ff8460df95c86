// Package launch runs processes that listen, for tests and commands: any one ([Start]), a redis-server
// ([StartRedis]), Sentinels ([StartSentinel]) and a Cluster ([StartCluster]). On Linux a server ends with the
// process that launched it, even after SIGKILL, and the next launch removes its folder. Elsewhere only Close
// ends a server.
//
// Each server that runs has two goroutines, which end with it.
package launch

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"
)

const (
	attempts    = 5 // another process may grab the port before redis-server does
	readyWithin = 30 * time.Second
	drain       = time.Second // how long a child of the server may keep its output open
	folderNames = "redis-launch-"

	defaultProgram = "redis-server"
)

// Command says what to run.
type Command struct {
	// Args returns the command line of a server whose port and folder are known. It is called once for each
	// attempt to start.
	Args func(s *Server) ([]string, error)

	// Ready is part of the line that the server logs when it accepts connections.
	Ready string

	// Program is the program to run. Empty means redis-server, from the PATH.
	Program string

	// Env has variables for the server's environment, as NAME=value, in addition to this process's.
	Env []string

	// Log, if not nil, receives the server's log.
	Log io.Writer
}

// Plain returns the Command of a redis-server without persistence, unless args (of its command line) say otherwise.
func Plain(args ...string) Command {
	return Command{Ready: "Ready to accept connections", Args: func(s *Server) ([]string, error) {
		return append([]string{
			"--port", strconv.Itoa(s.Port()), "--bind", "127.0.0.1", "--dir", s.Dir(),
			"--save", "", "--appendonly", "no", "--daemonize", "no", "--logfile", "",
		}, args...), nil
	}}
}

// Server is a child process that listens. Its methods are for one goroutine at a time.
type Server struct {
	port    int
	folder  *folder
	command Command
	args    []string

	process *os.Process   // the last one started
	gone    chan struct{} // closed when process has ended and was waited for
}

// Start runs a program on a free loopback port, with a temporary folder, and returns when it accepts connections.
//
// If the server ends instead, five times, or is not ready when ctx ends or after 30 s, the error contains the last
// lines of its log.
func Start(ctx context.Context, command Command) (s *Server, err error) {
	for range attempts {
		s, err = try(ctx, command)
		if !errors.Is(err, errEnded) || ctx.Err() != nil {
			break
		}
	}
	return s, err
}

func try(ctx context.Context, command Command) (*Server, error) {
	port, err := FreePort()
	if err != nil {
		return nil, err
	}
	folder, err := newFolder(os.TempDir())
	if err != nil {
		return nil, err
	}
	s := &Server{port: port, folder: folder}
	if err = s.Become(command); err == nil {
		err = s.launch(ctx)
	}
	if err != nil {
		return nil, errors.Join(err, folder.remove())
	}
	return s, nil
}

// FreePort returns a loopback port that nobody listens on.
func FreePort() (int, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return 0, err
	}
	defer l.Close()
	return l.Addr().(*net.TCPAddr).Port, nil
}

var errEnded = errors.New("it ended instead of becoming ready")

// launch starts the process and returns when its log says that it is ready. An answer at the port would not do,
// because it may come from another server.
func (s *Server) launch(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, readyWithin)
	defer cancel()
	cmd := exec.Command(s.command.Program, s.args...)
	said := newOutput(s.command.Ready)
	var log io.Writer = said
	if s.command.Log != nil {
		log = io.MultiWriter(said, s.command.Log)
	}
	cmd.Stdout, cmd.Stderr, cmd.WaitDelay = log, log, drain
	cmd.Env = append(os.Environ(), s.command.Env...)
	endWithUs(cmd)
	started, gone := make(chan error), make(chan struct{})
	go func() {
		// The kernel kills the server when the thread that started it ends, not only when the
		// whole process does (golang/go#27505). So this thread lives as long as the server.
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		defer close(gone)
		err := cmd.Start()
		started <- err
		if err == nil {
			_ = cmd.Wait()
		}
	}()
	if err := <-started; err != nil {
		return err
	}
	s.process, s.gone = cmd.Process, gone
	select {
	case <-said.ready:
		return nil
	case <-gone:
		return fmt.Errorf("%s: %w; its last lines:\n%s", filepath.Base(s.command.Program), errEnded, said)
	case <-ctx.Done():
		s.Kill()
		return fmt.Errorf("%s is not ready: %w; its last lines:\n%s", filepath.Base(s.command.Program),
			context.Cause(ctx), said)
	}
}

// Addr returns host:port.
func (s *Server) Addr() string { return fmt.Sprintf("127.0.0.1:%d", s.port) }

// URL returns the server's address as a redis:// URL.
func (s *Server) URL() string { return "redis://" + s.Addr() }

// Port returns the port that the server listens on.
func (s *Server) Port() int { return s.port }

// Dir returns the folder of the server. Close removes it.
func (s *Server) Dir() string { return s.folder.path }

// Pid returns the id of the process that was started last.
func (s *Server) Pid() int { return s.process.Pid }

// Signal sends the process a signal.
func (s *Server) Signal(sig os.Signal) error { return s.process.Signal(sig) }

// Pause stops the process (SIGSTOP); Resume continues it.
func (s *Server) Pause() { _ = s.Signal(syscall.SIGSTOP) }

// Resume ends a Pause.
func (s *Server) Resume() { _ = s.Signal(syscall.SIGCONT) }

// Kill ends the process at once (SIGKILL) and returns when it is gone.
func (s *Server) Kill() {
	_ = s.process.Kill()
	<-s.gone
}

// Restart starts the server again with its old port and folder, after a Kill if it runs. It tries once, and fails as
// Start.
func (s *Server) Restart(ctx context.Context) error {
	s.Kill()
	return s.launch(ctx)
}

// Wait returns when the process has ended, or with an error when ctx has.
func (s *Server) Wait(ctx context.Context) error {
	select {
	case <-s.gone:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("%s has not ended: %w", filepath.Base(s.command.Program), context.Cause(ctx))
	}
}

// Become makes Restart start another command, on the old port and in the old folder. It fails if Args does.
func (s *Server) Become(command Command) (err error) {
	command.Program = cmp.Or(command.Program, defaultProgram)
	s.command = command
	s.args, err = command.Args(s)
	return err
}

// Close kills the server and removes its folder.
func (s *Server) Close() error {
	s.Kill()
	return s.folder.remove()
}

const keepLines = 20

// output receives the log of a server. It keeps the last lines, and finds the line that says that the server is
// ready.
type output struct {
	ready chan struct{} // closed when a line contains sign
	sign  string

	mu    sync.Mutex
	found bool     // guarded by mu: ready is closed
	part  []byte   // guarded by mu: the incomplete last line
	lines []string // guarded by mu
}

func newOutput(sign string) *output { return &output{ready: make(chan struct{}), sign: sign} }

func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.part = append(o.part, p...)
	for {
		line, rest, ended := bytes.Cut(o.part, []byte("\n"))
		if !ended {
			return len(p), nil
		}
		o.lineLocked(string(line))
		o.part = slices.Clone(rest)
	}
}

func (o *output) lineLocked(line string) {
	if o.lines = append(o.lines, line); len(o.lines) > keepLines {
		o.lines = slices.Delete(o.lines, 0, 1)
	}
	if !o.found && strings.Contains(line, o.sign) {
		o.found = true
		close(o.ready)
	}
}

// String returns the last lines.
func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return strings.Join(append(slices.Clone(o.lines), string(o.part)), "\n")
}
