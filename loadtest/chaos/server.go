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
	"time"

	"roomd/lockmgr/redisconn/pause"
	"roomd/lockmgr/redistest/launch"
)

// server is a redis-server process.
type server struct {
	*launch.Redis
	process
	persist string
	clock   string // the file by which its clock is set; empty: it is the machine's
}

// startServer starts a redis-server of its own, whose clock can be set if that is a fault of the run.
func startServer(ctx context.Context, cfg Config, log io.Writer) (*server, error) {
	s := &server{persist: cfg.Persist}
	plain := launch.Plain(persistArgs(cfg.Persist)...)
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
	r, err := launch.StartRedis(ctx, "redis", plain)
	if err != nil {
		return nil, err
	}
	s.Redis, s.process = r, process{server: r.Server, name: r.Name}
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
		at, err := s.Admin.Time(ctx).Result()
		if err != nil || (time.Until(at)-d).Abs() < 5*time.Second || pause.For(ctx, lookPause) != nil {
			return
		}
	}
}

// The files of a server: an AOF has a folder.
const (
	appendFolder = "appendonlydir"
	dumpFile     = "dump.rdb"
)

// saved returns where the server keeps its data.
func (s *server) saved() string {
	if s.persist == PersistNone {
		return filepath.Join(s.Dir(), dumpFile)
	}
	return filepath.Join(s.Dir(), appendFolder)
}

// copyData keeps a copy of the data as they are now.
func (s *server) copyData(ctx context.Context) (string, error) {
	copied := filepath.Join(s.Dir(), "copy")
	if err := os.RemoveAll(copied); err != nil {
		return "", err
	}
	if s.persist == PersistNone {
		if err := s.Admin.Save(ctx).Err(); err != nil {
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

// follows returns the port of the primary that a server follows, 0 if it is a primary itself, or does not say.
func (s *server) follows(ctx context.Context) int {
	is, err := s.Replication(ctx)
	if err != nil || is["role"] != "slave" {
		return 0
	}
	port, _ := strconv.Atoi(is["master_port"])
	return port
}
