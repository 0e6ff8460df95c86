package coordinator

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"

	"roomd/lockmgr/redistest"
	"roomd/room"
	"roomd/room/coordinator/internal/store"
)

// A list becomes a room of which all nodes hear, and in which its users have seats until the importer, and the grace, are gone.
func TestImport_Room(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		mini, rdb := redistest.Mini(t)
		rdb.RPush(t.Context(), "Room:42:Users", "a", "b", "c")
		node := newCoordinator(t, redistest.MiniClient(t, mini), Options{Grace: 10 * time.Second})
		mustDo(t, node, "other", room.Join{User: "x", Session: "s"})
		by, err := New(redistest.MiniClient(t, mini), Options{Grace: 10 * time.Second})
		redistest.OK(t, err)
		done, err := by.Import(t.Context(), "42", true)
		redistest.OK(t, err)
		redistest.Equal(t, "seated are", strings.Join(done.Users, " "), "a b c")
		redistest.Equal(t, "the list is", strings.Join(rdb.LRange(t.Context(), done.Backup, 0, -1).Val(), " "), "a b c")
		mustDo(t, node, "42", room.Join{User: "b", Session: "s"})
		time.Sleep(time.Minute) // the importer stays
		redistest.Equal(t, "in the room are", describeUsers(mustRead(t, node, "42").Users()), "a@0 b@1 c@2")
		redistest.OK(t, by.Close(t.Context()))
		time.Sleep(time.Minute)
		redistest.Equal(t, "after the grace there are", describeUsers(mustRead(t, node, "42").Users()), "b@1")
		if _, err := node.Import(t.Context(), "42", true); !errors.Is(err, ErrNoList) {
			t.Errorf("again: %v", err)
		}
	})
}

// While the other program holds the lock nothing is read or written, and what it adds then is in the room.
func TestImport_WaitsForTheLock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		mini, rdb := redistest.Mini(t)
		rdb.Set(t.Context(), "Room:42:Users", `["a"]`, 0)
		rdb.Set(t.Context(), "LockRoom:42", "42 of somebody", 3*time.Second)
		c := newCoordinator(t, redistest.MiniClient(t, mini), Options{})
		finished := make(chan Imported)
		go func() {
			done, err := c.Import(context.Background(), "42", true)
			if err != nil {
				t.Error(err)
			}
			finished <- done
		}()
		time.Sleep(time.Second)
		rdb.Set(t.Context(), "Room:42:Users", `["a","b"]`, 0)
		rdb.Del(t.Context(), "LockRoom:42")
		done := redistest.Receive(t, finished, "the import")
		redistest.Equal(t, "seated are", strings.Join(done.Users, " "), "a b")
		redistest.Equal(t, "the list is", rdb.Get(t.Context(), done.Backup).Val(), `["a","b"]`)
	})
}

// Whoever writes the list without the lock, just before the room is made, is in the room; a hold that was lost writes nothing.
func TestImport_Disturbed(t *testing.T) {
	for name, test := range map[string]struct {
		disturb func(ctx context.Context, rdb *redis.Client)
		users   string
		lasts   time.Duration
	}{
		"the list grows":   {func(ctx context.Context, rdb *redis.Client) { rdb.RPush(ctx, "Room:42:Users", "b") }, "a b", 0},
		"the lock is lost": {func(ctx context.Context, rdb *redis.Client) { rdb.Set(ctx, "LockRoom:42", "another", time.Second) }, "a", time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				mini, rdb := redistest.Mini(t)
				rdb.RPush(t.Context(), "Room:42:Users", "a")
				client, done := redistest.MiniClient(t, mini), false
				client.AddHook(redistest.Hook{Before: func(ctx context.Context, cmd redis.Cmder) error {
					if isScript(cmd, store.ImportScript) && !done {
						done = true
						test.disturb(ctx, rdb)
					}
					return nil
				}})
				start := time.Now()
				result, err := newCoordinator(t, client, Options{}).Import(t.Context(), "42", true)
				redistest.OK(t, err)
				redistest.Equal(t, "seated are", strings.Join(result.Users, " "), test.users)
				if lasted := time.Since(start); lasted < test.lasts {
					t.Errorf("it was made after %v, under the lock of another", lasted)
				}
			})
		})
	}
}

// The reply to the import is lost: it is made once, and the list is not lost.
func TestImport_LostReply(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		mini, rdb := redistest.Mini(t)
		rdb.RPush(t.Context(), "Room:42:Users", "a", "b")
		client, lost := redistest.MiniClient(t, mini), false
		client.AddHook(redistest.Hook{After: func(_ context.Context, cmd redis.Cmder) error {
			if isScript(cmd, store.ImportScript) && !lost {
				lost = true
				return errors.New("the reply is lost")
			}
			return nil
		}})
		c := newCoordinator(t, client, Options{})
		done, err := c.Import(t.Context(), "42", true)
		redistest.OK(t, err)
		redistest.Equal(t, "seated are", strings.Join(done.Users, " "), "a b")
		redistest.Equal(t, "the list has", rdb.LLen(t.Context(), done.Backup).Val(), 2)
		if s := mustRead(t, c, "42"); s.Version != 1 {
			t.Errorf("version %d", s.Version)
		}
	})
}

// A list that is empty makes way for a room, and one with a TTL stays for good.
func TestImport_EmptyAndExpiring(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		mini, rdb := redistest.Mini(t)
		rdb.Set(t.Context(), "Room:42:Users", "[]", time.Hour)
		c := newCoordinator(t, redistest.MiniClient(t, mini), Options{})
		done, err := c.Import(t.Context(), "42", true)
		redistest.OK(t, err)
		if ttl := rdb.TTL(t.Context(), done.Backup).Val(); ttl != -1 {
			t.Errorf("the list expires in %v", ttl)
		}
		mustDo(t, c, "42", room.Join{User: "a", Session: "s"})
	})
}

// A room that roomd has used before has settings and data that the list knows nothing of.
func TestImport_RoomIsThere(t *testing.T) {
	mini, rdb := redistest.Mini(t)
	c := newCoordinator(t, redistest.MiniClient(t, mini), Options{})
	mustDo(t, c, "42", room.Join{User: "a", Session: "s"})
	rdb.Del(t.Context(), "Room:42:Users")
	rdb.RPush(t.Context(), "Room:42:Users", "b")
	if _, err := c.Import(t.Context(), "42", true); !errors.Is(err, room.ErrForeign) || !strings.Contains(err.Error(), "delete Room:42:Meta") {
		t.Error(err)
	}
	if n := rdb.LLen(t.Context(), "Room:42:Users").Val(); n != 1 {
		t.Error("the list is gone")
	}
}

func mustRead(t *testing.T, c *Coordinator, id string) room.Snapshot {
	t.Helper()
	s, err := c.Read(soon(t), id)
	redistest.OK(t, err)
	return s
}
