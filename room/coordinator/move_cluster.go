package coordinator

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"roomd/room"
)

// commitEach writes the two halves one after the other, since no script reaches the masters of both.
// No other move of the users can come in between: it needs the locks, and when one is lost the second
// script writes nothing. It fails as commit does; undo says whether there may be seats to give back.
func (m *move) commitEach(to, from *half) error {
	if to.commit.event != nil { // else all of them are members there
		err := m.commit(to)
		if errors.Is(err, errUnanswered) {
			m.undo = true
			return fmt.Errorf("reserve seats in room %s: %v", m.to, err)
		}
		if err != nil {
			return err
		}
		m.committed(to)
	}
	err := m.commit(from)
	if err == nil {
		m.committed(from)
		return nil
	}
	m.undo = to.commit.event != nil && !errors.Is(err, errUnanswered)
	if errors.Is(err, errStale) {
		err = errLost // from the beginning
	}
	return err
}

// giveBack frees the seats that are reserved. The users are still in the room from.
func (m *move) giveBack() error {
	ctx, cancel := context.WithTimeout(m.lifetime.life, m.opts.LockWait)
	defer cancel()
	users := m.reserve.Users()
	failed := make([]error, len(users))
	var wg sync.WaitGroup
	for i, user := range users { // at once, so that they share a hold
		wg.Go(func() {
			_, err := m.workers.conclude(ctx, m.to, room.Leave(user, m.session))
			if !errors.Is(err, room.ErrNotMember) { // one who was there before, or came with a session of its own
				failed[i] = err
			}
		})
	}
	wg.Wait()
	return errors.Join(failed...)
}
