package redistest

import (
	"testing"

	"github.com/redis/go-redis/v9"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) {
	MostlyWaiting()
	goleak.VerifyTestMain(m,
		// A client retries its dead server every second, so it notices up to a second late that it was closed.
		goleak.IgnoreAnyFunction("github.com/redis/go-redis/v9/internal/pool.(*ConnPool).tryDial"))
}

// writes fails the test unless client reaches the primary, and all its earlier writes are still there.
func writes(t *testing.T, s *Sentinel, client *redis.Client, want int64) {
	t.Helper()
	// The client learns of a new primary a little later than the test, and may try the old one until then.
	var n int64
	for tries := 0; ; tries++ {
		var err error
		if n, err = client.Incr(t.Context(), "n").Result(); err == nil {
			break
		}
		FatalIf(t, tries == 100, "%v", err)
	}
	FatalIf(t, n != want, "n is %d, want %d", n, want)
	got, err := s.Primary().Client().Get(t.Context(), "n").Int64()
	FatalIf(t, got != want || err != nil, "the primary has n = %d, %v", got, err)
}

func TestSentinelFailover(t *testing.T) {
	Thorough(t) // lockmgr's tests always have one
	t.Parallel()
	s := StartSentinel(t)
	client := s.Client()
	writes(t, s, client, 1)

	primary, replica := s.Primary(), s.Replica()
	s.Failover()
	FatalIf(t, s.Primary() != replica || s.Replica() != primary, "the two did not change their roles")
	writes(t, s, client, 2)

	s.Failover()
	FatalIf(t, s.Primary() != primary, "the two did not change back")
	writes(t, s, client, 3)
}

func TestSentinelKillPrimary(t *testing.T) {
	Thorough(t)
	t.Parallel()
	s := StartSentinel(t)
	client := s.Client()
	writes(t, s, client, 1)
	// A kill loses writes that the replica does not have yet. WAIT is about the writes of its own connection,
	// so write once more there.
	conn := client.Conn()
	defer conn.Close()
	OK(t, conn.Incr(t.Context(), "n").Err())
	got := conn.Wait(t.Context(), 1, stateTimeout).Val()
	FatalIf(t, got != 1, "%d replicas have the write", got)

	old, replica := s.Primary(), s.Replica()
	s.KillPrimary()
	FatalIf(t, s.Primary() != replica, "the replica did not take over")
	writes(t, s, client, 3)

	old.Restart()
	s.WaitReady()
	if got, err := old.Client().Get(t.Context(), "n").Int(); got != 3 || err != nil {
		t.Fatalf("the old primary has n = %d, %v", got, err)
	}
}
