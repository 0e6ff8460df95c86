package check

import (
	"cmp"
	"slices"
	"testing"
)

func TestWitness_Finds(t *testing.T) {
	for _, tt := range []struct {
		what, rule string
		spoil      func(h *History)
	}{
		{"an acknowledged version that the journal has not", "lost", func(h *History) { h.Journals[room42] = h.entries()[:5] }},
		{"an acknowledged join that its commit has not", "lost", func(h *History) { h.entries()[2].Changes = nil }},
		{"an acknowledged message that its commit has not", "lost", func(h *History) { h.entries()[4].Changes[0].Text = "say-9" }},
		{"data that are there twice", "twice", func(h *History) {
			h.Journals[room42] = append(h.entries(), Entry{Epoch: epoch1, Version: 8, Changes: []Change{{Type: "data", Data: "data-1"}}})
		}},
		{"a refused set that is there", "refused", func(h *History) {
			h.Journals[room42] = append(h.entries(), Entry{Epoch: epoch1, Version: 8, Changes: []Change{{Type: "data", User: "李四", Data: "data-2"}}})
		}},
		{"a join of whom nobody let in", "phantom", func(h *History) {
			h.Journals[room42] = append(h.entries(), Entry{Epoch: epoch1, Version: 8, Changes: []Change{{Type: "join", User: "王五"}}})
		}},
		{"data that nobody set", "phantom", func(h *History) {
			h.Journals[room42] = append(h.entries(), Entry{Epoch: epoch1, Version: 8, Changes: []Change{{Type: "data", Data: "data-77"}}})
		}},
		{"a list without a member", "reply", func(h *History) { h.Ops[8].List.Users = nil }},
		{"a list with other data", "reply", func(h *History) { h.Ops[8].List.Data = "" }},
		{"a list with other settings", "reply", func(h *History) { h.Ops[8].List.Settings.Capacity = 3 }},
		{"a wrong count", "reply", func(h *History) { h.Ops[7].Count = 2 }},
		{"a snapshot that is not so", "reply", func(h *History) {
			h.Events = append(h.Events, Event{Conn: 1, User: "李四", Frame: &Frame{Room: room42, Epoch: epoch1, Version: 5, List: &List{}}})
		}},
		{"a read behind a later one", "order", func(h *History) { h.Ops[8].Version, h.Ops[8].List = 5, nil }},
		{"two writes of one version, one after the other", "order", func(h *History) {
			h.Ops[6].Version = 4
			h.entries()[3].Changes = append(h.entries()[3].Changes, h.entries()[4].Changes...)
			h.entries()[4].Changes = nil
		}},
		{"a gap", "gap", func(h *History) { h.Journals[room42] = slices.Delete(h.entries(), 4, 5) }},
		{"a seat twice", "seat", func(h *History) { h.entries()[2].Changes[0].Seat = 0 }},
		{"a leave of who is not there", "phantom", func(h *History) { h.entries()[5].Changes[0].User = "王五" }},
		{"an event that says something else", "event", func(h *History) { h.Events[1].Changes[0].Seat = 3 }},
		{"an event that is missing", "event", func(h *History) { h.Events = slices.Delete(h.Events, 2, 3) }},
		{"an event that comes twice", "event", func(h *History) { h.Events = slices.Insert(h.Events, 2, h.Events[1]) }},
		{"a message that is not delivered", "event", func(h *History) { h.Events[3].Changes = nil }},
		{"a message with other words", "event", func(h *History) { h.Events[3].Changes[0].Text = "say-9" }},
		{"who leaves for another reason", "event", func(h *History) { h.Events[4].Changes[0].Reason = "moved" }},
		{"who is told to have lost the seat for another reason", "event", func(h *History) { h.Events[5].Lost = "moved" }},
		{"a user who joins twice", "twice", func(h *History) { h.entries()[3].Changes = append(h.entries()[3].Changes, h.entries()[2].Changes...) }},
		{"a join into a closed room", "closed", func(h *History) { h.Ops[0].Settings.Closed = true }},
		{"who came in spite of a ban", "banned", func(h *History) {
			h.entries()[1].Changes = append(h.entries()[1].Changes, Change{Type: "ban", User: "李四", Until: 100})
			h.entries()[2].Changes[0].At = 99
		}},
		{"a seat beyond the capacity", "oversold", func(h *History) { h.Ops[0].Settings.Capacity = 1 }},
		{"more members than seats", "oversold", func(h *History) {
			h.entries()[4].Changes = append(h.entries()[4].Changes, Change{Type: "settings", Settings: &Settings{Capacity: 1}})
		}},
		{"an acknowledged leave that its commit has not", "lost", func(h *History) { h.entries()[5].Changes = nil }},
		{"a seat that there is not", "oversold", func(h *History) { h.entries()[2].Changes[0].Seat = 2 }},
		{"a compare-and-set in spite of a change", "conflict", func(h *History) {
			*h.Ops[5].Expect, h.Ops[5].Outcome, h.Ops[5].Value, h.Ops[5].Version = 3, Done, "say-1", 5
		}},
		{"a conflict without a reason", "conflict", func(h *History) { *h.Ops[5].Expect = 4 }},
		{"half of a party", "torn", func(h *History) { h.Ops[2].Action, h.Ops[2].Users = Reserve, []string{"李四", "王五"} }},
		{"half of a deal", "torn", func(h *History) {
			h.Ops[6].Action, h.Ops[6].Users, h.Ops[6].Value = Deal, []string{"张三", "李四"}, "hand-1"
			h.entries()[4].Changes = []Change{{Type: "private", User: "李四", Seat: 1, Data: "hand-1"}}
		}},
		{"an epoch that begins although nothing is lost", "gap", func(h *History) {
			h.Journals[room42] = append(h.entries()[:6:6], Entry{Epoch: epoch2, Version: 7, Changes: h.entries()[6].Changes})
		}},
		{"other data in Redis", "reply", func(h *History) { h.inRedis(func(l *List) { l.Data = "data-9" }) }},
		{"other settings in Redis", "reply", func(h *History) { h.inRedis(func(l *List) { l.Settings.Closed = true }) }},
		{"another state of a member in Redis", "reply", func(h *History) { h.inRedis(func(l *List) { l.Users[0].Ready = true }) }},
		{"a member who is not in Redis", "reply", func(h *History) { h.inRedis(func(l *List) { l.Users = nil }) }},
		{"private data in Redis that nobody set", "reply", func(h *History) { h.inRedis(func(l *List) { l.Private = map[string]string{"张三": "own-9"} }) }},
		{"an older version in Redis", "order", func(h *History) { h.inRedis(func(*List) {}); h.Ops[10].Version, h.Ops[10].List = 5, nil }},
	} {
		h := good()
		tt.spoil(h)
		v := Witness(h)
		if !slices.ContainsFunc(v.Violations, func(v Violation) bool { return v.Rule == tt.rule }) {
			t.Errorf("%s: no violation of %q, but %v", tt.what, tt.rule, v.Violations)
		}
	}
}

