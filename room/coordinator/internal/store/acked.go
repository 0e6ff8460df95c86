package store

import (
	"context"
	"errors"
	"fmt"

	"github.com/redis/go-redis/v9"

	"roomd/lockmgr"
	"roomd/lockmgr/redisconn"
)

// sendAcked sends a commit and waits until enough replicas have it. ErrUnacked leaves the outcome open: the commit is
// written, but a failover might still lose it. Sending it again writes its record again, so that the new WAIT covers
// the commit.
func (s *Store) sendAcked(ctx context.Context, slot *lockmgr.Slot, script *redis.Script, c *Commit) (*redis.Cmd,
	error) {
	send := func(ctx context.Context, command []any) *redis.Cmd {
		conn, err := connFor(ctx, s.Client, c.keys.Meta)
		if err != nil {
			cmd := redis.NewCmd(ctx)
			cmd.SetErr(err)
			return cmd
		}
		defer conn.Close()
		cmd, unacked := s.acked(ctx, conn, script, command)
		if reply, err := answerOf(cmd); err != nil || len(reply) == 0 || reply[0] != "done" {
			return cmd // nothing was written, so WAIT says nothing about the commit
		}
		if heard := c.acked.Load(); heard == nil || *heard != nil {
			c.acked.Store(&unacked)
		}
		return cmd
	}
	var cmd *redis.Cmd
	if c.token != "" {
		cmd = send(ctx, slot.Command(script, c.args...))
	} else if asked, err := askFully(func(full string) (*redis.Cmd,
		error) {
		return slot.AskBy(ctx, send, script, c.asking(full)...)
	}); asked != nil {
		cmd = asked
	} else {
		return nil, err
	}
	reply, err := answerOf(cmd)
	switch {
	case redis.HasErrorPrefix(err, "WRONGTYPE"), errors.Is(err, errIncarnation):
		return cmd, nil // nothing was written; Send reports the wrong type or the restart
	case err != nil:
		return nil, err
	case len(reply) > 0 && reply[0] != "done":
		return cmd, nil // nothing was written
	}
	return cmd, *c.acked.Load()
}

// RunNumber runs a script that answers with a number. On a Cluster its keys may be on another master than the next
// commit, whose WAIT would not cover them. There, with Options.Replicas, RunNumber waits itself, and fails with
// ErrUnacked unless enough replicas have the script's writes. RunNumber also waits while a slot moves.
func (s *Store) RunNumber(ctx context.Context, script *redis.Script, keys []string, args ...any) (n int, err error) {
	if !s.Cluster || s.acks == 0 {
		return s.RunPlain(ctx, script, keys, args...).Int()
	}
	write := []any{"evalsha", script.Hash(), len(keys)}
	for _, key := range keys {
		write = append(write, key)
	}
	write = append(write, args...)
	err = redisconn.UntilMoved(ctx, func() error {
		conn, err := connFor(ctx, s.Client, keys[0])
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
	return n, s.Explain(ctx, err, keys...)
}

// acked sends a script, and returns ErrUnacked unless enough replicas have its writes. WAIT covers the writes of its
// own connection, so it follows the script on conn, which no other request uses meanwhile.
func (s *Store) acked(ctx context.Context, conn *masterConn, script *redis.Script, write []any) (cmd *redis.Cmd,
	unacked error) {
	var acks *redis.Cmd
	err := redisconn.UntilKnown(func() error {
		pipe := conn.Pipeline()
		cmd = pipe.Do(ctx, write...)
		acks = pipe.Do(ctx, "WAIT", s.acks, s.wait.Milliseconds())
		_, _ = pipe.Exec(ctx)
		return cmd.Err()
	}, func() error { return s.Servers.loadOn(ctx, conn, script) })
	if err != nil {
		cmd.SetErr(err)
	}
	redisconn.SeekMaster(ctx, s.Client, cmd.Err())
	switch n, err := acks.Int(); {
	case err != nil:
		unacked = fmt.Errorf("%w: %w", ErrUnacked, err)
	case n < s.acks:
		unacked = fmt.Errorf("%w: %d of %d", ErrUnacked, n, s.acks)
	}
	return cmd, unacked
}

// CheckReplicas fails with ErrUnacked if a master has fewer replicas than a commit waits for.
func (s *Store) CheckReplicas(ctx context.Context) error {
	if s.acks == 0 {
		return nil
	}
	return redisconn.EachMaster(ctx, s.Client, func(ctx context.Context, master redis.UniversalClient) error {
		n, err := master.Do(ctx, "WAIT", s.acks, s.wait.Milliseconds()).Int()
		if err == nil && n < s.acks {
			err = fmt.Errorf("%w: %d of %d", ErrUnacked, n, s.acks)
		}
		return err
	})
}

type masterConn struct {
	*redis.Conn
	at string // the master's address, empty without a Cluster
}

func connFor(ctx context.Context, client redis.UniversalClient, key string) (*masterConn, error) {
	switch client := client.(type) {
	case *redis.ClusterClient:
		master, err := client.MasterForKey(ctx, key)
		if err != nil {
			return nil, err
		}
		return &masterConn{master.Conn(), master.Options().Addr}, nil
	case *redis.Client:
		return &masterConn{client.Conn(), ""}, nil
	}
	return nil, fmt.Errorf("the client has to be a *redis.Client or *redis.ClusterClient, not %T", client)
}
