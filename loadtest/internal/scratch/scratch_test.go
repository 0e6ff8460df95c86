package scratch

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

// It is named, a second client sees what a first one has written, and only what Open started ends with Close.
func TestOpen(t *testing.T) {
	runs := redistest.Start(t)
	t.Run("none installed", func(t *testing.T) {
		t.Setenv("PATH", t.TempDir())
		r, err := Open(t.Context(), "")
		redistest.OK(t, err)
		defer r.Close()
		if !r.IsEmbedded() {
			t.Errorf("it opened %q", r)
		}
	})
	for _, test := range []struct{ url, called string }{
		{runs.URL(), runs.Addr() + ", "}, {redisurl.Embedded, "embedded"}, {"", ", started for this run"},
	} {
		r, err := Open(t.Context(), test.url)
		redistest.OK(t, err)
		one, other := r.NewClient(2), r.NewClient(2)
		redistest.OK(t, one.Set(t.Context(), "k", "v", 0).Err())
		if got := other.Get(t.Context(), "k").Val(); got != "v" || !strings.Contains(r.String(), test.called) {
			t.Errorf("%q: it has %q", r, got)
		}
		_, _ = one.Close(), other.Close()
		r.Close()
		if again, err := Open(t.Context(), r.URL); err == nil {
			again.Close()
			if test.url == "" {
				t.Error("it still answers after Close")
			}
		}
		if r.server != nil {
			if _, err := os.Stat(r.server.Dir()); !os.IsNotExist(err) {
				t.Errorf("its folder is still there: %v", err)
			}
		}
	}
	if n := runs.Client().DBSize(t.Context()).Val(); n != 1 {
		t.Errorf("who was there before holds %d keys after Close", n)
	}
}

// Only what belongs to one run is removed, also after the run was stopped.
func TestRemove(t *testing.T) {
	r, err := Open(t.Context(), redisurl.Embedded)
	redistest.OK(t, err)
	defer r.Close()
	c := r.NewClient(1)
	defer c.Close()
	for _, key := range []string{"Room:run-1-7:Users", "LockRoom:run-1-7", "Room:run-2-7:Users", "Lobby:State"} {
		redistest.OK(t, c.Set(t.Context(), key, "v", 0).Err())
	}
	redistest.OK(t, c.ZAdd(t.Context(), "Nodes", redis.Z{Member: "run-1-node"}, redis.Z{Member: "run-2-node"}).Err())
	redistest.OK(t, c.HSet(t.Context(), "Lobby:Rooms", "run-1-7", "v").Err())
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	redistest.OK(t, r.Remove(ended, "run-1-"))
	keys, nodes := c.Keys(t.Context(), "*").Val(), c.ZRange(t.Context(), "Nodes", 0, -1).Val()
	slices.Sort(keys)
	if !slices.Equal(keys, []string{"Nodes", "Room:run-2-7:Users"}) || !slices.Equal(nodes, []string{"run-2-node"}) {
		t.Errorf("the keys are %q, the nodes %q", keys, nodes)
	}
}

// Where an installed redis-server does not start, Open fails with its output, and does not fall back to the embedded one.
func TestOpen_Fails(t *testing.T) {
	dir := t.TempDir()
	redistest.OK(t, os.WriteFile(filepath.Join(dir, "redis-server"), []byte("#!/bin/sh\necho out of order\n"), 0o700))
	t.Setenv("PATH", dir)
	for url, why := range map[string]string{
		"": "out of order", "nonsense": "redis", "redis://127.0.0.1:1": "does not answer", "redis+cluster://127.0.0.1:1": "must be a single Redis",
	} {
		r, err := Open(t.Context(), url)
		if err == nil {
			r.Close()
		}
		if err == nil || !strings.Contains(err.Error(), why) {
			t.Errorf("%s: %v", url, err)
		}
	}
}
