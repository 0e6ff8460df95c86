package check

import (
	"slices"
	"testing"
)

// played returns a good history of all that rooms can do besides: 张三 and 李四 find a table, whose host 张三 sets a timer that
// fires and sets data, has them change places, and throws 李四 out.
func played() *History {
	begins := Settings{Capacity: 2, Host: Longest, Labels: `{"mode":"ranked"}`}
	list := func(users ...Member) *List { return &List{Users: users, Settings: begins, Host: "张三"} }
	h := &History{Rooms: []string{room42}, End: ms(1000)}
	h.Ops = []*Op{
		{Process: "张三", Action: Match, Settings: &begins, Outcome: Done, Version: 1, Count: 1, List: list(Member{User: "张三"})},
		{Process: "李四", Action: Match, Settings: &begins, Outcome: Done, Seat: 1, Version: 2, Count: 2, List: list(Member{User: "张三"}, Member{User: "李四", Seat: 1})},
		{Process: "张三", Action: SetTimer, Name: "turn", Value: "fired-1", Outcome: Done, Version: 3, Count: 2},
		{Process: "张三", Action: Shuffle, AsHost: true, Outcome: Done, Version: 5, Count: 2},
		{Process: "张三", Action: Swap, Users: []string{"张三", "李四"}, AsHost: true, Outcome: Done, Version: 6, Count: 2},
		{Process: "李四", Action: Read, Outcome: Done, Version: 6, Count: 2, List: list(Member{User: "张三"}, Member{User: "李四", Seat: 1})},
		{Process: "张三", Action: Kick, Users: []string{"李四"}, AsHost: true, Outcome: Done, Version: 7, Count: 1},
	}
	h.Ops[5].List.Data = "fired-1"
	for i, op := range h.Ops {
		op.ID, op.Room, op.Call, op.Return, op.Epoch = i+1, room42, ms(100*i+10), ms(100*i+50), epoch1
	}
	h.Journals = map[string][]Entry{room42: {
		{Epoch: epoch1, Version: 1, Changes: []Change{{Type: "join", User: "张三"}, {Type: "settings", Settings: &begins}, {Type: "host", User: "张三"}}},
		{Epoch: epoch1, Version: 2, Changes: []Change{{Type: "join", User: "李四", Seat: 1}}},
		{Epoch: epoch1, Version: 3, Changes: []Change{{Type: "countdown", User: "张三", Name: "turn", Set: true}}},
		{Epoch: epoch1, Version: 4, Changes: []Change{{Type: "timer", Name: "turn"}, {Type: "data", Data: "fired-1"}}},
		{Epoch: epoch1, Version: 5, Changes: []Change{{Type: "seat", User: "张三", Seat: 1}, {Type: "seat", User: "李四"}}},
		{Epoch: epoch1, Version: 6, Changes: []Change{{Type: "seat", User: "张三"}, {Type: "seat", User: "李四", Seat: 1}}},
		{Epoch: epoch1, Version: 7, Changes: []Change{{Type: "leave", User: "李四", Seat: 1, Reason: "kicked"}}},
	}}
	h.Conns = []Conn{{User: "张三", Last: ms(990), Open: true}, {User: "李四", Last: ms(990), Open: true}}
	return h
}

func TestWitness_Played(t *testing.T) {
	for _, tt := range []struct {
		what, rule string
		spoil      func(h *History)
	}{
		{"all is well", "", func(*History) {}},
		{"a timer that fires twice", "twice", func(h *History) { h.entries()[5].Changes = append(h.entries()[5].Changes, h.entries()[3].Changes[0]) }},
		{"a timer that never fires", "timer", func(h *History) { h.entries()[3].Changes = h.entries()[3].Changes[1:] }},
		{"a timer that is missing", "lost", func(h *History) { h.entries()[2].Changes = nil }},
		{"a timer that a list has not", "reply", func(h *History) { h.Ops[5].List.Timers = []string{"turn"} }},
		{"a shuffle of nobody", "lost", func(h *History) { h.entries()[4].Changes, h.entries()[5].Changes = nil, nil }},
		{"a swap that leaves one on the seat", "seat", func(h *History) { h.entries()[5].Changes = h.entries()[5].Changes[:1] }},
		{"a swap to a free seat", "seat", func(h *History) { h.entries()[5].Changes[1].Seat = 7 }},
		{"a shuffle that nobody asked for", "phantom", func(h *History) { h.Ops = slices.Delete(h.Ops, 3, 4) }},
		{"a move that nobody asked for", "phantom", func(h *History) { h.entries()[6].Changes[0].Reason = "moved" }},
		{"another host in a list", "reply", func(h *History) { h.Ops[5].List.Host = "李四" }},
		{"no host", "host", func(h *History) { h.entries()[0].Changes = h.entries()[0].Changes[:2] }},
		{"a host who has left", "host", func(h *History) { h.entries()[6].Changes[0].User, h.entries()[6].Changes[0].Seat = "张三", 0 }},
		{"who is not the host", "rights", func(h *History) { h.Ops[3].Process = "李四" }},
		{"a match without labels", "match", func(h *History) { h.entries()[0].Changes[1].Settings = &Settings{Capacity: 2, Host: Longest} }},
		{"a match that finds no seat", "match", func(h *History) { h.Ops = append(h.Ops, &Op{Action: Match, Outcome: Refused, Code: "room_full"}) }},
	} {
		h := played()
		tt.spoil(h)
		v := Witness(h)
		if found := slices.ContainsFunc(v.Violations, func(v Violation) bool { return v.Rule == tt.rule }); found != (tt.rule != "") || tt.rule == "" && len(v.Violations) > 0 {
			t.Errorf("%s: no violation of %q, but %v", tt.what, tt.rule, v.Violations)
		}
	}
}

func TestLinearize_Played(t *testing.T) {
	lost := func(h *History, i int) { h.Ops[i].Outcome, h.Ops[i].Version, h.Ops[i].Return = Unknown, 0, 0 }
	for what, tt := range map[string]struct {
		ok    bool
		spoil func(h *History)
	}{
		"all is well":          {true, func(*History) {}},
		"the data of no timer": {false, func(h *History) { h.Ops[5].List.Data = "fired-2" }},
		"a swap that is not seen": {false, func(h *History) {
			h.Ops[3].Action, h.Ops[3].Users = Swap, h.Ops[4].Users
			h.Ops[4].Action, h.Ops[4].Users = Say, nil
		}},
		"a shuffle that may have been": {true, func(h *History) { lost(h, 3); h.Ops[5].List.Users[0].Seat, h.Ops[5].List.Users[1].Seat = 1, 0 }},
		"who sits elsewhere by nothing": {false, func(h *History) {
			h.Ops = slices.Delete(h.Ops, 3, 5)
			h.Ops[3].List.Users[0].Seat, h.Ops[3].List.Users[1].Seat = 1, 0
		}},
		"a swap with a stranger":     {false, func(h *History) { h.Ops[4].Users[1] = "王五" }},
		"a match that may have been": {true, func(h *History) { lost(h, 1); h.Ops[1].Room = "" }},
		"a match into a closed room": {false, func(h *History) { h.Ops[0].List.Settings.Closed = true }},
	} {
		h := played()
		tt.spoil(h)
		if v := Linearize(h, DefaultPatience); (len(v.Violations) == 0) != tt.ok || len(v.Unsure) > 0 {
			t.Errorf("%s: %v", what, v.Violations)
		}
	}
}
