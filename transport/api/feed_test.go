package api

import (
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json"

	"roomd/lockmgr/redistest"
	"roomd/room"
	"roomd/room/coordinator"
	"roomd/transport/auth"
)

// pageOf reads a page of the feed until it has so many entries.
func (w *world) pageOf(path, token string, entries int) (page feedPage) {
	w.t.Helper()
	redistest.Until(w.t, "the feed has what was committed", func() bool {
		page = feedPage{}
		r := w.do(call{method: "GET", path: path, token: token, status: 200})
		redistest.OK(w.t, json.Unmarshal(r.body, &page))
		return len(page.Entries) == entries
	})
	return page
}

// Admins hear all commits of the rooms that their tokens allow, private data included; nobody else hears any.
func TestFeed_Pages(t *testing.T) {
	w := newWorld(t, true, Options{Rate: -1})
	admin, some := sign(t, "ops", auth.RoleAdmin), sign(t, "some", auth.RoleAdmin, "b*")
	w.join("a1", "ann", "bob")
	w.join("b1", "ann")
	w.do(call{method: "PUT", path: "/api/rooms/b1/members/ann/private", body: `{"data":"AS KD"}`, token: admin, status: 200})
	w.do(call{method: "POST", path: "/api/rooms/a1/messages", body: `{"text":"hello"}`, token: admin, status: 200})
	all := w.pageOf("/api/feed", admin, 5)
	if all.Next == "" || all.More || all.Entries[4].Next != all.Next {
		t.Errorf("%+v", all)
	}
	w.pageOf("/api/feed?after="+all.Entries[2].Next, admin, 2)
	w.pageOf("/api/feed?after="+all.Next, admin, 0)
	if first := w.pageOf("/api/feed?limit=2", admin, 2); !first.More {
		t.Error("two of five, and there is no more")
	}
	w.pageOf("/api/feed?room=a*", admin, 3)
	w.pageOf("/api/feed?room=a*&room=b1", admin, 5)
	if said := w.pageOf("/api/feed?kind=message", admin, 1); said.Entries[0].Changes[0].Text != "hello" || said.Next != all.Next {
		t.Errorf("%+v", said)
	}
	limited := w.pageOf("/api/feed", some, 2)
	if dealt := limited.Entries[1]; dealt.Room != "b1" || string(dealt.Changes[0].Data) != `{"data":"AS KD"}` || dealt.Version != 2 {
		t.Errorf("%+v", dealt)
	}
	w.pageOf("/api/feed?room=a*", some, 0)
	w.do(call{method: "GET", path: "/api/feed", token: sign(t, "p", auth.RolePlayer), status: 403})
	w.do(call{method: "GET", path: "/api/feed", status: 401})
	for query, field := range map[string]string{"room=%5B": "room", "kind=x": "kind", "after=x": "after", "limit=0": "limit", "watch&limit=1": "watch", "x=1": "x"} {
		w.do(call{method: "GET", path: "/api/feed?" + query, token: admin, status: 400, want: []string{field}})
	}
}

// Who watches goes on behind Last-Event-ID, also of an event that was not for it, and hears nothing of other rooms.
func TestFeed_Watch(t *testing.T) {
	w := newWorld(t, true, Options{Rate: -1})
	admin, some := sign(t, "ops", auth.RoleAdmin), sign(t, "some", auth.RoleAdmin, "b*")
	w.join("a1", "ann")
	w.pageOf("/api/feed", admin, 1)
	w.join("b1", "ann")
	all := w.pageOf("/api/feed", admin, 2)
	heard := func(l *lobbyWatch, room string, version string) (id string) {
		t.Helper()
		for {
			line := redistest.Receive(t, l.lines, "an event")
			if next, ok := strings.CutPrefix(line, "id: "); ok {
				id = next
			}
			if strings.HasPrefix(line, "data: ") {
				if !strings.Contains(line, `"room":"`+room+`"`) || !strings.Contains(line, `"version":`+version+`,`) {
					t.Errorf("%s instead of room %s, version %s", line, room, version)
				}
				return id
			}
		}
	}
	l := w.watch("/api/feed?watch", some)
	heard(l, "b1", "1")
	behind := w.watch("/api/feed?watch", admin, "Last-Event-ID", all.Entries[0].Next)
	heard(behind, "b1", "1")
	w.join("a1", "bob")
	heard(behind, "a1", "2")
	w.join("b1", "bob")
	heard(behind, "b1", "2")
	if id := heard(l, "b1", "2"); id == "" {
		t.Error("an event has no id")
	}
	w.do(call{method: "GET", path: "/api/feed?watch", token: admin, headers: []string{"Last-Event-ID", "x"}, status: 400})
	w.api.EndWatches()
	for range l.lines {
	}
}

// noFeed are the rooms of a node without a feed.
type noFeed struct{ Rooms }

func (noFeed) HasFeed() bool { return false }

func (w *world) tryNoFeed() {
	w.t.Helper()
	w.api.rooms = noFeed{w.rooms}
	w.do(call{method: "GET", path: "/api/feed", operator: true, status: 404, want: []string{"--feed"}})
}

// A gap says what is missing, and has the room as who has authority over it sees that.
func TestFeed_Gap(t *testing.T) {
	w := newWorld(t, false, Options{})
	w.join("a1", "ann")
	now, err := w.rooms.Read(t.Context(), "a1")
	redistest.OK(t, err)
	e := coordinator.FeedEntry{Next: "1-1", Room: "a1", Gap: &coordinator.FeedGap{After: room.Position{Epoch: "e", Version: 2}, Before: room.Position{Epoch: "e", Version: 7}, Now: &now}}
	e.Time = time.UnixMilli(0)
	text := string(EncodeFeedEntry(&e, 0))
	for _, part := range []string{`{"next":"1-1","room":"a1","time":"1970-01-01T00:00:00Z","gap":{"after":{"epoch":"e","version":2},"before":{"epoch":"e","version":7},"state":{"room":"a1"`, `"users":[{"user":"ann"`} {
		if !strings.Contains(text, part) {
			t.Errorf("%s without %s", text, part)
		}
	}
}