// inRedis adds that Redis was read behind version 6.
func (h *History) inRedis(spoil func(*List)) {
	l := &List{All: true, Users: []Member{{User: "张三"}}, Data: "data-1", Settings: Settings{Capacity: 2}}
	spoil(l)
	h.Ops = append(h.Ops, &Op{ID: 11, Process: "Redis", Room: room42, Action: Read, Outcome: Done, Epoch: epoch1, Version: 6, Count: 1, Call: ms(870), Return: ms(880), List: l})
}

func TestWitness_Redis(t *testing.T) {
	h := good()
	h.inRedis(func(*List) {})
	if v := Witness(h); len(v.Violations) > 0 {
		t.Errorf("%v", v.Violations)
	}
}

// Where there is no journal, what watchers were told stands for it. It has neither whispers nor private data, and may begin in the middle, tell several
// commits at once, or go on with a list where something was missed; what is known all the same is judged.
func TestWitness_Watched(t *testing.T) {
	for _, tt := range []struct {
		what, rule string
		missing    []int // versions that watchers were not told
		spoil      func(h *History)
	}{
		{"all is told", "", nil, func(*History) {}},
		{"it begins in the middle", "", []int{1, 2, 3}, func(*History) {}},
		{"something is missed", "", []int{5}, func(h *History) {
			h.watch(5, &List{Users: h.Ops[2].List.Users, Data: "data-1", Settings: Settings{Capacity: 2}})
		}},
		{"several at once, and another begins within them", "", []int{4, 5, 6}, func(h *History) {
			merged := func(from int) {
				h.watch(6, nil)
				f := h.Events[len(h.Events)-1].Frame
				for f.From, f.Changes = uint64(from), nil; from < 6; from++ {
					f.Changes = append(f.Changes, h.entries()[from].Changes...)
				}
			}
			merged(3)
			h.Conns = append(h.Conns, Conn{User: "watcher", Watches: true, Open: true})
			h.watch(4, &List{Users: h.Ops[2].List.Users, Data: "data-1", Settings: Settings{Capacity: 2}})
			merged(4)
		}},
		{"two at once", "", []int{5, 6}, func(h *History) {
			h.watch(6, nil)
			f := h.Events[len(h.Events)-1].Frame
			f.From, f.Changes = 4, append(slices.Clone(h.entries()[4].Changes), h.entries()[5].Changes...)
		}},
		{"two at once from the beginning", "", []int{1, 2}, func(h *History) {
			h.watch(2, nil)
			f := h.Events[len(h.Events)-1].Frame
			f.From, f.Changes = 0, append(slices.Clone(h.entries()[0].Changes), h.entries()[1].Changes...)
			h.Ops[8].List.For, h.Ops[8].List.Private = "王五", map[string]string{"王五": "own-1"}
		}},
		{"a whisper is not told", "", nil, func(h *History) {
			h.Ops[6].Users = []string{"张三"}
			told := h.Events[3].Changes
			told[0].To = []string{"张三"}
			for _, e := range h.Events[6:] {
				if e.Version == 5 {
					e.Changes = nil
				}
			}
		}},
		{"an action that was lost", "lost", nil, func(h *History) { h.Ops[6].Value = "say-9" }},
		{"a join that was lost", "lost", nil, func(h *History) { h.Ops[2].Process = "王五" }},
		{"a member's list", "reply", nil, func(h *History) { h.Ops[8].List.Users = nil }},
		{"a member is told something else", "event", nil, func(h *History) { h.Events[4].Changes[0].User = "王五" }},
		{"another member is told something else", "event", nil, func(h *History) { h.Events[1].Changes[0].Seat = 3 }},
		{"an action behind all that was told", "lost", []int{7}, func(*History) {}},
	} {
		h := good()
		h.Conns = append(h.Conns, Conn{User: "watcher", Watches: true, Open: true})
		for _, e := range h.entries() {
			switch v := int(e.Version); {
			case slices.Contains(tt.missing, v):
			case v == 1 || slices.Contains(tt.missing, v-1) && v == 4:
				h.watch(v, map[int]*List{1: {Settings: Settings{Capacity: 2}}, 4: {Users: h.Ops[2].List.Users, Data: "data-1", Settings: Settings{Capacity: 2}}}[v])
			default:
				h.watch(v, nil)
			}
		}
		tt.spoil(h)
		slices.SortStableFunc(h.Events[6:], func(a, b Event) int { return cmp.Compare(a.Version, b.Version) })
		h.Journals = nil
		v := Witness(h)
		found := slices.ContainsFunc(v.Violations, func(v Violation) bool { return v.Rule == tt.rule })
		if found != (tt.rule != "") || tt.rule == "" && len(v.Violations) > 0 || v.Watched != 1 {
			t.Errorf("%s: %v", tt.what, v.Violations)
		}
	}
}

