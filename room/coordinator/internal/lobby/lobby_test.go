package lobby

import (
	"context"
	"fmt"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"

	"roomd/lockmgr"
	"roomd/lockmgr/redistest"
	"roomd/room/coordinator/internal/store"
	"roomd/room/episode"
)

func newLobby(t testing.TB, client redis.UniversalClient) *Lobby {
	t.Helper()
	locks, err := lockmgr.New(client, lockmgr.Options{Prefix: store.LockPrefix})
	redistest.OK(t, err)
	open, shut := context.WithCancel(context.Background())
	l, err := New(open, open, locks, store.New(client, store.Options{}), 0, time.Second, episode.NewSet(slog.New(slog.DiscardHandler), time.Second))
	redistest.OK(t, err)
	t.Cleanup(func() {
		shut()
		l.Close()
		locks.Close()
	})
	return l
}

// A search ends with its time, and is whole only if it has found all.
func TestSearch_TimeIsOver(t *testing.T) {
	s := search{max: 100, end: time.Now().Add(-time.Second), whole: true}
	if s.add(nil, false) || s.whole {
		t.Error("a search whose time is over goes on, or calls itself whole")
	}
	s = search{max: 100, end: s.end, whole: true}
	if s.add(nil, true); !s.whole {
		t.Error("a search that has found all calls itself unfinished")
	}
}

// Whatever the order in which nodes write what they have done, the latest version of a room counts.
func TestNews_AnyOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, rdb := redistest.Mini(t)
		l := newLobby(t, rdb)
		get := func() (text string) {
			list, err := l.Get(t.Context())
			redistest.OK(t, err)
			for _, r := range list.Rooms {
				text += fmt.Sprintf("%s:%d/%d", r.ID, r.Members, r.Capacity)
			}
			return text
		}
		get()
		n := &news{store: l.store}
		of := func(epoch string, version uint64, members int) *change {
			return &change{Listed: Listed{ID: "42", Epoch: epoch, Version: version, Members: members}, listed: members > 0}
		}
		for _, step := range []struct {
			change *change
			want   string
		}{
			{of("e", 2, 2), "42:2/0"}, {of("e", 1, 1), "42:2/0"}, {of("e", 3, 0), ""}, {of("e", 2, 2), ""},
			{of("f", 1, 1), "42:1/0"}, {of("f", 1, 3), "42:1/0"}, {of("f", 2, 3), "42:3/0"},
		} {
			n.rooms = map[string]*change{"42": step.change}
			redistest.OK(t, n.save(t.Context()))
			time.Sleep(lobbyShare)
			if got := get(); got != step.want {
				t.Errorf("after %+v: %q, want %q", step.change.Listed, got, step.want)
			}
		}
	})
}

// BenchmarkLobby measures a search for 20,000 rooms of Redis, and a request meanwhile.
func BenchmarkLobby(b *testing.B) {
	client := redistest.Start(b).Client()
	_, _ = client.Pipelined(b.Context(), func(p redis.Pipeliner) error {
		for i := range Max {
			p.HSet(b.Context(), fmt.Sprintf("Room:table-%d:Meta", i), "version", 1, "members", i%5, "settings", `{"capacity":4}`)
			p.HSet(b.Context(), fmt.Sprintf("Room:table-%d:Users", i), "x", "{}")
		}
		return nil
	})
	l := newLobby(b, client)
	b.Run("search", func(b *testing.B) {
		for b.Loop() {
			if _, err := l.load(b.Context()); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("decode", func(b *testing.B) {
		value, _ := l.load(b.Context())
		b.SetBytes(int64(len(value)))
		for b.Loop() {
			l.found = nil
			if _, err := l.decode(value); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("request", func(b *testing.B) {
		worst := time.Duration(0)
		for b.Loop() {
			start := time.Now()
			list, err := l.Get(b.Context())
			if err != nil || len(list.Rooms) != Max {
				b.Fatal(err)
			}
			worst = max(worst, time.Since(start))
		}
		b.ReportMetric(float64(worst.Microseconds())/1000, "worst-ms")
	})
}
