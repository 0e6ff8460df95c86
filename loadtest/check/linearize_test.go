package check

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

func TestLinearize_Finds(t *testing.T) {
	for _, tt := range []struct {
		what, why string
		spoil     func(h *History)
	}{
		{"a read of what is over", "and the room was at", func(h *History) {
			h.Ops[8].Version, h.Ops[8].List = 4, &List{Users: h.Ops[2].List.Users, Data: "data-1", Settings: Settings{Capacity: 2}}
		}},
		{"a member who is missing", "is not there, who was on seat 0", func(h *History) { h.Ops[8].List.Users = nil }},
		{"a member who never came", "who was not", func(h *History) {
			h.Ops[8].List.Users = append(h.Ops[8].List.Users, Member{User: "王五", Seat: 1})
		}},
		{"a member who has left", "who was not", func(h *History) {
			h.Ops[8].List.Users = append(h.Ops[8].List.Users, Member{User: "李四", Seat: 1})
		}},
		{"a seat that is given twice", "sits on seat 0", func(h *History) { h.Ops[2].Seat, h.Ops[2].List = 0, nil }},
		{"data that were lost", `the data are ""`, func(h *History) { h.Ops[8].List.Data = "" }},
		{"a compare-and-set in spite of a change", "it expected that nobody had set the data", func(h *History) {
			h.Ops[5].Outcome, h.Ops[5].Version = Done, 5
		}},
		{"a compare-and-set of another epoch", "it expected that nobody had set the data", func(h *History) { h.Ops[4].InEpoch = epoch2 }},
		{"a conflict without a change", "nobody has since version 4", func(h *History) { *h.Ops[5].Expect = 4 }},
		{"a conflict with other data", `the data are "data-9"`, func(h *History) { h.Ops[5].Now = "data-9" }},
		{"a room that is full, and is not", "members at most are in a room", func(h *History) { h.Ops[3].Call, h.Ops[3].Return = ms(150), ms(160) }},
		{"a seat that there is not", "there are 2 seats", func(h *History) { h.Ops[2].Seat, h.Ops[2].List = 5, nil }},
		{"a join into a closed room", "the room is closed", func(h *History) { h.Ops[0].Settings.Closed = true; h.Ops[1].List, h.Ops[2].List = nil, nil }},
		{"not closed", "the room is not closed", func(h *History) { h.Ops[3].Code = "closed" }},
		{"a seat that nobody has", "nobody sits on seat 1", func(h *History) {
			seat := 1
			h.Ops[3].Code, h.Ops[3].Asked, h.Ops[3].Call, h.Ops[3].Return = "seat_taken", &seat, ms(150), ms(160)
		}},
		{"a message of who is no member", "is no member", func(h *History) { h.Ops[6].Process = "王五" }},
		{"a member who is told to be none", "is a member", func(h *History) {
			h.Ops[6].Outcome, h.Ops[6].Code, h.Ops[6].Version = Refused, "not_member", 0
			h.Ops[6].Action = SetMember
		}},
	} {
		h := good()
		tt.spoil(h)
		if v := Linearize(h, DefaultPatience); len(v.Violations) != 1 || !strings.Contains(v.Violations[0].Text, tt.why) {
			t.Errorf("%s: not %q, but %v, %v", tt.what, tt.why, v.Violations, v.Unsure)
		}
	}
}

// What nobody knows the end of may be seen later, once, or never.
func TestLinearize_Unknown(t *testing.T) {
	seen := func(h *History, id int, data string, version uint64) {
		h.Ops = append(h.Ops, &Op{ID: id, Process: "王五", Room: room42, Action: Read, Outcome: Done, Epoch: epoch1, Version: version,
			Call: ms(id * 100), Return: ms(id*100 + 50), List: &List{Data: data, Settings: Settings{Capacity: 2}}})
	}
	for _, tt := range []struct {
		data []string
		ok   bool
	}{
		{[]string{"data-1", "data-1"}, true},
		{[]string{"data-1", "data-3"}, true},
		{[]string{"data-3", "data-3"}, true},
		{[]string{"data-3", "data-1"}, false},
		{[]string{"data-1", "data-2"}, false},
	} {
		h := good()
		h.Ops = append(h.Ops, &Op{ID: 11, Process: "赵六", Room: room42, Action: SetData, Value: "data-3", Outcome: Unknown, Call: ms(700)})
		for i, data := range tt.data {
			seen(h, 20+i, data, uint64(8+i))
		}
		if v := Linearize(h, DefaultPatience); (len(v.Violations) == 0) != tt.ok {
			t.Errorf("%v: %v", tt.data, v.Violations)
		}
	}
}

