package client

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"roomd/transport/protocol"

	"roomd/room"
)

func TestReplica_Events(t *testing.T) {
	t.Parallel()
	admins := &room.Settings{Capacity: 2, Data: room.DataAdmins}
	start := View{Epoch: "e", Version: 4, Data: "1", Member: true, Users: []protocol.Seated{{User: "a", Seat: 0}, {User: "c", Seat: 2, Ready: true}}}
	changes := func(from, version uint64, list ...protocol.Change) *protocol.Event {
		return &protocol.Event{Event: protocol.EventChanges, Epoch: "e", From: from, Version: version, Changes: list}
	}
	for _, tt := range []struct {
		name  string
		event *protocol.Event
		want  bool
		view  func(*View)
	}{
		{"join", changes(4, 5, protocol.Change{Type: "join", User: "b", Seat: 1, Away: true}), true, func(v *View) { v.Users = []protocol.Seated{v.Users[0], {User: "b", Seat: 1, Away: true}, v.Users[1]} }},
		{"leave", changes(4, 5, protocol.Change{Type: "leave", User: "a"}), true, func(v *View) { v.Users = v.Users[1:] }},
		{"a seat changes hands", changes(4, 6, protocol.Change{Type: "leave", User: "c", Seat: 2}, protocol.Change{Type: "join", User: "d", Seat: 2}), true, func(v *View) { v.Version, v.Users = 6, []protocol.Seated{v.Users[0], {User: "d", Seat: 2}} }},
		{"away", changes(4, 5, protocol.Change{Type: "away", User: "c", Seat: 2}), true, func(v *View) { v.Users[1].Away = true }},
		{"away and back", changes(4, 6, protocol.Change{Type: "away", User: "c"}, protocol.Change{Type: "back", User: "c"}), true, func(v *View) { v.Version = 6 }},
		{"member", changes(4, 5, protocol.Change{Type: "member", User: "c", Seat: 2, Data: "7"}), true, func(v *View) { v.Users[1].Data = "7" }},
		{"ready", changes(4, 5, protocol.Change{Type: "member", User: "c", Seat: 2, Ready: new(false)}), true, func(v *View) { v.Users[1].Ready = false }},
		{"no data of a member", changes(4, 5, protocol.Change{Type: "member", User: "c", Seat: 2, Data: "null"}), true, func(v *View) { v.Users[1].Data = "" }},
		{"data", changes(4, 5, protocol.Change{Type: "data", User: "a", Data: "2"}), true, func(v *View) { v.Data = "2" }},
		{"no data", changes(4, 5, protocol.Change{Type: "data"}), true, func(v *View) { v.Data = "" }},
		{"settings", changes(4, 5, protocol.Change{Type: "settings", Settings: admins}), true, func(v *View) { v.Settings = *admins }},
		{"two swap", changes(4, 5, protocol.Change{Type: "seat", User: "a", Seat: 2}, protocol.Change{Type: "seat", User: "c", Seat: 0}), true,
			func(v *View) {
				v.Users = []protocol.Seated{{User: "c", Seat: 0, Ready: true}, {User: "a", Seat: 2}}
				v.Seat = 2
			}},
		{"a timer of others is cancelled", changes(4, 5, protocol.Change{Type: "countdown", Name: "turn"}), true, nil},
		{"a timer that has fired", changes(4, 5, protocol.Change{Type: "timer", Name: "turn"}), true, nil},
		{"message", changes(4, 5, protocol.Change{Type: "message", User: "a", Text: "hi", Data: "3"}), true, nil},
		{"of tomorrow", changes(4, 5, protocol.Change{Type: "dance", User: "a", Data: "3"}), true, nil},
		{"nothing", changes(4, 5), true, nil},
		{"gap", changes(5, 6, protocol.Change{Type: "data", Data: "2"}), false, func(v *View) { v.Version = 4 }},
		{"twice", changes(3, 4, protocol.Change{Type: "data", Data: "2"}), false, func(v *View) { v.Version = 4 }},
		{"another epoch", &protocol.Event{Event: "changes", Epoch: "f", From: 4, Version: 5}, false, func(v *View) { v.Version = 4 }},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := replica{view: start}
			r.view.Users = slices.Clone(start.Users)
			before := r.share()
			want := start
			want.Version = 5
			want.Users = append([]protocol.Seated(nil), start.Users...)
			if tt.view != nil {
				tt.view(&want)
			}
			if got := r.apply(tt.event, "a"); got != tt.want || !reflect.DeepEqual(r.view, want) {
				t.Errorf("applied: %v\ngot  %+v\nwant %+v", got, r.view, want)
			}
			if !reflect.DeepEqual(before, start) {
				t.Errorf("a view that was given away became %+v", before)
			}
		})
	}
	replaced := replica{view: start}
	replaced.replace(&protocol.Event{Epoch: "f", Version: 1, Settings: admins}, "a")
	if want := (View{Epoch: "f", Version: 1, Settings: *admins, Member: true}); !reflect.DeepEqual(replaced.view, want) {
		t.Errorf("after a snapshot: %+v", replaced.view)
	}
	began := replica{view: View{Users: []protocol.Seated{}}}
	if got := began.apply(changes(0, 1, protocol.Change{Type: "join", User: "a"}), "a"); !got || began.view.Epoch != "e" {
		t.Errorf("the first event of a room: %v, %+v", got, began.view)
	}
}

