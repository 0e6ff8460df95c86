package checks

import (
	"fmt"
	"log/slog"
	"testing"
	"time"

	"roomd/lockmgr/redisconn/pubsub"
	"roomd/lockmgr/redistest"
	"roomd/room"
	"roomd/room/coordinator/internal/feed"
	"roomd/room/coordinator/internal/store"
	"roomd/room/ratelog"
)

// Shadows are bounded; a room takes the place of another.
func TestInvariants_ShadowsAreBounded(t *testing.T) {
	client := redistest.Start(t).Client()
	st := store.New(client, store.Options{})
	feeds := feed.New(pubsub.New(client, nil), st, nil, nil, ratelog.NewSet(slog.New(slog.DiscardHandler), time.Second))
	defer feeds.Close()
	v := New(st, feeds)
	for i := range 5 {
		id := fmt.Sprint(i)
		stop, err := feeds.Watch(t.Context(), id, func(*room.Event) {})
		redistest.OK(t, err)
		defer stop()
		v.resize(v.shadowOf(id), maxShadows/2)
		if len(v.shadows) > 2 || v.shadows[id] == nil || v.size > maxShadows {
			t.Errorf("%d shadows, of size %d", len(v.shadows), v.size)
		}
	}
	if v.shadowOf("nobody watches it") != nil {
		t.Error("a room that nobody watches has a shadow")
	}
	for id := range v.shadows {
		v.drop(id)
	}
	if v.size != 0 {
		t.Errorf("no shadow has size %d", v.size)
	}
}

// A room begins a new epoch where Redis was restarted. It differs only if members are missing besides.
func TestInvariants_RoomAfterARestart(t *testing.T) {
	_, client := redistest.Mini(t)
	st := store.New(client, store.Options{})
	feeds := feed.New(pubsub.New(client, nil), st, nil, nil, ratelog.NewSet(slog.New(slog.DiscardHandler), time.Second))
	defer feeds.Close()
	stop, err := feeds.Watch(t.Context(), "42", func(*room.Event) {})
	redistest.OK(t, err)
	defer stop()
	client.HSet(t.Context(), "Room:42:Users", "a", `{"seat":0,"session":"s","node":"n","at":1}`)
	for members, want := range map[int]string{1: "", 2: "Redis has 1 members, and not as many as the last commit has left"} {
		client.HSet(t.Context(), "Room:42:Meta", "epoch", "e", "version", 1, "mark", "m", "members", members, "incarnation", "an earlier one")
		if is, err := st.Load(t.Context(), "42"); err != nil || !is.Renewed() {
			t.Fatalf("it does not begin a new epoch: %v", err)
		}
		v := New(st, feeds)
		v.check(t.Context(), "42")
		got := ""
		if d := v.doubts["42"]; d != nil && d.of[CheckCopies] != nil {
			got = d.of[CheckCopies].what
		}
		if got != want {
			t.Errorf("of %d members: %q, want %q", members, got, want)
		}
		v.drop("42")
	}
}

func TestClashAndOverfull(t *testing.T) {
	for _, tt := range []struct {
		seats           map[string]int
		clash, overfull string
	}{
		{map[string]int{"a": 0, "b": 1}, "", ""},
		{map[string]int{"a": 1, "b": 1}, `"a" and "b" are on seat 1`, ""},
		{map[string]int{"a": 0, "b": 1, "c": 2}, "", "3 members are on 2 seats"},
		{map[string]int{"a": 0, "b": 2}, "", `"b" is on seat 2, and the last one is 1`},
	} {
		members := make(map[string]room.Member)
		for user, seat := range tt.seats {
			members[user] = room.Member{Seat: seat}
		}
		r := room.NewRoom("42", room.Position{}, members)
		if got := overfull(r); got != "" {
			t.Errorf("%v without settings: %q", tt.seats, got)
		}
		r.Restore(room.State{Settings: &room.Settings{Capacity: 2}})
		if taken, full := clash(r), overfull(r); taken != tt.clash || full != tt.overfull {
			t.Errorf("%v: %q, %q", tt.seats, taken, full)
		}
	}
}
