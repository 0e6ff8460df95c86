package redisserver

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"
	"go.uber.org/goleak"

	"roomd/lockmgr/redisconn/redisurl"
	"roomd/lockmgr/redistest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func mustOpen(t *testing.T, url string) *Redis {
	t.Helper()
	r, err := Open(t.Context(), url)
	redistest.OK(t, err)
	t.Cleanup(r.Close)
	return r
}

// count returns how many keys a client of its own sees.
func count(t *testing.T, r *Redis) int64 {
	t.Helper()
	c := r.NewClient(2)
	defer c.Close()
	n, err := c.DBSize(t.Context()).Result()
	redistest.OK(t, err)
	return n
}

func fill(t *testing.T, r *Redis) {
	t.Helper()
	c := r.NewClient(2)
	defer c.Close()
	redistest.OK(t, c.Set(t.Context(), "k", "v", 0).Err())
}

func TestOpen_RunsAlready(t *testing.T) {
	server := redistest.Start(t)
	r := mustOpen(t, server.URL())
	fill(t, r)
	if !strings.Contains(r.String(), server.Addr()+", version ") || strings.Contains(r.String(), "started for this run") {
		t.Errorf("it is called %q", r)
	}
	r.Close()
	if n := server.Client().DBSize(t.Context()).Val(); n != 1 {
		t.Errorf("it holds %d keys after Close", n)
	}
}

func TestOpen_Embedded(t *testing.T) {
	r := mustOpen(t, redisurl.Embedded)
	fill(t, r)
	if n := count(t, r); n != 1 {
		t.Errorf("another client sees %d keys", n)
	}
	if !r.DB().IsEmbedded() || !strings.Contains(r.String(), "embedded") {
		t.Errorf("it is called %q", r)
	}
}

func TestOpen_StartedForTheRun(t *testing.T) {
	redistest.Start(t) // skips or fails where there is none to start
	r, err := Open(t.Context(), "")
	redistest.OK(t, err)
	if r.DB().IsEmbedded() || !strings.Contains(r.String(), "started for this run") || count(t, r) != 0 {
		t.Errorf("it is called %q", r)
	}
	dir := r.process.Dir()
	r.Close()
	if _, err := os.Stat(dir); !os.IsNotExist(err) {
		t.Errorf("its folder is still there: %v", err)
	}
	if again, err := Open(t.Context(), r.url); err == nil {
		again.Close()
		t.Error("it still answers after Close")
	}
}

// Only what belongs to one run is removed, also after the run was stopped.
func TestRemove(t *testing.T) {
	r := mustOpen(t, redisurl.Embedded)
	c := r.NewClient(1)
	defer c.Close()
	for _, key := range []string{"Room:run-1-7:Users", "LockRoom:run-1-7", "Room:run-2-7:Users"} {
		redistest.OK(t, c.Set(t.Context(), key, "v", 0).Err())
	}
	redistest.OK(t, c.ZAdd(t.Context(), "Nodes", redis.Z{Member: "run-1-node"}, redis.Z{Member: "run-2-node"}).Err())
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	redistest.OK(t, r.Remove(ended, "run-1-"))
	keys, nodes := c.Keys(t.Context(), "*").Val(), c.ZRange(t.Context(), "Nodes", 0, -1).Val()
	slices.Sort(keys)
	if !slices.Equal(keys, []string{"Nodes", "Room:run-2-7:Users"}) || !slices.Equal(nodes, []string{"run-2-node"}) {
		t.Errorf("the keys are %q, the nodes %q", keys, nodes)
	}
}

func TestOpen_NoServerInstalled(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	if r := mustOpen(t, ""); !r.DB().IsEmbedded() {
		t.Errorf("it opened %q", r)
	}
}

func TestOpen_CannotBeOpened(t *testing.T) {
	for _, url := range []string{"nonsense", "redis://127.0.0.1:1", "redis+cluster://127.0.0.1:1"} {
		if r, err := Open(t.Context(), url); err == nil {
			r.Close()
			t.Errorf("%s: no error", url)
		}
	}
}

// Where an installed redis-server does not start, Open fails with its output, and does
// not fall back to the embedded one.
func TestOpen_ServerDoesNotStart(t *testing.T) {
	dir := t.TempDir()
	redistest.OK(t, os.WriteFile(filepath.Join(dir, "redis-server"), []byte("#!/bin/sh\necho out of order\n"), 0o700))
	t.Setenv("PATH", dir)
	r, err := Open(t.Context(), "")
	if err == nil {
		r.Close()
	}
	if err == nil || !strings.Contains(err.Error(), "out of order") {
		t.Errorf("%v", err)
	}
}
