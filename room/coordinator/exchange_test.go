package coordinator

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/redis/go-redis/v9"

	"roomd/lockmgr/redistest"
	"roomd/room"
	"roomd/room/coordinator/internal/store"
)

// fullRooms makes two rooms of two, A with a and b, and C with x and y. On Cluster they are on two masters.
func fullRooms(t *testing.T, c *Coordinator) {
	t.Helper()
	for id, users := range map[string][]string{"A": {"a", "b"}, "C": {"x", "y"}} {
		for _, user := range users {
			mustDo(t, c, id, room.Join{User: user, Session: "s"})
		}
	}
}

// Members of two full rooms change places, all of them or none.
func TestExchange(t *testing.T) {
	onBoth(t, func(t *testing.T, client func() *redis.Client) {
		rules := room.Rules{Seating: room.Capacity(2)}
		c, other := newCoordinator(t, client(), Options{Journal: 10, Rules: rules}), newCoordinator(t, client(), Options{Rules: rules})
		fullRooms(t, other)
		for _, refused := range []struct {
			users, back []string
			want        error
			text        string
		}{
			{[]string{"a"}, []string{"c"}, room.ErrNotMember, "c is not in room C"},
			{[]string{"x"}, []string{"y"}, room.ErrNotMember, "x is not in room A"},
			{[]string{"a", "b"}, []string{"x"}, room.ErrFull, "room C has 1 of 2 seats free, and not 2"},
			{[]string{"a"}, []string{"x", "y"}, room.ErrFull, "room A has 1 of 2 seats free, and not 2"},
			{[]string{"a"}, []string{"a"}, room.ErrInvalid, "back names a, who is one of users, too"},
			{[]string{"a"}, []string{}, room.ErrInvalid, "back must name 1 to 64 users, not 0"},
		} {
			if _, _, err := c.Exchange(t.Context(), "A", "C", "r", refused.users, refused.back); !errors.Is(err, refused.want) || err.Error() != refused.text {
				t.Errorf("%v: %v", refused, err)
			}
		}
		redistest.Equal(t, "refused ones leave", describeRoom(t, c, "A")+"; "+describeRoom(t, c, "C"), "2: a@0 b@1; 2: x@0 y@1")
		left, joined, err := c.Exchange(t.Context(), "A", "C", "r", []string{"b"}, []string{"x"})
		redistest.OK(t, err)
		if left.Version != 3 || joined.Version != 3 || left.Count() != 2 || joined.Count() != 2 {
			t.Errorf("%+v, %+v", left, joined)
		}
		redistest.Equal(t, "the rooms are", describeRoom(t, other, "A")+"; "+describeRoom(t, other, "C"), "3: a@0 (x)@1; 3: (b)@0 y@1")
		redistest.Equal(t, "the journal has", describeJournal(t, c, "A"), "3 -b@1 +x@1")
		// Both nodes go on, from copies that are old now.
		mustDo(t, other, "A", room.Join{User: "x", Session: "new"})
		mustDo(t, c, "C", room.Join{User: "b", Session: "new"})
		mustDo(t, c, "A", room.Swap{Users: []string{"a", "x"}})
		redistest.Equal(t, "the rooms are", describeRoom(t, other, "A")+"; "+describeRoom(t, other, "C"), "5: x@0 a@1; 4: b@0 y@1")
	})
}

// Replies are lost: each exchange happens once, or not at all.
func TestExchange_LostReplies(t *testing.T) {
	server := redistest.Start(t)
	client := server.Client()
	var lose atomic.Int64
	client.AddHook(redistest.Hook{After: func(_ context.Context, cmd redis.Cmder) error {
		if isScript(cmd, store.MoveScript) && lose.Add(-1) >= 0 {
			return errors.New("the reply is lost")
		}
		return nil
	}})
	c := newCoordinator(t, client, Options{Rules: room.Rules{Seating: room.Capacity(2)}})
	fullRooms(t, c)
	lose.Store(2)
	_, _, err := c.Exchange(t.Context(), "A", "C", "r", []string{"a"}, []string{"y"})
	redistest.OK(t, err)
	redistest.Equal(t, "the rooms are", describeRoom(t, c, "A")+"; "+describeRoom(t, c, "C"), "3: (y)@0 b@1; 3: x@0 (a)@1")
}

// Several nodes exchange members of full rooms at once. Whoever looks at both rooms in one step sees both full, and each
// user once.
func TestExchange_AtOnce(t *testing.T) {
	t.Parallel() // it mostly waits
	server := redistest.Start(t)
	var nodes []*Coordinator
	for range 3 {
		nodes = append(nodes, newCoordinator(t, server.Client(), Options{Rules: room.Rules{Seating: room.Capacity(2)}}))
	}
	fullRooms(t, nodes[0])
	exchangeAtOnce(t, nodes, func() string {
		var a, b *redis.MapStringStringCmd
		_, err := server.Client().TxPipelined(t.Context(), func(p redis.Pipeliner) error {
			a, b = p.HGetAll(t.Context(), "Room:A:Users"), p.HGetAll(t.Context(), "Room:C:Users")
			return nil
		})
		redistest.OK(t, err)
		return whoIsWhere(a.Val(), b.Val())
	}, 30)
}

