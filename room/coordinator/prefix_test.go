package coordinator

import (
	"context"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"

	"roomd/lockmgr/redistest"
	"roomd/room"
)

// A deployment with a prefix shares a Redis with another program, whose keys are named as those of a deployment without
// a prefix. Its user has the rights of EnoughRights and no others, and Redis refuses it nothing: so each key and channel
// that it uses begins with the prefix. That no two deployments share a name then is tested with [CheckKeyPrefix].
func TestKeyPrefix(t *testing.T) {
	redistest.Thorough(t)
	t.Parallel() // it mostly waits
	t.Run("one Redis", func(t *testing.T) { t.Parallel(); testKeyPrefix(t, redistest.Start(t), false) })
	t.Run("a Cluster", func(t *testing.T) { t.Parallel(); testKeyPrefix(t, redistest.StartClusterOfOne(t), true) })
}

func testKeyPrefix(t *testing.T, server *redistest.Server, cluster bool) {
	const prefix = "a:b:"
	admin := server.Client()
	args := []any{"ACL", "SETUSER", "deployment", "reset", "on", ">secret"}
	for rule := range strings.FieldsSeq(EnoughRights(prefix)) {
		args = append(args, rule)
	}
	redistest.OK(t, admin.Do(t.Context(), args...).Err())
	admin.HSet(t.Context(), "Room:other:Meta", "version", 1, "members", 1, "epoch", "e")
	admin.XAdd(t.Context(), &redis.XAddArgs{Stream: "Room:other:Log", Values: []any{"commit", "x"}})
	admin.ZAdd(t.Context(), "Nodes", redis.Z{Score: 1, Member: "other"})
	before := admin.Keys(t.Context(), "*").Val()
	start := func(opts Options) *Coordinator {
		var client redis.UniversalClient
		if cluster {
			client = redis.NewClusterClient(&redis.ClusterOptions{
				Addrs: []string{server.Addr()}, Username: "deployment", Password: "secret", ContextTimeoutEnabled: true,
				MaintNotificationsConfig: &maintnotifications.Config{Mode: maintnotifications.ModeDisabled},
			})
		} else {
			opts := *admin.Options()
			opts.Username, opts.Password = "deployment", "secret"
			client = redis.NewClient(&opts)
		}
		t.Cleanup(func() { _ = client.Close() })
		opts.Rules, opts.Report = reporting(8).Rules, func(*NodeReport) {}
		opts.KeyPrefix, opts.Journal, opts.Feed, opts.Grace = prefix, 100, 10_000, 200*time.Millisecond
		c := newCoordinator(t, client, opts)
		redistest.OK(t, c.Check(soon(t)))
		redistest.OK(t, c.Start(soon(t)))
		return c
	}
	a, b := start(Options{}), start(Options{})
	dies := start(Options{LockTTL: time.Second, NodeTTL: 1500 * time.Millisecond})
	var heard sync.Map // what was heard of timers, and of members who have left
	for _, c := range []*Coordinator{a, b} {
		stop, err := c.Watch(soon(t), "42", func(e *room.Event) {
			for _, c := range e.Changes {
				heard.Store(string(c.Type)+" "+c.User, true)
			}
		})
		redistest.OK(t, err)
		t.Cleanup(stop)
	}
	hears := func(what string) {
		t.Helper()
		redistest.Until(t, what, func() bool { _, is := heard.Load(what); return is })
	}
	play(t, a, b, dies)
	admin.Set(t.Context(), b.locks.Key("42"), "42:another program's", time.Second)
	mustDo(t, b, "42", room.Join{User: "woken", Session: "s"})
	redistest.OK(t, a.Drain(soon(t), dies.Node()))
	redistest.Receive(t, dies.DrainRequested(), "that the node is to stop")
	die(dies)
	hears("leave victim")
	hears("timer ")
	b.awaitChecks(t, 2)
	redistest.OK(t, a.Close(soon(t)))
	hears("leave leaver")
	l, err := b.Lobby(soon(t))
	redistest.ErrorIf(t, err != nil || l.Find("42") == nil || l.Find("other") != nil, "the lobby is %v, %v", l, err)
	for _, key := range admin.Keys(t.Context(), "*").Val() {
		redistest.ErrorIf(t, !strings.HasPrefix(key, prefix) && !slices.Contains(before, key), "the key %s has no prefix", key)
	}
	for _, channel := range slices.Concat(admin.PubSubChannels(t.Context(), "*").Val(),
		admin.PubSubShardChannels(t.Context(), "*").Val()) {
		redistest.ErrorIf(t, !strings.HasPrefix(channel, prefix), "the channel %s has no prefix", channel)
	}
	denied, err := admin.Do(t.Context(), "ACL", "LOG").Slice()
	redistest.ErrorIf(t, err != nil || len(denied) > 0, "Redis has refused: %v (%v)", denied, err)
}

// play does what nodes do.
func play(t *testing.T, a, b, dies *Coordinator) {
	mustDo(t, a, "42", room.Configure{Settings: room.Settings{Capacity: 8, Labels: `{"mode":"ranked"}`, History: 10}})
	mustDo(t, a, "42", room.Join{User: "leaver", Session: "s"})
	mustDo(t, dies, "42", room.Join{User: "victim", Session: "s"})
	mustDo(t, b, "42", room.Join{User: "b", Session: "s"})
	mustDo(t, b, "42", room.Say{User: "b", Session: "s", Text: "hi"})
	mustDo(t, a, "42", room.Reserve{Session: "party", Users: []string{"p"}})
	mustDo(t, a, "42", room.Kick{User: "rude", Until: room.Forever})
	mustMove(t, b, "42", "43", "m", "p")
	mustDo(t, b, "42", room.SetTimer{Name: "turn", In: 100})
	mustDo(t, a, "ends", room.Join{User: "c", Session: "s"})
	mustDo(t, a, "ends", room.Close{})
	redistest.Until(t, "the index has the room", func() bool { // a node's list has it earlier
		l, err := a.Lobby(soon(t))
		return err == nil && l.Find("42") != nil && l.Find("42").Since > 0
	})
	w := ranked(8)
	w.By, w.Key = "somebody", "key"
	redistest.Equal(t, "matched into", match(t, b, w, "m"), "42")
	listen(t, a).until("42", at(t, b, "42"))
	redistest.OK(t, redistest.Err(b.Journal(soon(t), "42", "", MaxJournalPage)))
	redistest.OK(t, redistest.Err(b.Kept(soon(t), "42", 10)))
	redistest.OK(t, a.ReadFeedAs(soon(t), "reader", func(_ context.Context, place string, keep func(string) error) error {
		return keep(place)
	}))
}
