package coordinator

import (
	"context"
	"fmt"

	"github.com/redis/go-redis/v9"

	"roomd/lockmgr"
	"roomd/lockmgr/redisconn"
)

// sendAcked sends a commit and waits until enough replicas have it. errUnacked leaves
// the outcome open: the commit is written, but a failover might still lose it. Sending
// it again writes again that it was written, so that its WAIT counts, too.
func (s *store) sendAcked(ctx context.Context, slot *lockmgr.Slot, c *commit) (*redis.Cmd, error) {
	conn, err := s.connFor(ctx, c.keys.meta)
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	cmd, unacked := s.acked(ctx, conn, commitScript, slot.Command(commitScript, c.args...))
	reply, err := cmd.Slice()
	switch {
	case redis.HasErrorPrefix(err, "WRONGTYPE"):
		return cmd, nil // nothing was written, and send says what is there
	case err != nil:
		return nil, err
	case len(reply) > 0 && reply[0] != "done":
		return cmd, nil // nothing was written
	}
	return cmd, unacked
}

// acksNodes reports whether leases and records of rooms wait for replicas, too. On Cluster
// they may be on another master than the commit, whose WAIT says nothing of that; on any
// other Redis, replicas that have the commit have all that was written before.
func (s *store) acksNodes() bool { return s.cluster && s.acks > 0 }

// runAcked runs a script that answers with a number on the master of its keys, and fails
// unless enough replicas have what it wrote. Like redisconn.Run it waits while a slot moves.
func (s *store) runAcked(ctx context.Context, script *redis.Script, keys []string, args ...any) (n int, err error) {
	write := []any{"evalsha", script.Hash(), len(keys)}
	for _, key := range keys {
		write = append(write, key)
	}
	write = append(write, args...)
	err = redisconn.UntilMoved(ctx, func() error {
		conn, err := s.connFor(ctx, keys[0])
		if err != nil {
			return err
		}
		defer conn.Close()
		cmd, unacked := s.acked(ctx, conn, script, write)
		if n, err = cmd.Int(); err != nil {
			return err
		}
		return unacked
	})
	return n, err
}

// acked sends a script, and says whether enough replicas have what it wrote. WAIT answers
// for the writes of its own connection, so both go on one, which no other request shares
// meanwhile.
func (s *store) acked(ctx context.Context, conn *redis.Conn, script *redis.Script, write []any) (cmd *redis.Cmd, unacked error) {
	var acks *redis.Cmd
	for known := true; ; known = false {
		pipe := conn.Pipeline()
		cmd = pipe.Do(ctx, write...)
		acks = pipe.Do(ctx, "WAIT", s.acks, s.wait.Milliseconds())
		_, _ = pipe.Exec(ctx)
		if !known || !redis.HasErrorPrefix(cmd.Err(), "NOSCRIPT") || script.Load(ctx, conn).Err() != nil {
			break
		}
	}
	redisconn.SeekMaster(ctx, s.client, cmd.Err())
	switch n, err := acks.Int(); {
	case err != nil:
		unacked = fmt.Errorf("%w: %w", errUnacked, err)
	case n < s.acks:
		unacked = fmt.Errorf("%w: %d of %d", errUnacked, n, s.acks)
	}
	return cmd, unacked
}

// connFor returns a connection to the server that has the key.
func (s *store) connFor(ctx context.Context, key string) (*redis.Conn, error) {
	switch client := s.client.(type) {
	case *redis.ClusterClient:
		master, err := client.MasterForKey(ctx, key)
		if err != nil {
			return nil, err
		}
		return master.Conn(), nil
	case *redis.Client:
		return client.Conn(), nil
	}
	return nil, fmt.Errorf("waiting for replicas needs a *redis.Client or *redis.ClusterClient, not %T", s.client)
}
