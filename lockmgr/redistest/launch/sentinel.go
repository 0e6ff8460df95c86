package launch

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/redis/go-redis/v9"
)

// MasterName is the Sentinels' name of the primary.
const MasterName = "redistest"

const (
	sentinels = 3
	quorum    = 2
)

// Sentinel is a primary, its replica, and three Sentinels. The primary counts as down when two Sentinels have
// had no answer for a second. Its methods are safe for concurrent use.
type Sentinel struct {
	Servers   []*Redis // "redis-1", which starts as the primary, and "redis-2"
	Sentinels []*Redis
}

// StartSentinel starts all servers, and returns when they are Ready, or with an error when ctx ends.
func StartSentinel(ctx context.Context, cfg Config) (_ *Sentinel, err error) {
	s := new(Sentinel)
	defer func() {
		if err != nil {
			s.Close()
		}
	}()
	// With a file the replica gets the data at once, and then every write as it happens.
	// Without one it waits for 5 s, and gets the writes of its first second late.
	args := append([]string{"--repl-diskless-sync", "no", "--rdb-del-sync-files", "yes"}, cfg.Args...)
	for i := range 2 {
		r, err := cfg.start(ctx, "redis", i, Plain(args...))
		if err != nil {
			return nil, err
		}
		s.Servers = append(s.Servers, r)
		args = append(args, "--replicaof", "127.0.0.1", strconv.Itoa(r.Port()))
	}
	primary, replica := s.Servers[0], s.Servers[1]
	// A Sentinel asks for replicas when it starts and then only every 10 s.
	if err := Await(ctx, func(ctx context.Context) error { return inSync(ctx, replica, primary) }); err != nil {
		return nil, err
	}
	for i := range sentinels {
		r, err := cfg.start(ctx, "sentinel", i, Watch("127.0.0.1", strconv.Itoa(primary.Port()), quorum))
		if err != nil {
			return nil, err
		}
		s.Sentinels = append(s.Sentinels, r)
	}
	s.tune(ctx, "PUBLISH-PERIOD", 200, "INFO-PERIOD", 1000, "ASK-PERIOD", 200,
		// Shorter than down-after, which counts from before the first ping. A replica may take over only if it
		// answered within the last five periods.
		"PING-PERIOD", 400,
		// After a stall of its own, a Sentinel does nothing for this long (by default 30 s).
		"TILT-PERIOD", 1000)
	err = Await(ctx, s.Ready)
	// They know each other now. They tolerate an unexpected primary for four of these periods: after a failover
	// it takes more than a second until all Sentinels know the new one.
	s.tune(ctx, "PUBLISH-PERIOD", 750)
	return s, err
}

// Watch returns the Command of a Sentinel for the primary at host and port. more are further lines of its
// configuration file, where it also writes its state.
func Watch(host, port string, quorum int, more ...string) Command {
	return Command{Ready: "Sentinel ID is", Args: func(s *Server) ([]string, error) {
		path := filepath.Join(s.Dir(), "sentinel.conf")
		lines := append([]string{
			fmt.Sprintf("port %d", s.Port()), "bind 127.0.0.1", fmt.Sprintf("dir %q", s.Dir()), `logfile ""`,
			fmt.Sprintf("sentinel monitor %s %s %s %d", MasterName, host, port, quorum),
			"sentinel down-after-milliseconds " + MasterName + " 1000",
			"sentinel failover-timeout " + MasterName + " 3000",
		}, more...)
		if slices.ContainsFunc(more, func(line string) bool { return strings.HasPrefix(line, "tls-") }) {
			lines[0] = fmt.Sprintf("port 0\ntls-port %d", s.Port())
		}
		return []string{path, "--sentinel"}, os.WriteFile(path, []byte(strings.Join(lines, "\n")+"\n"), 0o600)
	}}
}

// tune sets times (in ms) that the Sentinels' configuration has no option for. Before Redis 7 this is
// impossible, and everything takes longer.
func (s *Sentinel) tune(ctx context.Context, times ...any) {
	for _, r := range s.Sentinels {
		_ = r.Admin.Do(ctx, append([]any{"SENTINEL", "DEBUG"}, times...)...).Err()
	}
}

// Addrs returns host:port of every Sentinel.
func (s *Sentinel) Addrs() []string { return addrs(s.Sentinels) }

// Close ends all servers.
func (s *Sentinel) Close() { closeAll(slices.Concat(s.Sentinels, s.Servers)) }