// watch adds that a watcher is told of a version, or the room.
func (h *History) watch(version int, l *List) {
	f := Frame{Room: room42, Epoch: epoch1, Version: uint64(version), List: l}
	if l == nil {
		f.From, f.Changes = f.Version-1, slices.Clone(h.entries()[version-1].Changes)
	}
	h.Events = append(h.Events, Event{Conn: len(h.Conns) - 1, User: "watcher", Frame: &f})
}

// A kind of change that no checker knows changes nothing for all that it knows, and is named once.
func TestWitness_StrangeChange(t *testing.T) {
	h := good()
	for _, version := range []int{3, 4} {
		e := &h.entries()[version]
		e.Changes = append(e.Changes, Change{Type: "wave", User: "张三"})
	}
	h.Events[3].Changes, h.Events[2].Changes = h.entries()[4].Changes, h.entries()[3].Changes
	if v := Witness(h); len(v.Violations) > 0 || !slices.Equal(v.Strange, []string{"wave"}) {
		t.Errorf("%v, %q", v.Violations, v.Strange)
	}
}

// Each rule belongs to one kind.
func TestKinds(t *testing.T) {
	seen := make(map[string]bool)
	for _, k := range Kinds {
		for _, rule := range k.rules {
			if seen[rule] {
				t.Errorf("%s twice", rule)
			}
			seen[rule] = true
			if got := (Violation{Rule: rule}).Kind(); got != k.Name {
				t.Errorf("%s is %s, want %s", rule, got, k.Name)
			}
		}
	}
	if c := Count([]Violation{{Rule: "seat"}, {Rule: "seat"}}); len(c) != 10 || c["seat_clash"] != 2 {
		t.Errorf("%v", c)
	}
}

