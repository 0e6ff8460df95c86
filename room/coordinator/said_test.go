package coordinator

import (
	"fmt"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"

	"roomd/lockmgr/redistest"
	"roomd/room"
)

// describeKept returns the versions and texts of what a room has kept. Long texts are shortened.
func describeKept(t *testing.T, c *Coordinator, id string) string {
	t.Helper()
	kept, err := c.Kept(soon(t), id, 100)
	redistest.OK(t, err)
	var list []string
	for _, s := range kept.Said {
		list = append(list, fmt.Sprintf("%d %s%s%.9s%s", s.Version, s.User, string(s.Data), s.Text, strings.Join(s.To, "+")))
	}
	return strings.Join(list, ", ")
}

// A room keeps its last messages if its settings say so, for as long as the rest of it.
func TestSaid_IsKept(t *testing.T) {
	onBoth(t, func(t *testing.T, client func() *redis.Client) {
		rdb := client()
		c := newCoordinator(t, rdb, Options{Journal: 10})
		key := "Room:42:Said"
		settle := func(history int) room.Action { return room.Configure{Settings: room.Settings{History: history}} }
		mustDo(t, c, "42", room.Join{User: "a", Session: "s"})
		mustDo(t, c, "42", room.Say{Text: "unheard"})
		redistest.Equal(t, "without the setting it has kept", describeKept(t, c, "42")+fmt.Sprint(rdb.Exists(t.Context(), key).Val()), "0")
		mustDo(t, c, "42", settle(3))
		mustDo(t, c, "42", room.Say{User: "a", Session: "s", Text: "one"}) // 4
		mustDo(t, c, "42", room.Join{User: "b", Session: "s"})
		mustDo(t, c, "42", room.Say{User: "a", Session: "s", Data: `{"x":1}`, To: []string{"b"}})
		redistest.Equal(t, "it has kept", describeKept(t, c, "42"), `4 aone, 6 a{"x":1}b`)
		mustDo(t, c, "42", room.Say{Text: "two"})
		mustDo(t, c, "42", room.Say{Text: "three"})
		redistest.Equal(t, "it has kept", describeKept(t, c, "42"), `6 a{"x":1}b, 7 two, 8 three`)
		ttl := func() bool { return rdb.PTTL(t.Context(), key).Val() > 0 }
		redistest.Equal(t, "it expires while somebody is there:", ttl(), false)
		mustDo(t, c, "42", room.Leave{User: "a", Session: "s"})
		mustDo(t, c, "42", room.Leave{User: "b", Session: "s"})
		redistest.Equal(t, "it expires when the room is empty:", ttl(), true)
		mustDo(t, c, "42", room.Say{Text: "four"}) // 11, into the empty room
		redistest.Equal(t, "it expires then, too:", ttl(), true)
		mustDo(t, c, "42", room.Join{User: "a", Session: "s"})
		redistest.Equal(t, "it expires when somebody is there again:", ttl(), false)
		mustMove(t, c, "42", "43", "m", "a")
		redistest.Equal(t, "it expires when the last has moved:", ttl(), true)
		mustDo(t, c, "42", settle(2))
		mustDo(t, c, "42", room.Say{Text: "five"})
		redistest.Equal(t, "it has kept", describeKept(t, c, "42"), `11 four, 15 five`)
		mustDo(t, c, "42", settle(0))
		mustDo(t, c, "42", room.Say{Text: "unheard"})
		mustDo(t, c, "42", settle(9))
		redistest.Equal(t, "what was kept before is there:", describeKept(t, c, "42"), "")

		// Somebody else's key does not stop the room.
		redistest.OK(t, rdb.Set(t.Context(), key, "not ours", 0).Err())
		mustDo(t, c, "42", room.Say{Text: "unkept"})
		_, err := c.Kept(soon(t), "42", 5)
		redistest.ErrorIf(t, err == nil, "somebody else's key was read")
	})
}

// However many messages a room keeps, they are of 64 KiB at most.
func TestSaid_Bytes(t *testing.T) {
	onBoth(t, func(t *testing.T, client func() *redis.Client) {
		c := newCoordinator(t, client(), Options{Rules: room.Rules{Limits: room.Limits{Message: 1 << 20}}})
		mustDo(t, c, "42", room.Configure{Settings: room.Settings{History: 100, Keep: true}})
		say := func(text string, length int) {
			mustDo(t, c, "42", room.Say{Text: text + strings.Repeat("x", length)})
		}
		for i := range 5 {
			say(fmt.Sprint(i), 64<<10/3)
		}
		redistest.Equal(t, "of large ones it has kept", describeKept(t, c, "42"), "5 3xxxxxxxx, 6 4xxxxxxxx")
		say("s", 1)
		redistest.Equal(t, "with a small one it has kept", describeKept(t, c, "42"), "5 3xxxxxxxx, 6 4xxxxxxxx, 7 sx")
		say("l", 64<<10)
		redistest.Equal(t, "of one too large it has kept", describeKept(t, c, "42"), "")
		for i := range 150 {
			say(fmt.Sprint("n", i), 0)
		}
		if kept := strings.Split(describeKept(t, c, "42"), ", "); len(kept) != 100 || kept[0] != "59 n50" || kept[99] != "158 n149" {
			t.Errorf("of many it has kept %d: %s … %s", len(kept), kept[0], kept[len(kept)-1])
		}
	})
}
