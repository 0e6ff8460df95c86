package store

import (
	"context"

	"github.com/redis/go-redis/v9"

	"roomd/lockmgr"
)

// Move writes commits of several locked rooms in one atomic step, by move.lua.
type Move struct {
	store   *Store
	commits []*Commit
	slot    *lockmgr.Slot // of the first room's lock; it covers the keys of all rooms
	args    []any
}

// NewMove prepares a move of these commits, whose holds must have Tokens. Call Close after use.
func (s *Store) NewMove(locks *lockmgr.Manager, commits ...*Commit) (*Move, error) {
	m := &Move{store: s, commits: commits}
	var keys []string
	for i, c := range commits {
		if i > 0 { // the slot brings the first room's keys
			keys = append(keys, locks.Keys(c.ID)...)
		}
		keys = append(keys, c.keys.Users, c.keys.Meta, c.keys.Said, c.keys.Log)
		m.args = append(append(m.args, len(c.args)), c.args...) // starts with the token
	}
	var err error
	m.slot, err = locks.Slot(commits[0].ID, keys...)
	return m, err
}

// Close releases the slot.
func (m *Move) Close() { m.slot.Close() }

// Send sends the move once, and waits until enough replicas have it. It fails with the errors of a commit.
func (m *Move) Send(ctx context.Context) error {
	s, first := m.store, m.commits[0]
	var unacked error
	reply, err := s.run(ctx, first.keys.Meta, MoveScript, func(script *redis.Script) (cmd *redis.Cmd, err error) {
		if s.acks == 0 {
			return m.slot.Run(ctx, script, m.args...), nil
		}
		conn, err := connFor(ctx, s.Client, first.keys.Meta)
		if err != nil {
			return nil, err
		}
		defer conn.Close()
		cmd, unacked = s.acked(ctx, conn, script, m.slot.Command(script, m.args...))
		return cmd, nil
	})
	if err = s.outcome(ctx, first.ID, reply, err); err != nil {
		return err
	}
	for i, c := range m.commits {
		c.incomplete(reply, 1+2*i) // the reply has no such part if an earlier sending wrote the move
	}
	return unacked
}
