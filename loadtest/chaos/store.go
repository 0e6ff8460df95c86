package chaos

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"

	"roomd/lockmgr/redisconn/pause"
	"roomd/lockmgr/redistest/launch"
)

// store is the Redis of a run, by profile: its servers, and what nodes are told of it.
type store interface {
	// url returns the --redis of a node.
	url() string

	// ends are all to whom a node connects: the servers, and Sentinels.
	ends() []end

	// client is for whoever only looks on.
	client() redis.UniversalClient

	// servers are those that keep rooms, replicas included.
	servers() []*server

	// primary returns the server that keeps a room now.
	primary(ctx context.Context, room string) (*server, error)

	// ready returns nil if all servers serve, and replicas follow.
	ready(ctx context.Context) error

	close()
}

// server is a redis-server process.
type server struct {
	name    string
	process *launch.Server
	admin   *redis.Client // not through a network that fails
	persist string
	stopped bool
	down    bool
	clock   string // the file by which its clock is set; empty: it is the machine's
}

// startServer starts a redis-server. more are its arguments besides those of persistence.
func startServer(ctx context.Context, name string, cfg Config, log io.Writer, more ...string) (*server, error) {
	s := &server{name: name, persist: cfg.Persist}
	plain := launch.Plain(append(persistArgs(cfg.Persist), more...)...)
	plain.Log = log
	if clock := fakeClock(); slices.Contains(cfg.faults(), clockJump) && clock != nil {
		file, err := os.CreateTemp("", "roomload-clock-*")
		if err != nil {
			return nil, err
		}
		_ = file.Close()
		s.clock = file.Name()
		if err := s.setClock(0); err != nil {
			return nil, err
		}
		plain.Env = append(clock, "FAKETIME_TIMESTAMP_FILE="+s.clock)
	}
	var err error
	if s.process, err = launch.Start(ctx, plain); err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	s.admin = redis.NewClient(&redis.Options{
		Addr: s.process.Addr(), DialTimeout: time.Second, DialerRetries: 1, ReadTimeout: 2 * time.Second, MaxRetries: -1, ContextTimeoutEnabled: true,
		MaintNotificationsConfig: &maintnotifications.Config{Mode: maintnotifications.ModeDisabled},
	})
	return s, nil
}

func persistArgs(persist string) []string {
	if persist == PersistNone {
		return nil
	}
	return []string{"--appendonly", "yes", "--appendfsync", persist}
}

// fakeClock returns the environment in which the clock of a redis-server can be set, nil if Debian's libfaketime is not
// installed, or does not work with it.
var fakeClock = sync.OnceValue(func() []string {
	found, _ := filepath.Glob("/usr/lib/*/faketime/libfaketime.so.1")
	if len(found) == 0 {
		return nil
	}
	// Behind it the C library, whose malloc is then used: jemalloc asks for the time before libfaketime is ready for that.
	libc := filepath.Join("/lib", filepath.Base(filepath.Dir(filepath.Dir(found[0]))), "libc.so.6")
	env := []string{"LD_PRELOAD=" + found[0] + ":" + libc, "FAKETIME_CACHE_DURATION=1", "DONT_FAKE_MONOTONIC=1"}
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
	defer cancel()
	try := exec.CommandContext(ctx, "redis-server", "--version")
	try.Env = append(os.Environ(), env...)
	if said, err := try.CombinedOutput(); err != nil || strings.Contains(string(said), "libfaketime:") {
		return nil
	}
	return env
})

// setClock has the server's clock go wrong by d, at once or, as libfaketime keeps what it has read, within two seconds.
func (s *server) setClock(d time.Duration) error {
	return os.WriteFile(s.clock, []byte(fmt.Sprintf("%+d\n", int(d.Seconds()))), 0o600)
}