// whoIsWhere says what is wrong with two full rooms.
func whoIsWhere(a, b map[string]string) string {
	for _, user := range []string{"a", "b", "x", "y"} {
		_, inA := a[user]
		if _, inB := b[user]; inA == inB {
			return fmt.Sprintf("%s is in A: %v, in C: %v", user, inA, inB)
		}
	}
	if len(a) != 2 || len(b) != 2 {
		return fmt.Sprintf("%d and %d members", len(a), len(b))
	}
	return ""
}

func exchangeAtOnce(t *testing.T, nodes []*Coordinator, wrong func() string, times int) {
	t.Helper()
	var play sync.WaitGroup
	var done atomic.Int64
	for n, c := range nodes {
		play.Go(func() {
			r := rand.New(rand.NewPCG(1, uint64(n)))
			users := []string{"a", "b", "x", "y"}
			for i := range times {
				r.Shuffle(4, func(i, j int) { users[i], users[j] = users[j], users[i] })
				_, _, err := c.Exchange(t.Context(), "A", "C", fmt.Sprint("r", n, i), users[:1], users[1:2])
				switch {
				case err == nil:
					done.Add(1)
				case !errors.Is(err, room.ErrNotMember):
					t.Errorf("exchange: %v", err)
				}
			}
		})
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		play.Wait()
	}()
	for playing := true; playing; {
		select {
		case <-ended:
			playing = false
		default:
		}
		if text := wrong(); text != "" {
			t.Error(text)
			break
		}
	}
	play.Wait()
	if done.Load() == 0 {
		t.Error("there was no exchange")
	}
}

// On Cluster, where the rooms are on two masters, both are full when all is done, and each user is in one of them.
func TestExchange_Cluster(t *testing.T) {
	redistest.Thorough(t)
	t.Parallel() // it mostly waits
	servers := redistest.StartCluster(t)
	var nodes []*Coordinator
	for range 3 {
		nodes = append(nodes, newCoordinator(t, servers.Client(), Options{Rules: room.Rules{Seating: room.Capacity(2)}}))
	}
	fullRooms(t, nodes[0])
	exchangeAtOnce(t, nodes, func() string { return "" }, 20)
	client := servers.Client()
	if text := whoIsWhere(client.HGetAll(t.Context(), "Room:{A}:Users").Val(), client.HGetAll(t.Context(), "Room:{C}:Users").Val()); text != "" {
		t.Error(text)
	}
}

// The second half cannot be written: the first one is undone.
func TestExchange_Undone(t *testing.T) {
	redistest.Thorough(t)
	t.Parallel() // it mostly waits
	servers := redistest.StartCluster(t)
	client := servers.Client()
	full := servers.Owner("Room:{A}:Meta").Client() // from when the first half is written
	limit := func(bytes string) error { return full.ConfigSet(context.Background(), "maxmemory", bytes).Err() }
	var written atomic.Bool
	client.AddHook(redistest.Hook{After: func(_ context.Context, cmd redis.Cmder) error {
		if isScript(cmd, store.MoveScript) && cmd.Err() == nil && !written.Swap(true) { // else the server did not know the script
			return limit("1")
		}
		return nil
	}})
	c := newCoordinator(t, client, Options{Rules: room.Rules{Seating: room.Capacity(2)}})
	other := newCoordinator(t, servers.Client(), Options{Rules: room.Rules{Seating: room.Capacity(2)}})
	fullRooms(t, other)
	mustDo(t, other, "A", room.Deal{Hands: []room.Hand{{User: "a", Data: `"ace"`}}})
	mustDo(t, other, "C", room.Deal{Hands: []room.Hand{{User: "x", Data: `"ten"`}}})
	mustDo(t, other, "C", room.SetMemberData{User: "x", Session: "s", Data: `"last"`})
	was, err := other.store.Load(soon(t), "C")
	redistest.OK(t, err)
	if _, _, err := c.Exchange(t.Context(), "A", "C", "r", []string{"a"}, []string{"x"}); !errors.Is(err, ErrUndone) || !errors.Is(err, room.ErrUnavailable) {
		t.Errorf("it failed with %v", err)
	}
	redistest.OK(t, limit("0"))
	redistest.Equal(t, "the room that was not written is", describeRoom(t, other, "A"), "3: a@0 b@1")
	redistest.Equal(t, "the other room is", describeRoom(t, other, "C"), "6: (x)@0 y@1") // it was written, and undone
	now, err := other.store.Load(soon(t), "C")
	redistest.OK(t, err)
	before, _ := was.Member("x")
	if after, _ := now.Member("x"); after.At != before.At || after.Data.String() != before.Data.String() {
		t.Errorf("who had left was %+v, and is %+v", before, after)
	}
	for id, want := range map[string]map[string]string{"A": {"a": `"ace"`}, "C": {"x": `"ten"`}} {
		snapshot, err := other.Read(t.Context(), id)
		redistest.OK(t, err)
		redistest.Equal(t, "the private data in room "+id+" are", fmt.Sprint(snapshot.Private(room.Viewer{Authority: true})), fmt.Sprint(want))
	}
}