// Primary returns the server that all Sentinels call the primary. It fails while they disagree, as during a
// failover.
func (s *Sentinel) Primary(ctx context.Context) (primary *Redis, err error) {
	for _, r := range s.Sentinels {
		addr, err := r.Admin.Do(ctx, "SENTINEL", "GET-MASTER-ADDR-BY-NAME", MasterName).StringSlice()
		if err == nil && len(addr) != 2 {
			err = errors.New("no primary")
		}
		if err != nil {
			return nil, fmt.Errorf("%s: %w", r.Name, err)
		}
		said, err := at(s.Servers, net.JoinHostPort(addr[0], addr[1]))
		if err != nil {
			return nil, fmt.Errorf("%s: %w", r.Name, err)
		}
		if primary != nil && said != primary {
			return nil, fmt.Errorf("the Sentinels name %s and %s", primary.Name, said.Name)
		}
		primary = said
	}
	return primary, nil
}

// Other returns the other one of the two servers.
func (s *Sentinel) Other(r *Redis) *Redis {
	if r == s.Servers[0] {
		return s.Servers[1]
	}
	return s.Servers[0]
}

// Failover asks a Sentinel to let the replica take over from a primary that is well. If it fails, you may call it
// again.
func (s *Sentinel) Failover(ctx context.Context) error {
	return s.Sentinels[0].Admin.Do(ctx, "SENTINEL", "FAILOVER", MasterName).Err()
}

// Leads returns nil if all Sentinels call r the primary, and r accepts writes.
func (s *Sentinel) Leads(ctx context.Context, r *Redis) error {
	switch primary, err := s.Primary(ctx); {
	case err != nil:
		return err
	case primary != r:
		return fmt.Errorf("the primary is %s", primary.Name)
	}
	// A replica refuses every command that may write, even if it changes nothing.
	return r.Admin.Del(ctx, "launch:no-such-key").Err()
}

// Ready returns nil if all Sentinels know each other and agree on the primary, the primary accepts writes, no
// failover is under way, and the replica is in sync.
func (s *Sentinel) Ready(ctx context.Context) error {
	primary, err := s.Primary(ctx)
	if err == nil {
		err = s.Leads(ctx, primary)
	}
	if err != nil {
		return err
	}
	for _, r := range s.Sentinels {
		if err := isCalm(ctx, r); err != nil {
			return err
		}
	}
	return inSync(ctx, s.Other(primary), primary)
}

// isCalm returns nil if a Sentinel sees all others, the primary and the replica, and all of them are well.
func isCalm(ctx context.Context, sentinel *Redis) error {
	master := redis.NewMapStringStringCmd(ctx, "SENTINEL", "MASTER", MasterName)
	replicas := redis.NewMapStringStringSliceCmd(ctx, "SENTINEL", "REPLICAS", MasterName)
	if err := errors.Join(sentinel.Admin.Process(ctx, master), sentinel.Admin.Process(ctx, replicas)); err != nil {
		return err
	}
	m, r := master.Val(), replicas.Val()
	if m["flags"] != "master" || m["num-other-sentinels"] != strconv.Itoa(sentinels-1) {
		return fmt.Errorf("%s sees a %s and %s others", sentinel.Name, m["flags"], m["num-other-sentinels"])
	}
	if len(r) != 1 || r[0]["flags"] != "slave" || r[0]["master-link-status"] != "ok" {
		return fmt.Errorf("%s sees replicas %v", sentinel.Name, r)
	}
	return nil
}

// InSync returns nil if the replica follows the primary and has all of its data up to this call.
func (s *Sentinel) InSync(ctx context.Context, primary *Redis) error {
	return inSync(ctx, s.Other(primary), primary)
}

func inSync(ctx context.Context, replica, primary *Redis) error {
	there, err := primary.Replication(ctx)
	if err != nil {
		return err
	}
	here, err := replica.Replication(ctx)
	if err != nil {
		return err
	}
	want, _ := strconv.Atoi(there["master_repl_offset"])
	has, _ := strconv.Atoi(here["slave_repl_offset"])
	if here["master_port"] != strconv.Itoa(primary.Port()) || here["master_link_status"] != "up" || has < want {
		return fmt.Errorf("%s follows %s, link %q, at %d of %d", replica.Name, here["master_port"],
			here["master_link_status"], has, want)
	}
	return nil
}
