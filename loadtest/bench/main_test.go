package bench

import (
	"context"
	"errors"
	"io"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"

	"roomd/loadtest/bench/worker"
	"roomd/loadtest/redisserver"
	"roomd/lockmgr/redisconn/redisurl"
	"roomd/lockmgr/redistest"
)

func TestMain(m *testing.M) {
	worker.Main(brokenKinds...)
	redistest.MostlyWaiting()
	goleak.VerifyTestMain(m)
}

const short = 100 * time.Millisecond

// servers are the kinds of Redis that tests run on.
var servers = map[string]func(*testing.T) string{
	"embedded": func(*testing.T) string { return redisurl.Embedded },
	"real":     func(t *testing.T) string { return redistest.Start(t).URL() },
}

// newBench returns a run without output.
func newBench(t *testing.T, url string) *bench {
	t.Helper()
	server, err := redisserver.Open(t.Context(), url)
	redistest.OK(t, err)
	b := &bench{
		redis: server, rdb: server.NewClient(1), meter: newMeter(server), prefix: "bench-test-",
		duration: short, out: io.Discard, log: io.Discard,
	}
	t.Cleanup(func() {
		b.meter.close()
		_ = b.rdb.Close()
		server.Close()
	})
	return b
}

// mustCell measures, and fails the test if the contender cannot be measured.
func mustCell(t *testing.T, b *bench, w workload, c contender) *Result {
	t.Helper()
	r, err := b.cell(t.Context(), w, c)
	redistest.OK(t, err)
	if r.Failure != "" {
		t.Fatalf("%s in %s: %s", c.name, w.name, r.Failure)
	}
	return r
}

// unlocked is the article's loop without the lock.
type unlocked struct{ *article }

func openUnlocked(_ context.Context, t target) (node, error) {
	return &unlocked{&article{t.client()}}, nil
}

func (u *unlocked) join(ctx context.Context, room, user string) error {
	users, err := articleMembers(ctx, u.rdb, room)
	if err != nil {
		return err
	}
	return u.fill(ctx, room, append(users, user))
}

func (u *unlocked) leave(ctx context.Context, room, user string) error {
	users, err := articleMembers(ctx, u.rdb, room)
	if err != nil {
		return err
	}
	var others []string
	for _, other := range users {
		if other != user {
			others = append(others, other)
		}
	}
	return u.fill(ctx, room, others)
}

var errRefused = errors.New("refused")

// moody refuses each second join.
type moody struct {
	*sadd
	joins *atomic.Int64
}

func openMoody(_ context.Context, t target) (node, error) {
	return &moody{&sadd{t.client()}, new(atomic.Int64)}, nil
}

func (m *moody) join(ctx context.Context, room, user string) error {
	if m.joins.Add(1)%2 == 0 {
		return errRefused
	}
	return m.sadd.join(ctx, room, user)
}