// What nobody knows the end of is not seen first after two minutes.
func TestLinearize_UnknownForLong(t *testing.T) {
	for at, ok := range map[int]bool{100_000: true, 130_000: false} {
		h := good()
		h.Ops = append(h.Ops, &Op{ID: 11, Process: "赵六", Room: room42, Action: SetData, Value: "data-3", Outcome: Unknown, Call: ms(700)})
		for i, data := range []string{"data-1", "data-3", "data-3"} {
			version := uint64(8 + i)
			h.Ops = append(h.Ops, &Op{ID: 20 + i, Process: "王五", Room: room42, Action: Read, Outcome: Done, Epoch: epoch1, Version: version,
				Call: ms(at*i + 1000), Return: ms(at*i + 1050), List: &List{Data: data, Settings: Settings{Capacity: 2}}})
		}
		if v := Linearize(h, DefaultPatience); (len(v.Violations) == 0) != ok {
			t.Errorf("seen first after %d ms: %v", at, v.Violations)
		}
	}
}

// A call without a known end that begins while the last one runs is seen by that.
func TestLinearize_UnknownAtTheEnd(t *testing.T) {
	h := good()
	h.Ops = append(h.Ops, &Op{ID: 11, Process: "赵六", Room: room42, Action: SetData, Value: "data-3", Outcome: Unknown, Call: ms(1020)},
		&Op{ID: 12, Process: "王五", Room: room42, Action: Read, Outcome: Done, Epoch: epoch1, Version: 8, Call: ms(1010), Return: ms(1050),
			List: &List{Data: "data-3", Settings: Settings{Capacity: 2}}})
	if v := Linearize(h, DefaultPatience); len(v.Violations) > 0 {
		t.Errorf("%v", v.Violations)
	}
}

// Who has lost the connection, or whose node may be taken for dead, may be gone; nobody else.
func TestLinearize_MembersWhoMayBeGone(t *testing.T) {
	gone := func() *History {
		h := good()
		h.Ops[8].List.Users = nil
		return h
	}
	cut := gone()
	cut.Conns[0].Open, cut.Conns[0].Last = false, ms(500)
	storm := gone()
	storm.Faults = []Fault{{Name: "node-stop", From: ms(300), To: ms(400), Evicts: true, Until: ms(950)}}
	over := gone()
	over.Faults = []Fault{{Name: "node-stop", From: ms(10), To: ms(20), Evicts: true, Until: ms(60)}}
	for what, tt := range map[string]struct {
		h  *History
		ok bool
	}{"connected": {gone(), false}, "cut": {cut, true}, "in a storm": {storm, true}, "after a storm": {over, false}} {
		if v := Linearize(tt.h, DefaultPatience); (len(v.Violations) == 0) != tt.ok {
			t.Errorf("%s: %v", what, v.Violations)
		}
	}
}

