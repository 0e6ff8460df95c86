package check

import (
	"slices"
	"testing"
	"time"
)

// ms is a moment of a history.
func ms(n int) time.Duration { return time.Duration(n) * time.Millisecond }

const room42, epoch1, epoch2 = "42", "epoch-one", "epoch-two"

// good returns a history that a correct server can produce: 张三 and 李四 join, data are set and compared, something is
// said, 李四 leaves, a join is refused, and all that is read and told.
func good() *History {
	zhang, li := Member{User: "张三", Seat: 0}, Member{User: "李四", Seat: 1}
	two := Settings{Capacity: 2}
	both := &List{Users: []Member{zhang, li}, Settings: two}
	expect := uint64(2)
	late := uint64(1)
	h := &History{Rooms: []string{room42}, End: ms(1000)}
	h.Ops = []*Op{
		{Process: "administrator", Action: Configure, Outcome: Done, Settings: &two, Version: 1},
		{Process: "张三", Action: Join, Outcome: Done, Seat: 0, Version: 2, Count: 1, List: &List{Users: []Member{zhang}, Settings: two}},
		{Process: "李四", Action: Join, Outcome: Done, Seat: 1, Version: 3, Count: 2, List: both},
		{Process: "王五", Action: Join, Outcome: Refused, Code: "room_full"},
		{Process: "张三", Action: SetData, Value: "data-1", Expect: &expect, InEpoch: epoch1, Outcome: Done, Version: 4, Count: 2},
		{Process: "李四", Action: SetData, Value: "data-2", Expect: &late, Outcome: Refused, Code: "conflict", Now: "data-1", Version: 4, Epoch: epoch1},
		{Process: "李四", Action: Say, Value: "say-1", Outcome: Done, Version: 5, Count: 2},
		{Process: "李四", Action: Leave, Outcome: Done, Version: 6, Count: 1},
		{Process: "王五", Action: Read, Outcome: Done, Version: 6, Count: 1, List: &List{Users: []Member{zhang}, Data: "data-1", Settings: two}},
		{Process: "administrator", Action: Kick, Users: []string{"张三"}, Outcome: Done, Version: 7},
	}
	for i, op := range h.Ops {
		op.ID, op.Room, op.Call, op.Return = i+1, room42, ms(100*i+10), ms(100*i+50)
		if op.Outcome == Done {
			op.Epoch = epoch1
		}
	}
	h.Journals = map[string][]Entry{room42: {
		{Epoch: epoch1, Version: 1, Changes: []Change{{Type: "settings", Settings: &two}}},
		{Epoch: epoch1, Version: 2, Changes: []Change{{Type: "join", User: "张三"}}},
		{Epoch: epoch1, Version: 3, Changes: []Change{{Type: "join", User: "李四", Seat: 1}}},
		{Epoch: epoch1, Version: 4, Changes: []Change{{Type: "data", User: "张三", Data: "data-1"}}},
		{Epoch: epoch1, Version: 5, Changes: []Change{{Type: "message", User: "李四", Text: "say-1"}}},
		{Epoch: epoch1, Version: 6, Changes: []Change{{Type: "leave", User: "李四", Seat: 1, Reason: "left"}}},
		{Epoch: epoch1, Version: 7, Changes: []Change{{Type: "leave", User: "张三", Reason: "kicked"}}},
	}}
	tell := func(f Frame) {
		f.Room, f.Epoch = room42, epoch1
		h.Events = append(h.Events, Event{User: "张三", Frame: &f})
	}
	tell(Frame{Reply: true, Version: 2, List: h.Ops[1].List})
	for v := uint64(3); v <= 6; v++ {
		tell(Frame{From: v - 1, Version: v, Changes: slices.Clone(h.Journals[room42][v-1].Changes)})
	}
	tell(Frame{Lost: "kicked"})
	h.Conns = []Conn{{User: "张三", From: ms(100), Last: ms(990), Open: true}, {User: "李四", From: ms(200), Last: ms(990), Open: true}}
	return h
}

func TestCheckers_AcceptAGoodHistory(t *testing.T) {
	if v := Witness(good()); len(v.Violations) > 0 || v.Judged != 10 {
		t.Errorf("the witness judged %d operations: %v", v.Judged, v.Violations)
	}
	if v := Linearize(good(), DefaultPatience); len(v.Violations) > 0 || len(v.Unsure) > 0 || v.Judged != 10 {
		t.Errorf("porcupine judged %d operations: %v, %v", v.Judged, v.Violations, v.Unsure)
	}
}

// entries returns the journal, to be changed.
func (h *History) entries() []Entry { return h.Journals[room42] }
