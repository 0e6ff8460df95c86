package coordinator

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"

	"roomd/lockmgr/redistest"
	"roomd/room"
	"roomd/room/coordinator/internal/cluster"
	"roomd/room/coordinator/internal/store"
)

// A node logs whether another one died or stopped, with its address, and nothing if it
// stopped and nobody lost a seat.
func TestLog_NodeEnds(t *testing.T) {
	for name, test := range map[string]struct {
		end     func(*Coordinator)
		members int
		says    string
	}{
		"died":                  {die, 2, "a node has died; its members were removed"},
		"stopped":               {stop, 1, "a node has stopped; its members did not come back and were removed"},
		"stopped, all are back": {stop, 0, ""},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				mini, rdb := redistest.Mini(t)
				var log lines
				other := newCoordinator(t, redistest.MiniClient(t, mini), Options{Log: slog.New(slog.NewTextHandler(&log, nil))})
				first := newCoordinator(t, redistest.MiniClient(t, mini), Options{Address: "10.0.0.7:8080"})
				redistest.OK(t, other.Start(t.Context()))
				for _, user := range []string{"a", "b"} {
					mustDo(t, first, "42", room.Join{User: user, Session: "s"})
				}
				for _, user := range []string{"a", "b"}[:2-test.members] {
					mustDo(t, other, "42", room.Join{User: user, Session: "elsewhere"})
				}
				time.Sleep(DefaultNodeTTL)
				test.end(first)
				time.Sleep(DefaultNodeTTL + DefaultGrace + DefaultNodeTTL)
				about := log.about(first.Node())
				if test.says == "" && len(about) > 0 || test.says != "" && (len(about) != 1 || !strings.Contains(about[0], test.says) || !strings.Contains(about[0], "address=10.0.0.7:8080")) {
					t.Errorf("it logs %q", about)
				}
				noOtherNodes(t, rdb, other)
			})
		})
	}
}

// A node whose lease Redis refused to prolong takes another name, and says of the one before that it was its own.
func TestLog_OwnName(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		mini, rdb := redistest.Mini(t)
		var log lines
		var refuses atomic.Bool
		client := redistest.MiniClient(t, mini)
		client.AddHook(redistest.Hook{Before: func(_ context.Context, cmd redis.Cmder) error {
			if refuses.Load() && strings.HasPrefix(cmd.Name(), "eval") {
				return errors.New("MISCONF Redis is configured to save RDB snapshots, but it's currently unable to persist to disk")
			}
			return nil
		}})
		c := newCoordinator(t, client, Options{Log: slog.New(slog.NewTextHandler(&log, nil))})
		mustDo(t, c, "42", room.Join{User: "a", Session: "s"})
		time.Sleep(DefaultNodeTTL)
		before := c.Node()
		refuses.Store(true)
		time.Sleep(3 * DefaultNodeTTL)
		refuses.Store(false)
		time.Sleep(DefaultNodeTTL + DefaultGrace + DefaultNodeTTL)
		about := log.about("were removed")
		if len(about) != 1 || !strings.Contains(about[0], "this node had lost its lease") || !strings.Contains(about[0], "node="+before) || c.Node() == before {
			t.Errorf("it logs %q", about)
		}
		noOtherNodes(t, rdb, c)
	})
}

// Nobody saw the node's lease before it stopped.
func TestEviction_StoppedBeforeAnybodyLooked(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		mini, rdb := redistest.Mini(t)
		first := newCoordinator(t, redistest.MiniClient(t, mini), Options{Address: "10.0.0.7:8080"})
		mustDo(t, first, "42", room.Join{User: "a", Session: "s"})
		stop(first)
		redistest.Equal(t, "its lease is not over:", rdb.Exists(t.Context(), unprefixed.Lease(first.Node())).Val(), 0)
		time.Sleep(30 * time.Minute)
		var log lines
		other := newCoordinator(t, redistest.MiniClient(t, mini), Options{Log: slog.New(slog.NewTextHandler(&log, nil))})
		redistest.OK(t, other.Start(t.Context()))
		time.Sleep(DefaultGrace + DefaultNodeTTL)
		if about := log.about(first.Node()); len(about) != 1 || !strings.Contains(about[0], "has stopped") || !strings.Contains(about[0], "10.0.0.7:8080") {
			t.Errorf("it logs %q", about)
		}
		noOtherNodes(t, rdb, other)
	})
}