// lossy is a history in which Redis loses the last versions, and a new epoch begins behind what it has.
func lossy(f Fault) *History {
	h := good()
	h.Faults = []Fault{f}
	h.Journals[room42] = append(h.entries()[:5], Entry{Epoch: epoch2, Version: 6, Changes: nil})
	return h
}

func TestWitness_CountsWhatMayBeLost(t *testing.T) {
	v := Witness(lossy(Fault{Name: "redis-old", From: ms(900), To: ms(990), Since: ms(600), Loses: true}))
	if len(v.Violations) > 0 || v.Lost[0] != 2 { // a leave and a kick; reads are not counted
		t.Errorf("lost %v: %v", v.Lost, v.Violations)
	}
	for _, f := range []Fault{
		{Name: "no loss", From: ms(900), To: ms(990)},
		{Name: "loses what is younger", From: ms(900), To: ms(990), Since: ms(800), Loses: true},
		{Name: "loses what is older", From: ms(0), To: ms(500), Loses: true},
	} {
		if v := Witness(lossy(f)); len(v.Violations) == 0 {
			t.Errorf("%s: %v", f.Name, v.Lost)
		}
	}
}

// A node brings back what it knew, behind the versions that it knew.
func TestWitness_WhatComesBack(t *testing.T) {
	for _, again := range []bool{true, false} {
		h := lossy(Fault{Name: "redis-old", From: ms(900), To: ms(990), Since: ms(300), Loses: true})
		h.Journals[room42] = append(h.entries()[:3], Entry{Epoch: epoch2, Version: 7, Changes: []Change{
			{Type: "leave", User: "李四", Seat: 1, Reason: "timeout", Again: again}, {Type: "data", Data: "data-1", Again: again},
		}})
		broken := make(map[string]bool)
		for _, v := range Witness(h).Violations {
			broken[v.Rule] = true
		}
		if broken["gap"] == again || broken["twice"] == again {
			t.Errorf("it comes back, as the journal says, %v: %v", again, broken)
		}
	}
}

// What comes back may be another host than the one who is there, and fewer seats than members who leave with it.
func TestWitness_HostAndSettingsComeBack(t *testing.T) {
	for _, test := range []struct {
		again          bool
		leave          []Change
		host, oversold int
	}{
		{true, []Change{{Type: "leave", User: "c", Seat: 2, Reason: "timeout", Again: true}}, 0, 0},
		{true, nil, 0, 2}, // too many, and one beyond the seats
		{false, []Change{{Type: "leave", User: "c", Seat: 2, Reason: "timeout"}}, 1, 2},
	} {
		seats := func(n int) *Settings { return &Settings{Capacity: n, Host: "longest"} }
		h := &History{Rooms: []string{room42}, End: ms(1000), Journals: map[string][]Entry{room42: {
			{Epoch: epoch1, Version: 1, Mark: "m1", Changes: []Change{{Type: "settings", Settings: seats(3)},
				{Type: "join", User: "a"}, {Type: "join", User: "b", Seat: 1}, {Type: "join", User: "c", Seat: 2}, {Type: "host", User: "a"}}},
			{Epoch: epoch2, Version: 2, Mark: "m2", Changes: slices.Concat(
				[]Change{{Type: "settings", Settings: seats(2), Again: test.again}}, test.leave,
				[]Change{{Type: "host", User: "b", Again: test.again}})},
		}}}
		found := make(map[string]int)
		for _, v := range Witness(h).Violations {
			found[v.Rule]++
		}
		if found["host"] != test.host || found["oversold"] != test.oversold {
			t.Errorf("again %v, %d leave: %v", test.again, len(test.leave), Witness(h).Violations)
		}
	}
}

func TestWitness_OneContentOfALostVersion(t *testing.T) {
	h := lossy(Fault{Name: "redis-old", From: ms(900), To: ms(990), Since: ms(600), Loses: true})
	told := Event{Conn: 1, User: "李四", Frame: &Frame{Room: room42, Epoch: epoch1, From: 5, Version: 6, Changes: []Change{{Type: "leave", User: "张三", Reason: "left"}}}}
	h.Events = append(h.Events, told)
	if v := Witness(h); len(v.Violations) != 1 || v.Violations[0].Rule != "two contents" {
		t.Errorf("%v", v.Violations)
	}
}

