package coordinator

import (
	"context"
	"fmt"
	"testing"
	"time"

	"roomd/lockmgr/redistest"
	"roomd/room"
	"roomd/room/coordinator/internal/store"
)

// Redis may refuse to read a room while its slot moves. Read waits for that.
func TestRead_SlotMoves(t *testing.T) {
	t.Parallel() // it mostly waits
	servers := redistest.StartCluster(t)
	client := servers.Client()
	c := newCoordinator(t, client, Options{})
	mustDo(t, c, "42", room.Join{User: "张三", Session: "s"})
	mustDo(t, c, "42", room.Leave{User: "张三", Session: "s"}) // one of the two keys is not there: Redis cannot know where
	redistest.OK(t, redistest.Err(c.Read(t.Context(), "42")))
	refused := make(chan struct{}, 1000)
	beforeScript(client, store.LoadScript, func() error {
		refused <- struct{}{}
		return nil
	})
	servers.BeginMove(usersOf("42"))
	short, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	redistest.ErrorIs(t, "while it moves", redistest.Err(c.Read(short, "42")), context.DeadlineExceeded)
	for len(refused) > 0 {
		<-refused
	}
	read := make(chan error, 1)
	go func() {
		s, err := c.Read(t.Context(), "42")
		if err == nil && s.Version != 3 { // another server has it, so a new epoch has begun
			err = fmt.Errorf("version %d", s.Version)
		}
		read <- err
	}()
	for range 2 { // the first attempt was refused
		select {
		case <-refused:
		case err := <-read:
			t.Fatalf("while it moves: %v", err)
		}
	}
	servers.MoveKeys(usersOf("42"))
	servers.FinishMove(usersOf("42"))
	redistest.OK(t, redistest.Receive(t, read, "the room"))
}
