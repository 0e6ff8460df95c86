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
)

// Redis may refuse to read a room while its slot moves. Read waits for that.
func TestReadWhileASlotMoves(t *testing.T) {
	cluster := redistest.StartCluster(t)
	client := cluster.Client()
	c := newCoordinator(t, client, Options{})
	mustDo(t, c, "42", room.Join("张三", "s"))
	mustDo(t, c, "42", room.Leave("张三", "s")) // one of the two keys is not there: Redis cannot know where
	if _, err := c.Read(t.Context(), "42"); err != nil {
		t.Fatal(err)
	}
	refused := make(chan struct{}, 1000)
	client.AddHook(redistest.Hook{Before: func(_ context.Context, cmd redis.Cmder) error {
		if isScript(cmd, loadScript) {
			refused <- struct{}{}
		}
		return nil
	}})
	cluster.BeginMove(usersOf("42"))
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
		if err == nil && s.Version != 2 {
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
	cluster.MoveKeys(usersOf("42"))
	cluster.FinishMove(usersOf("42"))
	if err := await(t, read, "the room"); err != nil {
		t.Errorf("when it has moved: %v", err)
	}
}
