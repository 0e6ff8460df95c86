package redistest

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"roomd/lockmgr/redistest/launch"
)

// Sentinel is a launch.Sentinel that ends with its test. Its methods are for the test's goroutine.
type Sentinel struct {
	*launch.Sentinel
	tb        testing.TB
	servers   []*Server // in the order of launch.Sentinel
	sentinels []*Server
}

// StartSentinel starts all servers, and returns when the replica is in sync and every sentinel knows all
// others. args go to the primary and the replica. If no redis-server is installed, StartSentinel skips the test
// or fails it, as Start does.
//
// The primary counts as down when it has not answered for a second.
func StartSentinel(tb testing.TB, args ...string) *Sentinel {
	tb.Helper()
	Need(tb, "redis-server")
	ctx, cancel := context.WithTimeout(context.Background(), stateTimeout)
	defer cancel()
	started, err := launch.StartSentinel(ctx, launch.Config{Args: args})
	OK(tb, err)
	tb.Cleanup(started.Close)
	s := &Sentinel{tb: tb, Sentinel: started}
	for _, r := range started.Servers {
		s.servers = append(s.servers, &Server{tb, r})
	}
	for _, r := range started.Sentinels {
		s.sentinels = append(s.sentinels, &Server{tb, r})
	}
	return s
}

// Client returns a new client that asks the sentinels for the primary, closed with the test.
func (s *Sentinel) Client() *redis.Client {
	c := redis.NewFailoverClient(&redis.FailoverOptions{
		MasterName:            launch.MasterName,
		SentinelAddrs:         s.Addrs(),
		ContextTimeoutEnabled: true,
		DialTimeout:           time.Second,
		DialerRetries:         1,
	})
	s.tb.Cleanup(func() { _ = c.Close() })
	return c
}

// MasterName returns the sentinels' name of the primary.
func (s *Sentinel) MasterName() string { return launch.MasterName }

// Sentinels returns the three sentinels. A restarted sentinel has Redis' default periods, so a failover that it
// leads takes longer.
func (s *Sentinel) Sentinels() []*Server { return s.sentinels }

// Primary returns the server that all sentinels call the primary, once they agree.
func (s *Sentinel) Primary() *Server {
	s.tb.Helper()
	var i int
	waitFor(s.tb, "a primary", func(ctx context.Context) error {
		r, err := s.Sentinel.Primary(ctx)
		i = slices.Index(s.Servers, r)
		return err
	})
	return s.servers[i]
}

// Replica returns the server that is not the primary now. It need not be running.
func (s *Sentinel) Replica() *Server {
	s.tb.Helper()
	return s.servers[1-slices.Index(s.servers, s.Primary())]
}

// Failover makes the replica the primary while both are alive. It returns when all sentinels report that, and
// the old primary follows the new one.
//
// Earlier writes are kept. For some 4 s after the promotion, until the sentinels tell the old primary, both
// accept writes. Writes to the old one are lost, as in every such failover.
func (s *Sentinel) Failover() {
	s.tb.Helper()
	old := s.Primary().Redis
	next := s.Other(old)
	waitFor(s.tb, "the replica", func(ctx context.Context) error { return s.InSync(ctx, old) })
	waitFor(s.tb, "the failover", func(ctx context.Context) error {
		if s.Leads(ctx, old) == nil {
			// The leader may give up, and has to be asked again. During the failover it refuses.
			_ = s.Sentinel.Failover(ctx)
		}
		return s.Leads(ctx, next)
	})
	s.WaitReady()
}

// KillPrimary kills the primary (SIGKILL). It returns when the replica accepts writes and all sentinels call it the
// primary. Writes that the replica did not have are lost. After a Restart of the killed server, WaitReady returns
// when that server follows.
func (s *Sentinel) KillPrimary() {
	s.tb.Helper()
	old := s.Primary().Redis
	old.Kill()
	waitFor(s.tb, fmt.Sprintf("the failover from %s", old.Name), func(ctx context.Context) error {
		return s.Leads(ctx, s.Other(old))
	})
}

// WaitReady returns when all sentinels know each other and agree on the primary, no failover is under way, and
// the replica is in sync.
func (s *Sentinel) WaitReady() {
	s.tb.Helper()
	waitFor(s.tb, "the sentinels", s.Ready)
}
