package redistest

import (
	"context"
	"fmt"
	"strconv"

	"github.com/redis/go-redis/v9"
)

// Failover makes the replica the primary while both are alive, and returns when
// all sentinels say so and the old primary follows the new one.
//
// Earlier writes are kept. For some 4 s after the promotion, until the sentinels tell the old
// primary, both accept writes: those to the old one are lost, as in every such failover.
func (s *Sentinel) Failover() {
	s.tb.Helper()
	old, next := s.Primary(), s.Replica()
	waitFor(s.tb, "the replica", func(ctx context.Context) error { return s.inSync(ctx, next, old) })
	leader := s.sentinels[0]
	waitFor(s.tb, "the failover", func(ctx context.Context) error {
		if said, err := s.primary(ctx, leader); err == nil && said == old {
			// The leader may give up, and has to be asked again. While it is at work it refuses.
			_ = s.admin[leader].Do(ctx, "SENTINEL", "FAILOVER", masterName).Err()
		}
		return s.agree(ctx, next)
	})
	s.WaitReady()
}

// KillPrimary ends the primary at once (SIGKILL) and returns when the replica has taken its
// place, all sentinels say so, and it accepts writes. What the replica had not received is
// lost. After a Restart of the killed server, WaitReady returns when it follows.
func (s *Sentinel) KillPrimary() {
	s.tb.Helper()
	old := s.Primary()
	next := s.other(old)
	old.Kill()
	waitFor(s.tb, "the failover", func(ctx context.Context) error { return s.agree(ctx, next) })
}

// WaitReady returns when all sentinels know each other and agree on the primary,
// no failover is going on, and the replica is in sync.
func (s *Sentinel) WaitReady() {
	s.tb.Helper()
	waitFor(s.tb, "the sentinels", func(ctx context.Context) error {
		primary, err := s.primary(ctx, s.sentinels[0])
		if err != nil {
			return err
		}
		if err := s.agree(ctx, primary); err != nil {
			return err
		}
		for _, sentinel := range s.sentinels {
			if err := s.isCalm(ctx, sentinel); err != nil {
				return err
			}
		}
		return s.inSync(ctx, s.other(primary), primary)
	})
}

// agree returns nil if all sentinels call this server the primary and it takes
// writes.
func (s *Sentinel) agree(ctx context.Context, primary *Server) error {
	for i, sentinel := range s.sentinels {
		switch said, err := s.primary(ctx, sentinel); {
		case err != nil:
			return fmt.Errorf("sentinel %d: %w", i, err)
		case said != primary:
			return fmt.Errorf("sentinel %d: the primary is %s", i, said.Addr())
		}
	}
	// A replica refuses every command that may write, also one that does not.
	return s.admin[primary].Del(ctx, "redistest:no-such-key").Err()
}

// isCalm returns nil if a sentinel sees all others, the primary and the replica, and finds
// nothing wrong with them.
func (s *Sentinel) isCalm(ctx context.Context, sentinel *Server) error {
	admin := s.admin[sentinel]
	master := redis.NewMapStringStringCmd(ctx, "SENTINEL", "MASTER", masterName)
	replicas := redis.NewMapStringStringSliceCmd(ctx, "SENTINEL", "REPLICAS", masterName)
	if err := admin.Process(ctx, master); err != nil {
		return err
	}
	if err := admin.Process(ctx, replicas); err != nil {
		return err
	}
	m, r := master.Val(), replicas.Val()
	if m["flags"] != "master" || m["num-other-sentinels"] != strconv.Itoa(sentinels-1) {
		return fmt.Errorf("%s sees a %s and %s others", sentinel.Addr(), m["flags"], m["num-other-sentinels"])
	}
	if len(r) != 1 || r[0]["flags"] != "slave" || r[0]["master-link-status"] != "ok" {
		return fmt.Errorf("%s sees replicas %v", sentinel.Addr(), r)
	}
	return nil
}

// inSync returns nil if replica follows primary and has all that primary had when it was
// asked.
func (s *Sentinel) inSync(ctx context.Context, replica, primary *Server) error {
	there, err := s.admin[primary].InfoMap(ctx, "replication").Result()
	if err != nil {
		return err
	}
	here, err := s.admin[replica].InfoMap(ctx, "replication").Result()
	if err != nil {
		return err
	}
	from, to := there["Replication"], here["Replication"]
	want, _ := strconv.Atoi(from["master_repl_offset"])
	has, _ := strconv.Atoi(to["slave_repl_offset"])
	if to["master_port"] != strconv.Itoa(primary.port()) || to["master_link_status"] != "up" || has < want {
		return fmt.Errorf("%s follows %s, link %s, at %d of %d",
			replica.Addr(), to["master_port"], to["master_link_status"], has, want)
	}
	return nil
}