// On a Cluster others may see a move's first half that is taken back before the move is refused, or acknowledged; and a room may be at a later version when it is known that users have left it.
func TestLinearize_MoveTakenBack(t *testing.T) {
	zhang, wang := []string{"张三"}, []string{"王五"}
	both, nobody := []Member{{User: "张三"}, {User: "王五", Seat: 1}}, []Member(nil)
	during, before := ms(805), ms(700) // the list is seen from 810 to 850 ms
	for _, tt := range []struct {
		what string
		op   Op
		call time.Duration
		seen []Member
		ok   bool // on a Cluster
	}{
		{"refused by another fault", Op{Action: MoveIn, Users: wang, Outcome: Refused, Code: "unavailable"}, during, both, true},
		{"refused by what a room has become", Op{Action: MoveIn, Users: wang, Outcome: Refused, Code: "not_member"}, during, both, true},
		{"refused before the room was seen", Op{Action: MoveIn, Users: wang, Outcome: Refused, Code: "not_member"}, before, both, false},
		{"refused, and lost from the other room", Op{Action: MoveOut, Users: zhang, Outcome: Refused, Code: "busy"}, during, nobody, false},
		{"acknowledged when it is done again", Op{Action: MoveIn, Users: wang, Outcome: Done, Epoch: epoch1, Version: 7}, during, both, true},
		{"acknowledged at a later version", Op{Action: MoveOut, Users: zhang, Outcome: Done, Epoch: epoch1, Version: 7}, during, nobody, true},
	} {
		for _, halves := range []bool{true, false} {
			h := good()
			h.Halves = halves
			h.Ops = h.Ops[:9]
			h.Ops[8].List.Users = tt.seen
			op := tt.op
			op.ID, op.Process, op.Room, op.Call, op.Return = 13, "administrator", room42, tt.call, tt.call+ms(50)
			h.Ops = append(h.Ops, &op)
			end := *h.Ops[0] // nothing else of it is judged
			end.Version, end.Call, end.Return = 8, ms(950), ms(960)
			h.Ops = append(h.Ops, &end)
			if v := Linearize(h, DefaultPatience); (len(v.Violations) == 0) != (tt.ok && halves) {
				t.Errorf("%s, on a Cluster %v: %v", tt.what, halves, v.Violations)
			}
		}
	}
}

// Who was moved is a member no more, also on a Cluster.
func TestLinearize_MovedAndThere(t *testing.T) {
	for _, halves := range []bool{true, false} {
		h := good()
		h.Halves = halves
		h.Ops[7].Process, h.Ops[7].Action, h.Ops[7].Users = "administrator", MoveOut, []string{"李四"}
		h.Ops[8].List.Users = append(h.Ops[8].List.Users, Member{User: "李四", Seat: 1})
		if v := Linearize(h, DefaultPatience); len(v.Violations) != 1 {
			t.Errorf("on a Cluster %v: %v", halves, v.Violations)
		}
	}
}

// Nobody knows in which order actions of one version were done: each of them fits.
func TestLinearize_OneVersion(t *testing.T) {
	both := []Member{{User: "张三"}, {User: "李四", Seat: 1}}
	for _, tt := range []struct {
		what  string
		spoil func(h *History)
		ok    bool
	}{
		{"data that somebody else set last", func(h *History) { h.Ops[8].List.Data = "data-3" }, true},
		{"data that nobody set", func(h *History) { h.Ops[8].List.Data = "data-9" }, false},
		{"data before the list that shows them", func(h *History) {
			h.Ops = append(h.Ops, &Op{ID: 12, Process: "王五", Room: room42, Action: Read, Outcome: Done, Epoch: epoch1, Version: 4, Count: 2, Call: ms(405), Return: ms(440),
				List: &List{Users: both, Data: "", Settings: Settings{Capacity: 2}}})
		}, false},
		{"a kick and a join", func(h *History) {
			h.Ops = append(h.Ops, &Op{ID: 12, Process: "administrator", Room: room42, Action: Kick, Users: []string{"李四"}, Outcome: Done, Epoch: epoch1, Version: 3, Call: ms(200), Return: ms(290)})
		}, true},
	} {
		h := good()
		h.Ops = append(h.Ops, &Op{ID: 11, Process: "李四", Room: room42, Action: SetData, Value: "data-3", Outcome: Done, Epoch: epoch1, Version: 4, Count: 2, Call: ms(400), Return: ms(445)})
		h.Ops[5].Now, h.Ops[5].Outcome, h.Ops[5].Action, h.Ops[5].List = "", Done, Read, nil
		tt.spoil(h)
		if v := Linearize(h, DefaultPatience); (len(v.Violations) == 0) != tt.ok || len(v.Unsure) > 0 {
			t.Errorf("%s: %v, %v", tt.what, v.Violations, v.Unsure)
		}
	}
}

