package check

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"
)

// did adds an operation, which was done if nothing else is said.
func (h *History) did(op Op, call, end int) {
	op.ID, op.Room, op.Call, op.Return, op.Outcome = len(h.Ops)+11, room42, ms(call), ms(end), cmp.Or(op.Outcome, Done)
	if op.Outcome == Done {
		op.Epoch = epoch1
	}
	h.Ops = append(h.Ops, &op)
}

// elsewhere adds that the user did something in another room.
func (h *History) elsewhere(user string, call, end int) {
	h.did(Op{Process: user, Action: Ready, Version: 1}, call, end)
	h.Ops[len(h.Ops)-1].Room = "43"
}

// see adds that the room was read.
func (h *History) see(version uint64, call, end int, data string, users ...Member) {
	h.did(Op{Process: "王五", Action: Read, Version: version, Count: len(users), List: &List{Users: users, Data: data, Settings: Settings{Capacity: 2}}}, call, end)
}

func TestLinearize_Finds(t *testing.T) {
	both := []Member{{User: "张三"}, {User: "李四", Seat: 1}}
	// Of data-3 nobody knows whether they were set. They may be seen later, once, or never, and not first after two minutes.
	seen := func(every int, data ...string) func(h *History) {
		return func(h *History) {
			h.did(Op{Process: "赵六", Action: SetData, Value: "data-3", Outcome: Unknown}, 700, 0)
			for i, data := range data {
				h.see(uint64(8+i), every*i+1000, every*i+1050, data)
			}
		}
	}
	gone := func(f ...Fault) func(h *History) {
		return func(h *History) { h.Ops[8].List.Users, h.Faults = nil, f }
	}
	// Nobody knows in which order actions of one version were done: each of them fits.
	version4 := func(spoil func(h *History)) func(h *History) {
		return func(h *History) {
			h.did(Op{Process: "李四", Action: SetData, Value: "data-3", Version: 4, Count: 2}, 400, 445)
			h.Ops[5].Now, h.Ops[5].Outcome, h.Ops[5].Action, h.Ops[5].List = "", Done, Read, nil
			spoil(h)
		}
	}
	// What is refused between two changes of one commit saw neither the room before nor the one behind it.
	within := func(call int) func(h *History) {
		return func(h *History) {
			h.Ops[9].Call = ms(902) // 张三 is kicked, and before that 王五 has come: then the room was full
			h.did(Op{Process: "王五", Action: Join, Seat: 1, Version: 7, Count: 1}, 905, 960)
			h.did(Op{Process: "赵六", Action: Join, Outcome: Refused, Code: "room_full"}, call, call+10)
			h.did(Op{Process: "王五", Action: Read, Version: 7, Count: 1}, 990, 995)
		}
	}
	moved := func(halves bool) func(h *History) {
		return func(h *History) {
			h.Halves = halves
			h.Ops[7].Process, h.Ops[7].Action, h.Ops[7].Users = "administrator", MoveOut, []string{"李四"}
			h.Ops[8].List.Users = both
		}
	}
	for _, tt := range []struct {
		what, why string // why it does not fit; empty if it does
		spoil     func(h *History)
	}{
		{"a read of what is over", "and the room was at", func(h *History) {
			h.Ops[8].Version, h.Ops[8].List = 4, &List{Users: both, Data: "data-1", Settings: Settings{Capacity: 2}}
		}},
		{"a member who is missing", "is not there, who was on seat 0", gone()},
		{"a member who never came", "who was not", func(h *History) { h.Ops[8].List.Users = append(h.Ops[8].List.Users, Member{User: "王五", Seat: 1}) }},
		{"a member who has left", "who was not", func(h *History) { h.Ops[8].List.Users = both }},
		{"a seat that is given twice", "sits on seat 0", func(h *History) { h.Ops[2].Seat, h.Ops[2].List = 0, nil }},
		{"data that were lost", `the data are ""`, func(h *History) { h.Ops[8].List.Data = "" }},
		{"a compare-and-set in spite of a change", "it expected that nobody had set the data", func(h *History) { h.Ops[5].Outcome, h.Ops[5].Version = Done, 5 }},
		{"a compare-and-set of another epoch", "it expected that nobody had set the data", func(h *History) { h.Ops[4].InEpoch = epoch2 }},
		{"a conflict without a change", "nobody has since version 4", func(h *History) { *h.Ops[5].Expect = 4 }},
		{"a conflict with other data", `the data are "data-9"`, func(h *History) { h.Ops[5].Now = "data-9" }},
		{"a room that is full, and is not", "members at most are in a room", func(h *History) { h.Ops[3].Call, h.Ops[3].Return = ms(150), ms(160) }},
		{"a seat that there is not", "there are 2 seats", func(h *History) { h.Ops[2].Seat, h.Ops[2].List = 5, nil }},
		{"a join into a closed room", "the room is closed", func(h *History) { h.Ops[0].Settings.Closed = true; h.Ops[1].List, h.Ops[2].List = nil, nil }},
		{"not closed", "the room is not closed", func(h *History) { h.Ops[3].Code = "closed" }},
		{"a seat that nobody has", "nobody sits on seat 1", func(h *History) {
			h.Ops[3].Code, h.Ops[3].Asked, h.Ops[3].Call, h.Ops[3].Return = "seat_taken", new(1), ms(150), ms(160)
		}},
		{"a message of who is no member", "is no member", func(h *History) { h.Ops[6].Process = "王五" }},
		{"a member who is told to be none", "is a member", func(h *History) {
			h.Ops[6].Outcome, h.Ops[6].Code, h.Ops[6].Version, h.Ops[6].Action = Refused, "not_member", 0, SetMember
		}},

		{"an unknown end that is never seen", "", seen(100, "data-1", "data-1")},
		{"seen later", "", seen(100, "data-1", "data-3")},
		{"seen twice", "", seen(100, "data-3", "data-3")},
		{"seen, and then not", "data-1", seen(100, "data-3", "data-1")},
		{"seen as what was refused", "data-2", seen(100, "data-1", "data-2")},
		{"seen first within two minutes", "", seen(100_000, "data-1", "data-3", "data-3")},
		{"seen first after two minutes", "data-3", seen(130_000, "data-1", "data-3", "data-3")},
		{"an unknown end that begins while the last call runs", "", func(h *History) {
			h.did(Op{Process: "赵六", Action: SetData, Value: "data-3", Outcome: Unknown}, 1020, 0)
			h.see(8, 1010, 1050, "data-3")
		}},

		{"gone with the connection", "", func(h *History) { gone()(h); h.Conns[0].Open, h.Conns[0].Last = false, ms(500) }},
		{"gone in a storm", "", gone(Fault{Name: "node-stop", From: ms(300), To: ms(400), Evicts: true, Until: ms(950)})},
		{"gone after a storm", "is not there", gone(Fault{Name: "node-stop", From: ms(10), To: ms(20), Evicts: true, Until: ms(60)})},
		// Who does something while others do, and has no connection after that, although the room was seen at an earlier version by one who began later.
		{"gone behind the last answer", "", func(h *History) {
			h.Ops[6].Call, h.Ops[6].Return = ms(510), ms(690) // 李四 says something, which is version 5
			h.Ops = slices.Delete(h.Ops, 7, 8)
			h.see(4, 600, 610, "data-1", both...)
			h.Conns[1].Open, h.Conns[1].Last = false, ms(695)
		}},
		{"moved, and there", "who was not", moved(false)},
		{"moved, and there, on a Cluster", "who was not", moved(true)},

		{"data that somebody else set last", "", version4(func(h *History) { h.Ops[8].List.Data = "data-3" })},
		{"data that nobody set", "data-9", version4(func(h *History) { h.Ops[8].List.Data = "data-9" })},
		{"data before the list that shows them", `the data are ""`, version4(func(h *History) { h.see(4, 405, 440, "", both...) })},
		{"a kick and a join", "", version4(func(h *History) {
			h.did(Op{Process: "administrator", Action: Kick, Users: []string{"李四"}, Version: 3}, 200, 290)
		})},
		{"refused within a commit", "", within(910)},
		{"refused behind a commit", "members at most", within(975)},
		{"a new epoch without what the old one had", "", func(h *History) {
			for _, op := range h.Ops[6:] {
				op.Epoch, op.Version = epoch2, op.Version-4
			}
			h.Ops[8].List.Data = ""
		}},
	} {
		h := good()
		tt.spoil(h)
		v := Linearize(h, DefaultPatience)
		if len(v.Unsure) > 0 || tt.why == "" && len(v.Violations) > 0 || tt.why != "" && (len(v.Violations) != 1 || !strings.Contains(v.Violations[0].Text, tt.why)) {
			t.Errorf("%s: not %q, but %v, %v", tt.what, tt.why, v.Violations, v.Unsure)
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
		{"when the connection had ended", false, false, func(h *History) { h.Events, h.Conns[0].Open, h.Conns[0].Last = []Event{told}, false, ms(500) }},
		{"and is back by itself, on another seat", false, true, func(h *History) {
			h.Events, h.Ops[8].List.Users = []Event{told}, []Member{{User: "张三", Seat: 1}}
		}},
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

// Nobody knows in which order the actions of one commit were done, and porcupine does not try all orders: not if a user
// leaves whose connection before has ended, nor to fit in what was refused before the commit.
func TestLinearize_OneCommitOfManyActions(t *testing.T) {
	const users = 80
	h := &History{Rooms: []string{room42}, End: ms(9000)}
	settings := Settings{Capacity: users}
	left := &List{Settings: settings}
	h.did(Op{Process: "administrator", Action: Configure, Version: 1, Settings: &settings}, 1, 2)
	for i := range users {
		user := fmt.Sprint("user ", i)
		h.did(Op{Process: user, Action: Join, Seat: i, Version: uint64(2 + i)}, 10*i+10, 10*i+15)
		h.did(Op{Process: user, Action: Read, Version: users + 2, List: left}, 4900+i, 8000)
		h.Conns = append(h.Conns, Conn{User: user, From: ms(10*i + 9), Last: ms(6500)})
		if i > 0 {
			left.Users = append(left.Users, Member{User: user, Seat: i})
		}
		if i%2 > 0 {
			h.elsewhere(user, 6000+i, 6001+i)
		} else if i > 0 {
			h.did(Op{Process: user, Action: Ready, Version: users + 2}, 5000+i, 8000)
		}
	}
	h.Conns = append(h.Conns, Conn{User: "user 0", From: ms(4950), Last: ms(9000), Open: true})
	h.did(Op{Process: "user 0", Action: Leave, Version: users + 2}, 4990, 8000)
	h.did(Op{Process: "王五", Action: Join, Outcome: Refused, Code: "room_full"}, 7000, 7500)
	h.did(Op{Process: "王五", Action: Read, Version: users + 2, List: left}, 8500, 8600)
	if v := Linearize(h, 5*time.Second); len(v.Unsure) > 0 || len(v.Violations) > 0 {
		t.Errorf("%v, %v", v.Violations, v.Unsure)
	}
}

// A connection ended before somebody was refused since the room was full. Behind that its user is not there, who joined
// meanwhile and took the seat of one who had left: then the room was not full any more.
func TestLinearize_RefusedWhileAConnectionEnds(t *testing.T) {
	h := &History{Rooms: []string{room42}, End: ms(9000)}
	settings := Settings{Capacity: 2}
	h.did(Op{Process: "administrator", Action: Configure, Version: 1, Settings: &settings}, 1, 2)
	h.did(Op{Process: "张三", Action: Join, Version: 2}, 10, 12)
	h.did(Op{Process: "李四", Action: Join, Seat: 1, Version: 3}, 20, 22)
	h.did(Op{Process: "张三", Action: Leave, Version: 4}, 50, 200)
	h.did(Op{Process: "李四", Action: Leave, Version: 5}, 51, 200)
	h.did(Op{Process: "王五", Action: Join, Version: 6}, 52, 200)
	h.elsewhere("王五", 88, 90)
	h.Conns = append(h.Conns, Conn{User: "王五", From: ms(40), Last: ms(95)})
	h.did(Op{Process: "赵六", Action: Join, Outcome: Refused, Code: "room_full"}, 100, 150)
	h.did(Op{Process: "赵六", Action: Read, Version: 6, List: &List{Settings: settings}}, 300, 310)
	if v := Linearize(h, 5*time.Second); len(v.Violations) == 0 {
		t.Errorf("nothing is wrong: %v", v.Unsure)
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