// modelRoom is a server's room, one event a version.
type modelRoom struct {
	view View
	log  []protocol.Event
}

// step commits any change that the room allows.
func (m *modelRoom) step(t *rapid.T) {
	name := rapid.SampledFrom([]string{"a", "b", "c", "d"}).Draw(t, "user")
	u, in := m.view.User(name)
	data := protocol.JSON(rapid.SampledFrom([]string{"", "1", "2"}).Draw(t, "data"))
	change := protocol.Change{Type: protocol.ChangeMessage, User: name, Text: "hi"}
	switch kind := rapid.IntRange(0, 7).Draw(t, "kind"); {
	case kind < 3 && !in:
		seat := 0
		for taken := true; taken; seat++ {
			taken = false
			for _, other := range m.view.Users {
				taken = taken || other.Seat == seat
			}
			if !taken {
				break
			}
		}
		change = protocol.Change{Type: protocol.ChangeJoin, User: name, Seat: seat}
	case kind == 3 && in:
		change = protocol.Change{Type: protocol.ChangeLeave, User: name, Seat: u.Seat}
	case kind == 4 && in:
		change = protocol.Change{Type: map[bool]string{true: "back", false: "away"}[u.Away], User: name, Seat: u.Seat}
	case kind == 5 && in:
		change = protocol.Change{Type: protocol.ChangeMember, User: name, Seat: u.Seat, Data: data}
		if rapid.Bool().Draw(t, "ready") {
			change.Ready = new(!u.Ready)
		}
		if data == "" && rapid.Bool().Draw(t, "removed") {
			change.Data = "null"
		}
	case kind == 6:
		change = protocol.Change{Type: protocol.ChangeData, User: name, Data: data}
	case kind == 7:
		change = protocol.Change{Type: protocol.ChangeSettings, Settings: &room.Settings{Capacity: rapid.IntRange(0, 9).Draw(t, "capacity")}}
	}
	m.commit(change)
}

// commit keeps the room as a plain list, written again for each change.
func (m *modelRoom) commit(c protocol.Change) {
	v := m.view
	var users [10]*protocol.Seated
	for _, u := range v.Users {
		users[u.Seat] = &u
	}
	switch u := users[c.Seat]; c.Type {
	case protocol.ChangeJoin:
		users[c.Seat] = &protocol.Seated{User: c.User, Seat: c.Seat}
	case protocol.ChangeLeave:
		users[c.Seat] = nil
	case protocol.ChangeAway, protocol.ChangeBack:
		u.Away = c.Type == protocol.ChangeAway
	case protocol.ChangeMember:
		if c.Ready != nil {
			u.Ready = *c.Ready
		}
		if c.Data != "" {
			u.Data = map[bool]protocol.JSON{true: "", false: c.Data}[c.Data == "null"]
		}
	case protocol.ChangeData:
		v.Data = c.Data
	case protocol.ChangeSettings:
		v.Settings = *c.Settings
	}
	v.Epoch, v.Version, v.Users = "e", v.Version+1, []protocol.Seated{}
	for _, u := range users {
		if u != nil {
			v.Users = append(v.Users, *u)
		}
	}
	m.log = append(m.log, protocol.Event{
		Event: protocol.EventChanges, Epoch: "e", From: m.view.Version, Version: v.Version, Changes: []protocol.Change{c},
	})
	m.view = v
}

func (m *modelRoom) reply() *protocol.Reply {
	settings := m.view.Settings
	return &protocol.Reply{Room: "42", Epoch: m.view.Epoch, Version: m.view.Version, Users: m.view.Users, Data: m.view.Data, Settings: &settings}
}

