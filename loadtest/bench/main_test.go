package bench

import (
	"context"
	"errors"
	"io"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"

	"roomd/loadtest/internal/scratch"
	"roomd/lockmgr/redistest"
)

func TestMain(m *testing.M) {
	servers[dropping] = openDropper
	Main()
	redistest.MostlyWaiting()
	goleak.VerifyTestMain(m)
}

const short = 100 * time.Millisecond

// testBench returns a run without output.
func testBench(t *testing.T, url string) *bench {
	t.Helper()
	server, err := scratch.Open(t.Context(), url)
	redistest.OK(t, err)
	b := newBench(server, Config{Duration: short, Out: io.Discard, Log: io.Discard})
	t.Cleanup(func() {
		b.close()
		server.Close()
	})
	return b
}

// emptied checks that a run has removed its keys.
func (b *bench) emptied(t *testing.T) {
	t.Helper()
	if n := b.rdb.DBSize(t.Context()).Val(); n != 0 {
		t.Errorf("%d keys are left", n)
	}
}

// of returns the contenders that compete in a workload.
func of(w workload) (list []contender) {
	return slices.DeleteFunc(slices.Clone(contenders), func(c contender) bool { return !c.competes(w.kind) })
}

// mustCell measures, and fails the test if the contender cannot be measured.
func mustCell(t *testing.T, b *bench, w workload, c contender) *Result {
	t.Helper()
	r, err := b.cell(t.Context(), 0, cell{load: w, who: c})
	redistest.OK(t, err)
	if r.Failure != "" {
		t.Fatalf("%s in %s: %s", c.name, w.name, r.Failure)
	}
	return r
}

// openInverse does the opposite of what it says.
func openInverse(ctx context.Context, t target) (node, error) {
	n, err := openSadd(ctx, t)
	n.join, n.leave = n.leave, n.join
	return n, err
}

var errRefused = errors.New("refused")

// openMoody refuses each second join.
func openMoody(ctx context.Context, t target) (node, error) {
	n, err := openSadd(ctx, t)
	var joins atomic.Int64
	join := n.join
	n.join = func(ctx context.Context, room, user string) error {
		if joins.Add(1)%2 == 0 {
			return errRefused
		}
		return join(ctx, room, user)
	}
	return n, err
}

const dropping = "dropping" // a server that has one client less than connected

// dropper is an echo server, which says so.
type dropper struct{ server }

func openDropper(ctx context.Context, cfg serverConfig) (server, error) {
	s, err := openEcho(ctx, cfg)
	return dropper{s}, err
}

func (d dropper) Connections() int { return d.server.Connections() - 1 }
