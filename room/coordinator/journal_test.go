package coordinator

import (
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/rs/zerolog"

	"roomd/lockmgr/redistest"
	"roomd/room"
	"roomd/room/coordinator/internal/store"
)

// describeJournal returns a room's journal, one version with its changes after the other.
func describeJournal(t *testing.T, c *Coordinator, id string) string {
	t.Helper()
	entries, err := c.Journal(soon(t), id, "", MaxJournalPage)
	redistest.OK(t, err)
	var list []string
	for _, e := range entries {
		list = append(list, fmt.Sprintf("%d %s", e.Version, describeChanges(e.Changes)))
	}
	return strings.Join(list, ", ")
}

// The journal has an entry for each commit, with what everyone may know of it. A refused
// action leaves none.
func TestJournal(t *testing.T) {
	onBoth(t, func(t *testing.T, client func() *redis.Client) {
		began := time.Now().Add(-time.Minute)
		c := newCoordinator(t, client(), Options{Journal: 1000, Rules: room.Rules{Seating: room.Capacity(2)}})
		mustDo(t, c, "42", room.Join{User: "a", Session: "s"})
		mustDo(t, c, "42", room.Join{User: "b", Session: "s"})
		expectRefused(t, "a full room", c, "42", room.Join{User: "c", Session: "s"}, room.ErrFull)
		mustDo(t, c, "42", room.Join{User: "b", Session: "s"}) // confirms what is there
		mustDo(t, c, "42", room.Leave{User: "a", Session: "s"})
		redistest.Equal(t, "the journal is", describeJournal(t, c, "42"), "1 +a@0, 2 +b@1, 3 -a@0")
		reader := newCoordinator(t, client(), Options{})
		first, err := reader.Journal(soon(t), "42", "", 2)
		if err != nil || len(first) != 2 || first[0].Node != c.Node() || first[0].Time.Before(began) || first[0].Time.After(time.Now().Add(time.Minute)) {
			t.Fatalf("the first two are %+v, %v", first, err)
		}
		rest, err := reader.Journal(soon(t), "42", first[1].ID, 2)
		at, _ := reader.store.Load(t.Context(), "42")
		redistest.ErrorIf(t, err != nil || len(rest) != 1 || rest[0].Position != at.Position,
			"after them %+v, %v; the room is at %+v", rest, err, at.Position)
		if none, err := reader.Journal(soon(t), "43", "", 2); err != nil || len(none) > 0 {
			t.Errorf("of a room that nobody has joined: %v, %v", none, err)
		}
		_, err = reader.Journal(soon(t), "", "", 1)
		checkInvalid(t, err, "room", "")
		_, err = reader.Journal(soon(t), "42", "", 0)
		checkInvalid(t, err, "limit", "0")
		_, err = reader.Journal(soon(t), "42", "7", 1)
		checkInvalid(t, err, "after", "7")
	})
}

// The journal expires with the room's Meta, and stays when somebody comes again.
func TestJournal_ExpiresWithTheRoom(t *testing.T) {
	onBoth(t, func(t *testing.T, client func() *redis.Client) {
		rdb := client()
		c := newCoordinator(t, rdb, Options{Journal: 10, Idle: time.Hour})
		same := func(what string, expires bool) {
			t.Helper()
			log, meta := rdb.PExpireTime(t.Context(), "Room:42:Log").Val(), rdb.PExpireTime(t.Context(), "Room:42:Meta").Val()
			// The clock of miniredis goes on while a script runs.
			redistest.ErrorIf(t, (log-meta).Abs() > time.Second || (log > 0) != expires,
				"%s: the journal expires at %v, Meta at %v", what, log, meta)
		}
		mustDo(t, c, "42", room.Join{User: "a", Session: "s"})
		same("with a member", false)
		mustDo(t, c, "42", room.Leave{User: "a", Session: "s"})
		same("empty", true)
		mustDo(t, c, "42", room.Join{User: "b", Session: "s"})
		same("joined again", false)
		mustDo(t, c, "42", room.Configure{Settings: room.Settings{Keep: true}})
		mustDo(t, c, "42", room.Leave{User: "b", Session: "s"})
		same("kept", false)
		mustDo(t, c, "42", room.Configure{Settings: room.Settings{}})
		same("not kept any longer", true)
		mustDo(t, c, "42", room.Configure{Settings: room.Settings{Keep: true}})
		same("kept again", false)
		got := describeJournal(t, c, "42")
		redistest.ErrorIf(t, !strings.HasPrefix(got, "1 +a@0, 2 -a@0, 3 +b@0"), "the journal is %s", got)
	})
}

