package coordinator

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

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
	if _, err := c.Read(t.Context(), "42"); err != nil {
		t.Fatal(err)
	}
	refused := make(chan struct{}, 1000)
	client.AddHook(redistest.Hook{Before: func(_ context.Context, cmd redis.Cmder) error {
		if isScript(cmd, store.LoadScript) {
			refused <- struct{}{}
		}
		return nil
	}})
	servers.BeginMove(usersOf("42"))
	short, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if _, err := c.Read(short, "42"); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("while it moves: %v", err)
	}
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
	if err := redistest.Receive(t, read, "the room"); err != nil {
		t.Errorf("when it has moved: %v", err)
	}
}