// What is refused between two changes of one commit saw neither the room before nor the one behind it.
func TestLinearize_RefusedWithinACommit(t *testing.T) {
	for call, ok := range map[int]bool{910: true, 975: false} {
		h := good()
		h.Ops[9].Call = ms(902) // 张三 is kicked, and before that 王五 has come: then the room was full
		h.Ops = append(h.Ops,
			&Op{ID: 11, Process: "王五", Room: room42, Action: Join, Outcome: Done, Seat: 1, Epoch: epoch1, Version: 7, Count: 1, Call: ms(905), Return: ms(960)},
			&Op{ID: 12, Process: "赵六", Room: room42, Action: Join, Outcome: Refused, Code: "room_full", Call: ms(call), Return: ms(call + 10)},
			&Op{ID: 13, Process: "王五", Room: room42, Action: Read, Outcome: Done, Epoch: epoch1, Version: 7, Count: 1, Call: ms(990), Return: ms(995)})
		if v := Linearize(h, DefaultPatience); (len(v.Violations) == 0) != ok || len(v.Unsure) > 0 {
			t.Errorf("from %d ms: %v, %v", call, v.Violations, v.Unsure)
		}
	}
}

// A long history is judged in parts, each of which begins without knowing what was before.
func TestLinearize_Long(t *testing.T) {
	for wrong, ok := range map[int]bool{0: true, 9000: false} {
		h := &History{Rooms: []string{room42}, End: ms(100_000)}
		users := []Member{{User: "张三"}}
		for v := 1; v < 10_000; v++ {
			op := &Op{ID: v, Process: "张三", Room: room42, Action: SetData, Value: fmt.Sprint(v), Outcome: Done, Epoch: epoch1, Version: uint64(v), Count: 1, Call: ms(v*10 + 1), Return: ms(v*10 + 9)}
			switch {
			case v == 1:
				op.Action, op.Value, op.List = Join, "", &List{Users: users}
			case v%100 == 0:
				op.Action, op.Value, op.Version, op.List = Read, "", op.Version-1, &List{Users: users, Data: fmt.Sprint(v - 1)}
				if v == wrong {
					op.List.Data = "?"
				}
			}
			h.Ops = append(h.Ops, op)
		}
		if v := Linearize(h, DefaultPatience); (len(v.Violations) == 0) != ok || len(v.Unsure) > 0 || v.Judged != 9999 {
			t.Errorf("%d: %d, %v, %v", wrong, v.Judged, v.Violations, v.Unsure)
		}
	}
}

// A time-out is no answer.
func TestLinearize_Undecided(t *testing.T) {
	var v *Verdict
	for range 100 { // porcupine may be done before it looks at its timer
		if v = Linearize(good(), time.Nanosecond); len(v.Unsure) == 1 || len(v.Violations) > 0 {
			break
		}
	}
	if len(v.Unsure) != 1 || len(v.Violations) > 0 {
		t.Errorf("%v, %v", v.Unsure, v.Violations)
	}
}

// A new epoch may begin without what the old one had.
func TestLinearize_Epochs(t *testing.T) {
	h := good()
	for _, op := range h.Ops[6:] {
		op.Epoch, op.Version = epoch2, op.Version-4
	}
	h.Ops[8].List.Data = "" // lost
	if v := Linearize(h, DefaultPatience); len(v.Violations) > 0 {
		t.Errorf("%v", v.Violations)
	}
}

