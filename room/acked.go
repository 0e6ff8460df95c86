package room

import (
	"context"
	"fmt"

	"github.com/redis/go-redis/v9"

	"roomd/lockmgr"
)

// sendAcked sends a commit and waits until enough replicas have it. errUnacked leaves
// the outcome open: the commit is written, but a failover might still lose it. Sending
// it again writes again that it was written, so that its WAIT counts, too.
func (s *store) sendAcked(ctx context.Context, t *lockmgr.Ticket, c *commit) (*redis.Cmd, error) {
	conn, err := s.connFor(ctx, c.keys.meta)
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	// The reply of a script that Redis does not know says that nothing was written.
	for _, name := range []string{"evalsha", "eval"} {
		cmd, unacked := s.acked(ctx, conn, t.Command(name, commitScript, commitLuaWhole, c.args...))
		if redis.HasErrorPrefix(cmd.Err(), "NOSCRIPT") {
			continue
		}
		if redis.HasErrorPrefix(cmd.Err(), "WRONGTYPE") {
			return cmd, nil // nothing was written, and send says what is there
		}
		if cmd.Err() != nil {
			return nil, cmd.Err()
		}
		if reply, _ := cmd.Slice(); len(reply) > 0 && reply[0] != "done" {
			return cmd, nil // nothing was written
		}
		return cmd, unacked
	}
	return nil, err
}

// acksNodes reports whether replicas have to have what a node writes of itself. On
// Cluster a commit's WAIT says nothing of the master that has the node's lease and
// rooms; on any other Redis replicas that have the commit have what was written before.
func (s *store) acksNodes() bool { return s.cluster && s.acks > 0 }

// runAcked runs a script that answers with a number on the master of its keys, and fails
// unless enough replicas have what it wrote. Like runScript it waits while a slot moves.
func (s *store) runAcked(ctx context.Context, lua string, keys []string, args ...any) (n int, err error) {
	write := []any{"eval", lua, len(keys)}
	for _, key := range keys {
		write = append(write, key)
	}
	write = append(write, args...)
	err = untilMoved(ctx, func() error {
		conn, err := s.connFor(ctx, keys[0])
		if err != nil {
			return err
		}
		defer conn.Close()
		cmd, unacked := s.acked(ctx, conn, write)
		if n, err = cmd.Int(); err != nil {
			return err
		}
		return unacked
	})
	return n, err
}

// acked sends a write, and says whether enough replicas have it. WAIT answers for what
// its own connection has written, so both are sent on one, which is not shared with
// other requests meanwhile.
func (s *store) acked(ctx context.Context, conn *redis.Conn, write []any) (cmd *redis.Cmd, unacked error) {
	pipe := conn.Pipeline()
	cmd = pipe.Do(ctx, write...)
	acks := pipe.Do(ctx, "WAIT", s.acks, s.wait.Milliseconds())
	_, _ = pipe.Exec(ctx)
	seekMaster(ctx, s.client, cmd.Err())
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