// Private data are told their member, and are in its lists; everything else is a violation.
func TestWitness_PrivateData(t *testing.T) {
	for rule, spoil := range map[string]func(h *History){
		"":        func(*History) {},
		"event":   func(h *History) { h.Events[3].Changes = slices.Clone(h.entries()[4].Changes) },
		"lost":    func(h *History) { h.Ops[6].Value, h.Ops[6].Action = "own-2", SetPrivate },
		"reply":   func(h *History) { h.Events[4].List.Private = nil },
		"phantom": func(h *History) { h.Ops[6].Action, h.Ops[6].Value = Say, "own-3" },
	} {
		h := good()
		h.Ops[6].Action, h.Ops[6].Value = SetPrivate, "own-1"
		h.entries()[4].Changes = []Change{{Type: "private", User: "李四", Seat: 1, Data: "own-1"}}
		h.Events[3].Changes = nil
		list := &List{For: "李四", Private: map[string]string{"李四": "own-1"}, Users: []Member{{User: "张三"}, {User: "李四", Seat: 1}}, Data: "data-1", Settings: Settings{Capacity: 2}}
		h.Events = slices.Insert(h.Events, 4, Event{Conn: 1, User: "李四", Frame: &Frame{Room: room42, Epoch: epoch1, Version: 5, List: list}})
		spoil(h)
		v := Witness(h)
		if found := slices.ContainsFunc(v.Violations, func(v Violation) bool { return v.Rule == rule }); found != (rule != "") || rule == "" && len(v.Violations) > 0 {
			t.Errorf("%q: %v", rule, v.Violations)
		}
	}
}

// moved returns the history of a move of 张三 from room A, where it has own-1, to room B, whose last commits are those. It may have set
// own-2 in room B.
func moved(commits ...[]Change) *History {
	user, in := "张三", []Entry{{Epoch: epoch1, Version: 1, Changes: []Change{{Type: "settings", Settings: &Settings{Capacity: 2}}}}}
	for _, changes := range commits {
		in = append(in, Entry{Epoch: epoch1, Version: uint64(len(in) + 1), Changes: changes})
	}
	h := &History{Rooms: []string{"B", "A"}, End: ms(1000), Journals: map[string][]Entry{"B": in, "A": {
		{Epoch: epoch1, Version: 1, Changes: []Change{{Type: "join", User: user}}},
		{Epoch: epoch1, Version: 2, Changes: []Change{{Type: "private", User: user, Data: "own-1"}}},
		{Epoch: epoch1, Version: 3, Changes: []Change{{Type: "leave", User: user, Reason: "moved"}}},
	}}}
	h.Ops = []*Op{
		{ID: 1, Process: user, Room: "A", Action: SetPrivate, Value: "own-1", Outcome: Done, Epoch: epoch1, Version: 2, Count: 1, Call: ms(10), Return: ms(20)},
		{ID: 2, Process: user, Room: "B", Action: SetPrivate, Value: "own-2", Outcome: Unknown, Call: ms(10), Return: ms(20)},
		{ID: 3, Process: "administrator", Room: "A", Action: MoveOut, Users: []string{user}, Outcome: Done, Epoch: epoch1, Version: 3, Call: ms(30), Return: ms(40)},
		{ID: 4, Process: "administrator", Room: "B", Action: MoveIn, Left: 3, Users: []string{user}, Outcome: Done, Epoch: epoch1, Version: uint64(len(in)), Count: 1, Call: ms(30), Return: ms(40)},
	}
	return h
}