// A node that got no processor time has lost its users' seats without a fault: they are back by themselves, which is no violation,
// but nothing is proven of them. Whose connection ended is gone with it, as when a node is killed.
func TestLinearize_EvictedWithoutAFault(t *testing.T) {
	h := good()
	h.Ops[8].List = &List{Users: []Member{{User: "张三", Seat: 1}}, Data: "data-1", Settings: Settings{Capacity: 2}}
	if v := Linearize(h, DefaultPatience); len(v.Violations) != 1 {
		t.Errorf("another seat without a reason: %v", v.Violations)
	}
	h.Events = append(h.Events, Event{User: "王五", At: ms(820), Frame: &Frame{Room: room42, Epoch: epoch1, Version: 7, From: 6, Changes: []Change{{Type: "leave", User: "张三", Reason: "node"}}}})
	if v := Linearize(h, DefaultPatience); len(v.Violations) > 0 || len(v.Unsure) != 1 || !strings.Contains(v.Unsure[0], "张三") {
		t.Errorf("removed as if the node had died: %v, %v", v.Violations, v.Unsure)
	}
	evicts, conn := []Fault{{From: ms(500), Evicts: true}}, h.Conns[0]
	ended, back := conn, conn
	ended.Last, ended.Open, back.From = ms(500), false, ms(600)
	for what, conns := range map[string][]Conn{"when his connection had ended": {ended}, "when he was not yet back": {ended, back}} {
		h.Conns = conns
		if v := Linearize(h, DefaultPatience); len(v.Unsure) > 0 {
			t.Errorf("removed %s: %v", what, v.Unsure)
		}
	}
	h.Conns, h.Faults = []Conn{conn}, evicts
	if v := Linearize(h, DefaultPatience); len(v.Violations) > 0 || len(v.Unsure) > 0 {
		t.Errorf("removed after such a fault: %v, %v", v.Violations, v.Unsure)
	}
}

// That users were removed as if their node had died is explained by a fault if that may have been before the fault was over, however late
// somebody is told; and by none if the node had heard the user behind it.
func TestLinearize_Evicted(t *testing.T) {
	leave := []Change{{Type: "leave", User: "张三", Reason: "node"}}
	told := Event{Conn: 1, User: "王五", At: ms(820), Frame: &Frame{Room: room42, Epoch: epoch1, From: 5, Version: 6, Changes: leave}}
	storm := func(until int) []Fault {
		return []Fault{{Name: "node-stop", From: ms(200), Evicts: true, Until: ms(until)}}
	}
	for _, tt := range []struct {
		what       string
		wrong, not bool // a violation, or undecided
		spoil      func(h *History)
	}{
		{"without a word", true, false, func(*History) {}},
		{"told by an event", false, true, func(h *History) { h.Events = []Event{told} }},
		{"told to be lost", false, true, func(h *History) {
			h.Events = []Event{{User: "张三", At: ms(700), Frame: &Frame{Room: room42, Epoch: epoch1, Version: 5}}, {User: "张三", At: ms(820), Frame: &Frame{Room: room42, Lost: "node"}}}
		}},
		{"in the journal", false, true, func(h *History) { h.entries()[5].Changes = leave }},
		{"and heard after the fault", false, true, func(h *History) { h.Events, h.Faults = []Event{told}, storm(400) }}, // data were set from 410 to 450 ms
		{"and told after the fault", false, false, func(h *History) { h.Events, h.Faults = []Event{told}, storm(420) }},
		{"with the old connection, and the new one only reads", false, false, func(h *History) {
			h.Events = []Event{told}
			h.Conns[0].Open, h.Conns[0].Last = false, ms(460)
			h.Conns = append(h.Conns, Conn{User: "张三", From: ms(500), Last: ms(990), Open: true})
			h.Ops[6] = &Op{ID: 7, Process: "张三", Room: room42, Action: Read, Outcome: Done, Epoch: epoch1, Version: 5, Call: ms(610), Return: ms(650)}
		}},
	} {
		h := good()
		h.Events, h.Ops[8].List.Users = nil, nil
		tt.spoil(h)
		if v := Linearize(h, DefaultPatience); (len(v.Violations) > 0) != tt.wrong || (len(v.Unsure) > 0) != tt.not {
			t.Errorf("%s: %v, %v", tt.what, v.Violations, v.Unsure)
		}
	}
}

