package room

import (
	"context"
	"fmt"

	"github.com/redis/go-redis/v9"

	"roomd/lockmgr"
)

// sendAcked sends a commit and waits until enough replicas have it. WAIT answers for
// what its own connection has written, so both are sent on one, which is not shared
// with other requests meanwhile. errUnacked leaves the outcome open: the commit is
// written, but a failover might still lose it. Sending it again writes again that it
// was written, so that its WAIT counts, too.
func (s *store) sendAcked(ctx context.Context, t *lockmgr.Ticket, c *commit) (*redis.Cmd, error) {
	conn, err := s.connFor(ctx, c.keys.meta)
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	// The reply of a script that Redis does not know says that nothing was written.
	for _, name := range []string{"evalsha", "eval"} {
		pipe := conn.Pipeline()
		cmd := pipe.Do(ctx, t.Command(name, commitScript, commitLuaWhole, c.keys.both, c.args...)...)
		acked := pipe.Do(ctx, "WAIT", s.acks, s.wait.Milliseconds())
		_, err = pipe.Exec(ctx)
		if redis.HasErrorPrefix(cmd.Err(), "NOSCRIPT") {
			continue
		}
		if cmd.Err() != nil {
			return nil, cmd.Err()
		}
		if reply, _ := cmd.Slice(); len(reply) > 0 && reply[0] != "done" {
			return cmd, nil // nothing was written
		}
		n, err := acked.Int()
		switch {
		case err != nil:
			return nil, fmt.Errorf("%w: %w", errUnacked, err)
		case n < s.acks:
			return nil, fmt.Errorf("%w: %d of %d", errUnacked, n, s.acks)
		}
		return cmd, nil
	}
	return nil, err
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
