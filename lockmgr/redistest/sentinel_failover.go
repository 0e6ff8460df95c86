package redistest

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	"github.com/redis/go-redis/v9"
)

// Failover makes the replica the primary while both are alive, and returns when
// all sentinels say so and the old primary follows the new one.
//
// What was written before is kept. For some 4 s after the promotion, until the
// sentinels tell the old primary, both take writes: those that the old one gets
// then are lost, as in every such failover.
func (s *Sentinel) Failover() {
	s.tb.Helper()
	old, next := s.Primary(), s.Replica()
	waitFor(s.tb, "the replica", func(ctx context.Context) error { return s.inSync(ctx, next, old) })
	leader := s.sentinels[0]
	waitFor(s.tb, "the failover", func(ctx context.Context) error {
		if said, err := s.primary(ctx, leader); err == nil && said == old {
			// It may give up and be asked again. While it is at work it refuses.
			_ = s.admin[leader].Do(ctx, "SENTINEL", "FAILOVER", masterName).Err()
		}
		return s.agree(ctx, next)
	})
	s.WaitReady()
}

// KillPrimary ends the primary at once (SIGKILL) and returns when the replica has
// taken its place, all sentinels say so, and it accepts writes. What the replica
// had not got is lost. The killed server may be started again with Restart, and
// follows when WaitReady returns.
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
			if err := s.settled(ctx, sentinel); err != nil {
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

// settled returns nil if a sentinel sees all others, the primary and the replica,
// and thinks well of both.
func (s *Sentinel) settled(ctx context.Context, sentinel *Server) error {
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

// inSync returns nil if replica follows primary and has all that it had when we
// asked.
func (s *Sentinel) inSync(ctx context.Context, replica, primary *Server) error {
	there, err := s.replication(ctx, primary)
	if err != nil {
		return err
	}
	here, err := s.replication(ctx, replica)
	if err != nil {
		return err
	}
	want, _ := strconv.Atoi(there["master_repl_offset"])
	has, _ := strconv.Atoi(here["slave_repl_offset"])
	if here["master_port"] != strconv.Itoa(primary.port()) || here["master_link_status"] != "up" || has < want {
		return fmt.Errorf("%s follows %s, link %s, at %d of %d",
			replica.Addr(), here["master_port"], here["master_link_status"], has, want)
	}
	return nil
}

// replication returns that section of INFO.
func (s *Sentinel) replication(ctx context.Context, server *Server) (map[string]string, error) {
	info, err := s.admin[server].Info(ctx, "replication").Result()
	if err != nil {
		return nil, err
	}
	fields := make(map[string]string)
	for line := range strings.Lines(info) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), ":")
		fields[name] = value
	}
	return fields, nil
}