// Of many connections that end at once porcupine does not try out which user left when.
func TestLinearize_ManyConnectionsEnd(t *testing.T) {
	const users = 40
	for _, missing := range []string{"", "观众"} { // whose connection goes on
		h := &History{Rooms: []string{room42}, End: ms(9000)}
		do := func(op Op, call, end int) {
			op.ID, op.Room, op.Epoch, op.Outcome, op.Call, op.Return = len(h.Ops)+1, room42, epoch1, Done, ms(call), ms(end)
			h.Ops = append(h.Ops, &op)
		}
		left := &List{Users: []Member{{User: "观众", Seat: 0}}}
		if missing != "" {
			left = &List{}
		}
		do(Op{Process: "观众", Action: Join, Version: 1}, 1, 2)
		h.Conns = append(h.Conns, Conn{User: "观众", Last: ms(9000), Open: true})
		for i := range users {
			user := fmt.Sprint("user ", i)
			do(Op{Process: user, Action: Join, Seat: i + 1, Version: uint64(2 + i)}, 10*i+10, 10*i+15)
			do(Op{Process: user, Action: Ready, Version: uint64(2 + users + i/2)}, 5000+i, 6000+i)
			if i%2 > 0 { // it did something elsewhere
				last := h.Ops[len(h.Ops)-1]
				last.Room, last.Epoch = "43", epoch2
			}
			h.Conns = append(h.Conns, Conn{User: user, From: ms(10*i + 9), Last: ms(6000 + i)})
		}
		do(Op{Process: "观众", Action: Read, Version: 2 + users + users/2, List: left}, 8000, 8001)
		v := Linearize(h, 5*time.Second)
		if len(v.Unsure) > 0 || (len(v.Violations) == 0) != (missing == "") {
			t.Errorf("%q is missing: %v, %v", missing, v.Violations, v.Unsure)
		}
	}
}

// While two servers may answer for a room, a refusal may be true of either of its epochs, and what somebody is told not so any more.
func TestLinearize_TwoServersAnswer(t *testing.T) {
	split := []Fault{{Name: "failover", From: ms(500), To: ms(600), Splits: true, Until: ms(900)}}
	for what, spoil := range map[string]func(h *History){
		"refused by the new one while the old one is read": func(h *History) {
			open, shut := Settings{Capacity: 2}, Settings{Capacity: 2, Closed: true}
			h.Ops = h.Ops[:5]
			for i, s := range []*Settings{&shut, &open, &shut, &open} { // by turns of the one and the other
				h.Ops = append(h.Ops, &Op{ID: 20 + i, Process: "王五", Room: room42, Action: Read, Outcome: Done, Epoch: []string{epoch2, epoch1}[i%2],
					Version: 4, List: &List{Users: h.Ops[2].List.Users, Data: "data-1", Settings: *s}, Call: ms(600 + 50*i), Return: ms(610 + 50*i)})
			}
			h.Ops = append(h.Ops, &Op{ID: 30, Process: "赵六", Room: room42, Action: Join, Outcome: Refused, Code: "closed", Call: ms(670), Return: ms(680)})
		},
		"refused by the old one": func(h *History) {
			h.Ops[5] = &Op{ID: 6, Process: "administrator", Room: room42, Action: Configure, Settings: &Settings{Capacity: 3}, Outcome: Done, Epoch: epoch1, Version: 5, Call: ms(510), Return: ms(520)}
			h.Ops[6] = &Op{ID: 7, Process: "王五", Room: room42, Action: Join, Outcome: Refused, Code: "room_full", Call: ms(610), Return: ms(620)}
			h.Ops[8].List.Settings.Capacity = 3
		},
		"read of the old one": func(h *History) {
			h.Ops[8].Version, h.Ops[8].List = 5, &List{Users: h.Ops[2].List.Users, Data: "data-1", Settings: Settings{Capacity: 2}}
		},
	} {
		h := good()
		spoil(h)
		if v := Linearize(h, DefaultPatience); len(v.Violations) == 0 {
			t.Errorf("%s, and no server has taken another one's place: it fits", what)
		}
		h.Faults = split
		if v := Linearize(h, DefaultPatience); len(v.Violations) > 0 {
			t.Errorf("%s: %v", what, v.Violations)
		}
	}
}
