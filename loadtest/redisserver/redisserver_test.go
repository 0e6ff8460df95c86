package redisserver

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"roomd/lockmgr/redisconn/redisurl"
	"roomd/lockmgr/redistest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func mustOpen(t *testing.T, url string) *Redis {
	t.Helper()
	r, err := Open(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(r.Close)
	return r
}

// count returns how many keys a client of its own sees.
func count(t *testing.T, r *Redis) int64 {
	t.Helper()
	c := r.NewClient(2)
	defer c.Close()
	n, err := c.DBSize(t.Context()).Result()
	if err != nil {
		t.Fatal(err)
	}
	return n
}

func fill(t *testing.T, r *Redis) {
	t.Helper()
	c := r.NewClient(2)
	defer c.Close()
	if err := c.Set(t.Context(), "k", "v", 0).Err(); err != nil {
		t.Fatal(err)
	}
}

func TestOneThatRunsAlready(t *testing.T) {
	server := redistest.Start(t)
	r := mustOpen(t, server.URL())
	fill(t, r)
	if r.Own() || r.URL() != server.URL() || !strings.Contains(r.String(), server.Addr()+", version ") {
		t.Errorf("%q at %s, our own: %t", r, r.URL(), r.Own())
	}
	r.Close()
	if n := server.Client().DBSize(t.Context()).Val(); n != 1 {
		t.Errorf("it holds %d keys after Close", n)
	}
}

func TestEmbedded(t *testing.T) {
	r := mustOpen(t, redisurl.Embedded)
	fill(t, r)
	if n := count(t, r); n != 1 {
		t.Errorf("another client sees %d keys", n)
	}
	if !r.Own() || !r.DB().IsEmbedded() || !strings.Contains(r.String(), "embedded") {
		t.Errorf("%q, our own: %t", r, r.Own())
	}
}

func TestStartedForTheRun(t *testing.T) {
	redistest.Start(t) // skips or fails where there is none to start
	r, err := Open(t.Context(), "")
	if err != nil {
		t.Fatal(err)
	}
	if !r.Own() || r.DB().IsEmbedded() || !strings.Contains(r.String(), "started for this run") || count(t, r) != 0 {
		t.Errorf("%q, our own: %t", r, r.Own())
	}
	dir := r.process.Dir()
	r.Close()
	if _, err := os.Stat(dir); !os.IsNotExist(err) {
		t.Errorf("its folder is left: %v", err)
	}
	if again, err := Open(t.Context(), r.URL()); err == nil {
		again.Close()
		t.Error("it still answers after Close")
	}
}

func TestNoServerInstalled(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	if r := mustOpen(t, ""); !r.DB().IsEmbedded() || !r.Own() {
		t.Errorf("it opened %q", r)
	}
}

func TestWhatCannotBeOpened(t *testing.T) {
	for _, url := range []string{"nonsense", "redis://127.0.0.1:1"} {
		if r, err := Open(t.Context(), url); err == nil {
			r.Close()
			t.Errorf("%s: no error", url)
		}
	}
}

// A redis-server that is installed but does not start is an error, with what it said;
// it is not replaced by the embedded one.
func TestAServerThatDoesNotStart(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "redis-server"), []byte("#!/bin/sh\necho out of order\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", dir)
	r, err := Open(t.Context(), "")
	if err == nil {
		r.Close()
	}
	if err == nil || !strings.Contains(err.Error(), "out of order") {
		t.Errorf("%v", err)
	}
}
