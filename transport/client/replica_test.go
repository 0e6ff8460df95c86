package client

import (
	"fmt"
	"maps"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"roomd/lockmgr/redistest"
	"roomd/transport/protocol"

	"roomd/room"
)

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
	return &protocol.Reply{Room: "42", Epoch: m.view.Epoch, Version: m.view.Version, State: protocol.State{Users: m.view.Users, Data: m.view.Data, Settings: &settings}}
}

// However the server merges events, replaces them by a snapshot or loses the connection, and whether
// a reader lags or not: the room, and what each reader makes of the changes, is the server's room.
func TestReplica_AnyStream(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		c := &Client{link{rooms: map[string]*Room{}}}
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
				new(session).restoredByLocked(&r.membership, protocol.ActionWatch, m.reply())
			case 1:
				v := m.reply()
				c.event(&protocol.Event{Event: protocol.EventSnapshot, Room: "42", Epoch: v.Epoch, Version: v.Version, State: protocol.State{Users: v.Users, Data: v.Data, Settings: v.Settings}})
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
	for _, c := range r.replica.take(f.feed) {
		if c.Type == ChangeSnapshot {
			f.copy = replica{view: *c.View, lent: true}
			continue
		}
		redistest.FatalIf(t, c.Version < f.copy.view.Version,
			"%s of version %d behind version %d", c.Type, c.Version, f.copy.view.Version)
		f.copy.change(&c)
		f.copy.view.Epoch, f.copy.view.Version = c.Epoch, c.Version
	}
}

// The end of a timer is by this client's clock, and a view that was given away keeps its own.
func TestReplica_Timers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		now := time.Now()
		var r replica
		r.replace("e", 1, &protocol.State{Timers: protocol.Timers{"turn": 5000, "game": 0}}, "a")
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
		want := map[string]time.Time{"turn": now.Add(6 * time.Second)}
		redistest.ErrorIf(t, !maps.EqualFunc(r.view.Timers, want, time.Time.Equal), "%v, want %v", r.view.Timers, want)
		at(4, protocol.Change{Type: "countdown", Name: "turn"})
		redistest.ErrorIf(t, r.view.Timers != nil, "%v, want none", r.view.Timers)
		if want := map[string]time.Time{"turn": now.Add(5 * time.Second), "game": now}; !maps.EqualFunc(first.Timers, want, time.Time.Equal) {
			t.Errorf("the first view is %v, want %v", first.Timers, want)
		}
	})
}