// showsClock waits until the server says that its clock is wrong by d, or does not answer: then it starts with that clock, or goes on.
func (s *server) showsClock(ctx context.Context, d time.Duration) {
	for {
		at, err := s.admin.Time(ctx).Result()
		if err != nil || (time.Until(at)-d).Abs() < 5*time.Second || pause.For(ctx, lookPause) != nil {
			return
		}
	}
}

func (s *server) kill() {
	s.process.Kill()
	s.down, s.stopped = true, false
}

func (s *server) stop() { s.stopped = s.process.Signal(syscall.SIGSTOP) == nil }

// heal starts a killed server again, and lets a stopped one go on.
func (s *server) heal(ctx context.Context) error {
	if s.stopped {
		s.stopped = false
		return s.process.Signal(syscall.SIGCONT)
	}
	if !s.down {
		return nil
	}
	if err := s.process.Restart(ctx); err != nil {
		return fmt.Errorf("%s: %w", s.name, err)
	}
	s.down = false
	return nil
}

// The files of a server: an AOF has a folder.
const (
	appendFolder = "appendonlydir"
	dumpFile     = "dump.rdb"
)

// saved returns where the server keeps its data.
func (s *server) saved() string {
	if s.persist == PersistNone {
		return filepath.Join(s.process.Dir(), dumpFile)
	}
	return filepath.Join(s.process.Dir(), appendFolder)
}

// copyData keeps a copy of the data as they are now.
func (s *server) copyData(ctx context.Context) (string, error) {
	copied := filepath.Join(s.process.Dir(), "copy")
	if err := os.RemoveAll(copied); err != nil {
		return "", err
	}
	if s.persist == PersistNone {
		if err := s.admin.Save(ctx).Err(); err != nil {
			return "", err
		}
		return copied, os.Rename(s.saved(), copied)
	}
	return copied, os.CopyFS(copied, os.DirFS(s.saved()))
}

// restore replaces the data of a killed server by a copy, or by nothing if that is empty.
func (s *server) restore(copied string) error {
	if err := os.RemoveAll(s.saved()); err != nil || copied == "" {
		return err
	}
	return os.Rename(copied, s.saved())
}

func (s *server) close() {
	if s.admin != nil {
		_ = s.admin.Close()
	}
	_ = s.process.Close()
	if s.clock != "" {
		_ = os.Remove(s.clock)
	}
}

// replicates returns nil if a server is a primary with a replica, or a replica that follows.
func (s *server) replicates(ctx context.Context) error {
	info, err := s.admin.InfoMap(ctx, "replication").Result()
	if err != nil {
		return fmt.Errorf("%s: %w", s.name, err)
	}
	is := info["Replication"]
	if is["role"] == "master" && is["connected_slaves"] == "0" || is["role"] == "slave" && is["master_link_status"] != "up" {
		return fmt.Errorf("%s is a %s with %s replicas, its link is %q", s.name, is["role"], is["connected_slaves"], is["master_link_status"])
	}
	return nil
}

// endsOf are servers as nodes see them.
func endsOf(servers []*server) (ends []end) {
	for _, s := range servers {
		ends = append(ends, end{s.name, s.process.Addr()})
	}
	return ends
}

// of returns the server at an address.
func of(servers []*server, addr string) (*server, error) {
	for _, s := range servers {
		if s.process.Addr() == addr {
			return s, nil
		}
	}
	return nil, fmt.Errorf("no server of ours is at %q", addr)
}

// awaitReady waits until a store that has just started is ready.
func awaitReady(ctx context.Context, s store) error {
	for {
		err := s.ready(ctx)
		if err == nil {
			return nil
		}
		if pause.For(ctx, lookPause) != nil {
			return err
		}
	}
}

// follows returns the port of the primary that a server follows, 0 if it is a primary itself, or does not say.
func (s *server) follows(ctx context.Context) int {
	info, err := s.admin.InfoMap(ctx, "replication").Result()
	if err != nil || info["Replication"]["role"] != "slave" {
		return 0
	}
	port, _ := strconv.Atoi(info["Replication"]["master_port"])
	return port
}