// A journal is trimmed to about its length.
func TestJournal_Trimmed(t *testing.T) {
	rdb := redistest.Start(t, "--stream-node-max-entries", "10").Client()
	c := newCoordinator(t, rdb, Options{Journal: 20})
	for i := range 50 {
		mustDo(t, c, "42", room.Join{User: "a", Session: fmt.Sprint(i)})
	}
	n := rdb.XLen(t.Context(), "Room:42:Log").Val()
	redistest.ErrorIf(t, n < 20 || n > 30, "%d entries are left of 50", n)
}

// Commits go on, once each, where Redis does not take their entries, and the log says so once.
func TestJournal_Refused(t *testing.T) {
	rdb := redistest.Start(t).Client()
	rdb.Set(t.Context(), "Room:42:Log", "something else", 0)
	var log lines
	c := newCoordinator(t, rdb, Options{Journal: 10, Log: slog.New(zerolog.NewSlogHandler(zerolog.New(&log).Level(zerolog.InfoLevel)))})
	events, _ := follow(t, c, "42")
	mustDo(t, c, "42", room.Join{User: "a", Session: "s"})
	events.expect(t, "1<0 +a@0")
	redistest.Equal(t, "version", mustDo(t, c, "42", room.Leave{User: "a", Session: "s"}).Version, 2)
	redistest.Equal(t, "what is not roomd's expires in", rdb.TTL(t.Context(), "Room:42:Log").Val(), -1)
	n := log.count("not their entries in the journal")
	redistest.ErrorIf(t, n != 1 || log.count("WRONGTYPE") != 1, "%d lines say so", n)
	if _, err := c.Journal(soon(t), "42", "", 1); !errors.Is(err, room.ErrForeign) || !strings.Contains(err.Error(), "Room:42:Log is a string and not a stream") {
		t.Errorf("read: %v", err)
	}
}

// A node with a journal needs the right to write it, and one without does not.
func TestJournal_CheckRights(t *testing.T) {
	server := redistest.Start(t)
	client := asUser(t, server, EnoughRights("")+" -xadd -xrange")
	redistest.OK(t, newCoordinator(t, client, Options{}).Check(soon(t)))
	err := newCoordinator(t, client, Options{Journal: 1}).Check(soon(t))
	redistest.ErrorIf(t, err == nil || !strings.Contains(err.Error(), "XADD Room:*:Log, XRANGE Room:*:Log"),
		"with one: %v", err)
	n := server.Client().Exists(t.Context(), "Room:"+"~check"+":Log").Val()
	redistest.ErrorIf(t, n != 0, "Check leaves a journal")
}

func TestJournal_Invalid(t *testing.T) {
	_, rdb := redistest.Mini(t)
	for _, n := range []int{-1, MaxJournal + 1} {
		_, err := New(rdb, Options{Journal: n})
		checkInvalid(t, err, "Journal", fmt.Sprint(n))
	}
}

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

// Without memory leaves have their entries, too, and a refused join has none.
func TestJournal_NoMemory(t *testing.T) {
	rdb := redistest.Start(t, "--maxmemory-policy", "noeviction").Client()
	c := newCoordinator(t, rdb, Options{Journal: 10})
	for _, user := range []string{"a", "b", "c"} {
		mustDo(t, c, "42", room.Join{User: user, Session: "s"})
	}
	rdb.ConfigSet(t.Context(), "maxmemory", "1")
	expectRefused(t, "join", c, "42", room.Join{User: "d", Session: "s"}, room.ErrUnavailable)
	mustDo(t, c, "42", room.Leave{User: "b", Session: "s"})
	mustDo(t, c, "42", room.Leave{User: "a", Session: "s"})
	rdb.ConfigSet(t.Context(), "maxmemory", "0")
	redistest.Equal(t, "the journal is", describeJournal(t, c, "42"), "1 +a@0, 2 +b@1, 3 +c@2, 4 -b@1, 5 -a@0")
}

// A commit whose reply was lost has one entry, however often it is sent, and a room that
// begins a new epoch keeps the entries of the old one.
func TestJournal_RepeatsAndEpochs(t *testing.T) {
	rdb := redistest.Start(t).Client()
	lost := errors.New("the reply is lost")
	rdb.AddHook(redistest.Hook{After: once(store.CommitScript, func() error { return lost })})
	warm(t, rdb)
	c := newCoordinator(t, rdb, Options{Journal: 10})
	mustDo(t, c, "42", room.Join{User: "a", Session: "s"})
	redistest.Equal(t, "after a commit that was sent twice:", describeJournal(t, c, "42"), "1 +a@0")
	rdb.Del(t.Context(), "Room:42:Meta", "Room:42:Users")
	mustDo(t, newCoordinator(t, rdb, Options{Journal: 10}), "42", room.Join{User: "b", Session: "s"})
	entries, err := c.Journal(soon(t), "42", "", 10)
	if err != nil || len(entries) != 2 || entries[0].Epoch == entries[1].Epoch || entries[1].Version != 1 {
		t.Errorf("%+v, %v", entries, err)
	}
}