// However the server merges events, replaces them by a snapshot or loses the connection, and whether
// a reader lags or not: the room, and what each reader makes of the changes, is the server's room.
func TestReplica_AnyStream(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		c := &Client{rooms: map[string]*Room{}, changed: make(chan struct{})}
		m := &modelRoom{view: View{Users: []protocol.Seated{}}}
		r := c.openLocked("42")
		r.enteredLocked(protocol.ActionWatch, m.reply())
		follower := &reader{feed: r.subscribe()}
		for range rapid.IntRange(1, 30).Draw(t, "rounds") {
			seen := len(m.log)
			for range rapid.IntRange(0, 5).Draw(t, "commits") {
				m.step(t)
			}
			switch rapid.IntRange(0, 5).Draw(t, "delivery") {
			case 0:
				r.disconnectedLocked()
				new(session).restoredByLocked(r, protocol.ActionWatch, m.reply())
			case 1:
				v := m.reply()
				c.event(&protocol.Event{Event: protocol.EventSnapshot, Room: "42", Epoch: v.Epoch, Version: v.Version, Users: v.Users, Data: v.Data, Settings: v.Settings})
			case 2: // the list of another request; no reader hears of the same twice
				c.event(merge(m.log[seen:]))
				r.enteredLocked(protocol.ActionWatch, m.reply())
			default:
				for len(m.log) > seen {
					n := rapid.IntRange(1, len(m.log)-seen).Draw(t, "merged")
					c.event(merge(m.log[seen : seen+n]))
					seen += n
				}
			}
			if rapid.Bool().Draw(t, "reads") {
				follower.read(t, r)
				if want := m.view; follower.copy.view.Version != want.Version {
					t.Fatalf("the reader is at version %d, want %d", follower.copy.view.Version, want.Version)
				}
			}
		}
		follower.read(t, r)
		got := r.View()
		got.Watching, got.Seat = false, 0
		for name, v := range map[string]View{"room": got, "reader": follower.copy.view} {
			if v.Watching, v.Seat = false, 0; fmt.Sprint(v) != fmt.Sprint(m.view) {
				t.Fatalf("the %s has\n%+v\nwant\n%+v", name, v, m.view)
			}
		}
	})
}

// merge makes one event of several. Without any it is an event that the room does not get.
func merge(events []protocol.Event) *protocol.Event {
	if len(events) == 0 {
		return &protocol.Event{Event: "nothing", Room: "42"}
	}
	merged := protocol.Event{Event: protocol.EventChanges, Room: "42", Epoch: "e", From: events[0].From, Version: events[len(events)-1].Version}
	for _, e := range events {
		merged.Changes = append(merged.Changes, e.Changes...)
	}
	return &merged
}

// reader keeps a copy of a room by the changes alone.
type reader struct {
	feed *feed
	copy replica
}

func (f *reader) read(t *rapid.T, r *Room) {
	batch, _, _ := r.take(f.feed)
	for _, c := range batch {
		if c.Type == ChangeSnapshot {
			f.copy = replica{view: *c.View, lent: true}
			continue
		}
		if c.Version < f.copy.view.Version {
			t.Fatalf("%s of version %d behind version %d", c.Type, c.Version, f.copy.view.Version)
		}
		f.copy.change(&c)
		f.copy.view.Epoch, f.copy.view.Version = c.Epoch, c.Version
	}
}

// The end of a timer is by this client's clock, and a view that was given away keeps its own.
func TestReplica_Timers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		now := time.Now()
		var r replica
		r.replace(&protocol.Event{Epoch: "e", Version: 1, Timers: protocol.Timers{"turn": 5000, "game": 0}}, "a")
		first := r.share()
		time.Sleep(time.Second)
		at := func(version uint64, c protocol.Change) {
			t.Helper()
			if !r.apply(&protocol.Event{Event: protocol.EventChanges, Epoch: "e", From: version - 1, Version: version, Changes: []protocol.Change{c}}, "a") {
				t.Fatal("it does not fit")
			}
		}
		at(2, protocol.Change{Type: "timer", Name: "game"})
		at(3, protocol.Change{Type: "countdown", Name: "turn", In: new(int64(5000))})
		if want := map[string]time.Time{"turn": now.Add(6 * time.Second)}; !maps.EqualFunc(r.view.Timers, want, time.Time.Equal) {
			t.Errorf("%v, want %v", r.view.Timers, want)
		}
		at(4, protocol.Change{Type: "countdown", Name: "turn"})
		if r.view.Timers != nil {
			t.Errorf("%v, want none", r.view.Timers)
		}
		if want := map[string]time.Time{"turn": now.Add(5 * time.Second), "game": now}; !maps.EqualFunc(first.Timers, want, time.Time.Equal) {
			t.Errorf("the first view is %v, want %v", first.Timers, want)
		}
	})
}