func stop(c *Coordinator) { _ = c.Close(context.Background()) }

// about returns the lines that have a word.
func (l *lines) about(word string) (about []string) {
	for line := range strings.Lines(l.String()) {
		if strings.Contains(line, word) {
			about = append(about, line)
		}
	}
	return about
}

// A node of an older version writes no address into its lease, and reads one that has it.
func TestLease_OtherVersions(t *testing.T) {
	for lease, want := range map[string]struct {
		ttl, grace time.Duration
		address    string
		ok         bool
	}{
		"7 5000 10000":               {5 * time.Second, 10 * time.Second, "", true},
		"7 5000 10000 10.0.0.7:8080": {5 * time.Second, 10 * time.Second, "10.0.0.7:8080", true},
		"7 5000 10000 a b":           {5 * time.Second, 10 * time.Second, "a", true}, // a later version's
		"7 5000":                     {},
		"7 5000 x":                   {},
		"":                           {},
	} {
		l, ok := cluster.ParseLease(lease)
		if l.Settings.NodeTTL != want.ttl || l.Settings.Grace != want.grace || ok && len(l.Settings.Strings()) != 2 || l.Address != want.address || ok != want.ok {
			t.Errorf("%q: %+v %v", lease, l, ok)
		}
	}
	synctest.Test(t, func(t *testing.T) {
		_, rdb := redistest.Mini(t)
		for address, want := range map[string]string{"": "  ", "10.0.0.7:8080": " 10.0.0.7:8080 "} {
			c := newCoordinator(t, rdb, Options{})
			redistest.OK(t, c.SetAddress(address))
			redistest.OK(t, c.Start(t.Context()))
			redistest.Equal(t, "the lease is", rdb.Get(t.Context(), unprefixed.Lease(c.Node())).Val(), "1 5000 10000"+want+"lock=3000,seats=65536,duplicate=0")
		}
	})
}

func TestOptions_BadAddress(t *testing.T) {
	_, rdb := redistest.Mini(t)
	for _, address := range []string{"a b", "a\n", "a\x00", "\xff", "a\u00a0b", strings.Repeat("x", 256)} {
		_, err := New(rdb, Options{Address: address})
		checkInvalid(t, err, "Address", address)
		checkInvalid(t, newCoordinator(t, rdb, Options{}).SetAddress(address), "Address", address)
	}
}

// A node stands still between the rules and the commit, until others have removed its members and forgotten it. Then
// the commit writes nothing: a member under a name that nobody looks after would be left for good.
func TestCommit_NodeStoodStill(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		mini, rdb := redistest.Mini(t)
		client := redistest.MiniClient(t, mini)
		c, other := newCoordinator(t, client, Options{}), newCoordinator(t, redistest.MiniClient(t, mini), Options{})
		redistest.OK(t, errors.Join(c.Start(t.Context()), other.Start(t.Context())))
		mustDo(t, c, "42", room.Join{User: "a", Session: "s"})
		mustDo(t, c, "42", room.Leave{User: "a", Session: "s"})
		var commit []any
		client.AddHook(redistest.Hook{Before: func(_ context.Context, cmd redis.Cmder) error {
			if isScript(cmd, store.CommitScript) && commit == nil {
				commit = cmd.Args()
				return io.ErrUnexpectedEOF
			}
			return nil
		}})
		expectRefused(t, "join", c, "42", room.Join{User: "b", Session: "s"}, room.ErrUnavailable)
		die(c)
		time.Sleep(2 * (DefaultNodeTTL + DefaultGrace))
		noOtherNodes(t, rdb, other)
		reply, err := rdb.Do(t.Context(), commit...).Slice()
		redistest.ErrorIf(t, err != nil || reply[0] != "stale", "the commit is answered %v, %v", reply, err)
		left := rdb.HGetAll(t.Context(), "Room:42:Users").Val()
		redistest.ErrorIf(t, len(left) > 0, "members under the old name: %v", left)
	})
}