// Who is moved takes its private data along, unless it has some in the other room already.
func TestWitness_PrivateDataMove(t *testing.T) {
	user, set := "张三", func(h *History) {
		h.Ops[1].Outcome, h.Ops[1].Epoch, h.Ops[1].Version, h.Ops[1].Count = Done, epoch1, 3, 1
	}
	private := func(data string) Change { return Change{Type: "private", User: user, Data: data} }
	again := func(c Change) Change { c.Again = true; return c }
	join, leave := Change{Type: "join", User: user}, Change{Type: "leave", User: user, Reason: "timeout"}
	away, replace := Change{Type: "join", User: user, Away: true}, Change{Type: "replace", User: user}
	for _, tt := range []struct {
		what    string
		commits [][]Change // in the other room; the last is that of the move, unless it changes nothing there
		with    func(h *History)
		lost    bool
	}{
		{"they come along", [][]Change{{away, private("own-1")}}, nil, false},
		{"they are lost", [][]Change{{away}}, nil, true},
		{"others come", [][]Change{{away, private("own-2")}}, nil, true},
		{"who is there keeps its own", [][]Change{{join}, {private("own-2")}, {replace}}, nil, false},
		{"who is there gets those of the other room", [][]Change{{join}, {private("own-2")}, {replace, private("own-1")}}, nil, false},
		{"who is there loses both", [][]Change{{join}, {private("own-2")}, {replace, private("null")}}, nil, true},
		{"who is there has just set its own, and the move changes nothing", [][]Change{{join}, {private("own-2")}}, set, false},
		{"who is there may have just set its own", [][]Change{{join}, {private("own-2")}}, nil, false},
		{"who is there gets what it has not set there", [][]Change{{join}, {private("own-3")}}, nil, true},
		{"Redis had lost its own there", [][]Change{{join}, {again(leave), again(join), again(private("own-3"))}}, nil, false},
		{"Redis had lost what it has where it comes from", [][]Change{{away, private("own-0")}}, func(h *History) {
			e := &h.Journals["A"][2]
			e.Changes = append([]Change{again(leave), again(join), again(private("own-0"))}, e.Changes...)
		}, false},
		{"Redis had lost that it has none where it comes from", [][]Change{{away}}, func(h *History) {
			e := &h.Journals["A"][2]
			e.Changes = append([]Change{again(leave), again(join)}, e.Changes...)
		}, false},
	} {
		h := moved(tt.commits...)
		if tt.with != nil {
			tt.with(h)
		}
		lost := slices.ContainsFunc(Witness(h).Violations, func(v Violation) bool { return v.Rule == "private" })
		if lost != tt.lost {
			t.Errorf("%s: %v", tt.what, Witness(h).Violations)
		}
	}
}

// Who is awaited in a room stays away when another move reserves the seat again.
func TestWitness_ReservedAgain(t *testing.T) {
	s := newState(false)
	for _, c := range []Change{{Type: "join", User: "张三", Away: true}, {Type: "replace", User: "张三"}, {Type: "back", User: "张三"}} {
		if broken := s.apply(&Entry{Version: 1, Changes: []Change{c}}); len(broken) > 0 || s.Members["张三"].Away != (c.Type != "back") {
			t.Errorf("%+v: %q, %+v", c, broken, s.Members["张三"])
		}
	}
}

// On a Cluster the journal may have the first half of a move that was refused, or of one that was acknowledged when it was done again,
// and a move may be acknowledged at a later version: while it lasted, and nothing of the other half.
func TestWitness_MoveTakenBack(t *testing.T) {
	for _, tt := range []struct {
		what string
		op   Op
		call int // it lasts 100 ms, and the commit that has it comes from 810 to 950 ms
		ok   bool
	}{
		{"refused meanwhile", Op{Action: MoveIn, Outcome: Refused, Code: "closed"}, 900, true},
		{"refused, and lost from the other room", Op{Action: MoveOut, Outcome: Refused, Code: "busy"}, 900, false},
		{"acknowledged at a later version", Op{Action: MoveOut, Outcome: Done, Epoch: epoch1, Version: 8}, 900, true},
	} {
		for _, halves := range []bool{true, false} {
			h := good()
			h.Halves, h.Events, h.Ops = halves, nil, h.Ops[:9]
			h.entries()[6].Changes[0].Reason = "moved"
			users := []string{"张三"}
			if tt.op.Action == MoveIn {
				users = []string{"王五"}
				h.entries()[6].Changes = []Change{{Type: "join", User: "王五", Seat: 1}}
			}
			h.Journals[room42] = append(h.entries(), Entry{Epoch: epoch1, Version: 8})
			op := tt.op
			op.ID, op.Process, op.Room, op.Users, op.Call, op.Return = 13, "administrator", room42, users, ms(tt.call), ms(tt.call+100)
			read := &Op{ID: 14, Process: "王五", Room: room42, Action: Read, Outcome: Done, Epoch: epoch1, Version: 7, Call: ms(920), Return: ms(950)}
			h.Ops = append(h.Ops, &op, read)
			if v := Witness(h); (len(v.Violations) == 0) != (tt.ok && halves) {
				t.Errorf("%s, on a Cluster %v: %v", tt.what, halves, v.Violations)
			}
		}
	}
}
