package protocol

import (
	"reflect"
	"testing"

	"roomd/room"
)

// Golden frames, each also read back by DecodeFrame.
func TestFrameShapes(t *testing.T) {
	tests := []struct {
		name  string
		frame Frame
		want  string
	}{
		{"join",
			&Reply{ID: ptr(int64(1)), Room: "42", Epoch: "e1", Version: 18, Seat: ptr(2), State: State{Count: 3,
				Users: []Seated{{User: "李四", Seat: 0}, {User: "王五", Seat: 1}, {User: "张三", Seat: 2}}}},
			`{"id":1,"room":"42","epoch":"e1","version":18,"seat":2,"count":3,` +
				`"users":[{"user":"李四","seat":0},{"user":"王五","seat":1},{"user":"张三","seat":2}]}`},
		{"join in seat 0",
			&Reply{ID: ptr(int64(0)), Room: "42", Epoch: "e1", Version: 1, Seat: ptr(0), State: State{Count: 1,
				Users: []Seated{{User: "🃏<&>\u2028", Seat: 0}}}},
			`{"id":0,"room":"42","epoch":"e1","version":1,"seat":0,"count":1,` +
				`"users":[{"user":"🃏<&>` + "\u2028" + `","seat":0}]}`},
		{"leave", &Reply{ID: ptr(int64(2)), Room: "42", Epoch: "e1", Version: 19, State: State{Count: 2}},
			`{"id":2,"room":"42","epoch":"e1","version":19,"count":2}`},
		{"last one leaves", &Reply{ID: ptr(int64(2)), Room: "42", Epoch: "e1", Version: 19},
			`{"id":2,"room":"42","epoch":"e1","version":19,"count":0}`},
		{"users", &Reply{ID: ptr(int64(3)), Room: "42", Epoch: "e1", Version: 18446744073709551615, State: State{Count: 1,
			Users: []Seated{{User: "a\"\\\n", Seat: 7}}}},
			`{"id":3,"room":"42","epoch":"e1","version":18446744073709551615,"count":1,` +
				`"users":[{"user":"a\"\\\n","seat":7}]}`},
		{"users of an empty room", &Reply{ID: ptr(int64(3)), Room: "42", State: State{Users: []Seated{}}},
			`{"id":3,"room":"42","epoch":"","version":0,"count":0,"users":[]}`},
		{"auth", &Reply{ID: ptr(int64(4)), User: "李四", Expires: 946688400},
			`{"id":4,"user":"李四","expires":946688400}`},
		{"refusal",
			&Reply{ID: ptr(int64(5)), Error: &Error{Code: "room_full", Message: "room 42 is full: 4 of 4 seats taken"}},
			`{"id":5,"error":{"code":"room_full","message":"room 42 is full: 4 of 4 seats taken","retry":false}}`},
		{"refusal about a room", &Reply{ID: ptr(int64(5)), Room: "42", Error: &Error{Code: "banned", Message: "m"}},
			`{"id":5,"room":"42","error":{"code":"banned","message":"m","retry":false}}`},
		{"conflict", &Reply{ID: ptr(int64(3)), Room: "42", Epoch: "e1", Version: 19, State: State{Data: `{"round":2}`}, Error: &Error{Code: "conflict", Message: "m"}},
			`{"id":3,"room":"42","epoch":"e1","version":19,"data":{"round":2},"error":{"code":"conflict","message":"m","retry":false}}`},
		{"conflict without data", &Reply{ID: ptr(int64(3)), Room: "42", Error: &Error{Code: "conflict", Message: "m"}},
			`{"id":3,"room":"42","epoch":"","version":0,"error":{"code":"conflict","message":"m","retry":false}}`},
		{"refusal without an id", &Reply{Error: NewError(CodeBusy, "房间忙")},
			`{"error":{"code":"busy","message":"房间忙","retry":true}}`},
		{"changes",
			&Event{Event: EventChanges, Room: "42", Epoch: "e1", Version: 20, From: 18,
				Changes: []Change{{Type: "join", User: "赵六", Seat: 0}, {Type: "leave", User: "李四", Seat: 3, Reason: "left"}}},
			`{"event":"changes","room":"42","epoch":"e1","version":20,"from":18,` +
				`"changes":[{"type":"join","user":"赵六","seat":0},{"type":"leave","user":"李四","seat":3,"reason":"left"}]}`},
		{"changes of a member and of the room",
			&Event{Event: EventChanges, Room: "42", Epoch: "e1", Version: 20, From: 19,
				Changes: []Change{{Type: "away", User: "赵六", Seat: 0}, {Type: "settings", Settings: &room.Settings{Capacity: 4, Closed: true}}, {Type: "settings", Settings: &room.Settings{}}}},
			`{"event":"changes","room":"42","epoch":"e1","version":20,"from":19,` +
				`"changes":[{"type":"away","user":"赵六","seat":0},{"type":"settings","settings":{"capacity":4,"closed":true}},{"type":"settings","settings":{"capacity":0}}]}`},
		{"a room with settings, and a member who is away",
			&Reply{ID: ptr(int64(1)), Room: "42", Epoch: "e1", Version: 1, State: State{Count: 1, Settings: &room.Settings{Capacity: 4, Keep: true}, Users: []Seated{{User: "a", Seat: 2, Away: true}}}},
			`{"id":1,"room":"42","epoch":"e1","version":1,"count":1,"settings":{"capacity":4,"keep":true},"users":[{"user":"a","seat":2,"away":true}]}`},
		{"a room and members with data",
			&Reply{ID: ptr(int64(1)), Room: "42", Epoch: "e1", Version: 1, State: State{Count: 2, Settings: &room.Settings{Data: room.DataAdmins}, Data: `[1.0, {"a":null}]`,
				Users: []Seated{{User: "a", Seat: 0, Away: true, Ready: true, Data: `"x"`}, {User: "b", Seat: 1, Data: `{"to":[]}`}}}},
			`{"id":1,"room":"42","epoch":"e1","version":1,"count":2,"settings":{"capacity":0,"data":"admins"},"data":[1.0, {"a":null}],` +
				`"users":[{"user":"a","seat":0,"away":true,"ready":true,"data":"x"},{"user":"b","seat":1,"data":{"to":[]}}]}`},
		{"a seat that is reserved, and a party that goes",
			&Event{Event: EventChanges, Room: "42", Epoch: "e1", Version: 20, From: 17, Changes: []Change{
				{Type: "join", User: "a", Seat: 0, Away: true},
				{Type: "leave", User: "b", Seat: 1, Reason: "kicked", Text: "too \"loud\""},
				{Type: "leave", User: "c", Seat: 2, Reason: "moved", To: Target{Room: "43"}}}},
			`{"event":"changes","room":"42","epoch":"e1","version":20,"from":17,"changes":[` +
				`{"type":"join","user":"a","seat":0,"away":true},` +
				`{"type":"leave","user":"b","seat":1,"reason":"kicked","text":"too \"loud\""},` +
				`{"type":"leave","user":"c","seat":2,"reason":"moved","to":"43"}]}`},
		{"data and messages",
			&Event{Event: EventChanges, Room: "42", Epoch: "e1", Version: 20, From: 12, Changes: []Change{
				{Type: "member", User: "a", Seat: 3, Ready: new(true), Data: `{"hp":7}`},
				{Type: "member", User: "a", Ready: new(false)}, {Type: "member", User: "a", Data: `null`},
				{Type: "data", User: "a", Data: `[[]]`}, {Type: "data"},
				{Type: "message", User: "a", Text: "hi", To: Target{Users: []string{"b", "c"}}},
				{Type: "message", User: "a", Data: "null"}, {Type: "message", Text: "hi"}}},
			`{"event":"changes","room":"42","epoch":"e1","version":20,"from":12,"changes":[` +
				`{"type":"member","user":"a","seat":3,"ready":true,"data":{"hp":7}},{"type":"member","user":"a","seat":0,"ready":false},{"type":"member","user":"a","seat":0,"data":null},` +
				`{"type":"data","user":"a","data":[[]]},{"type":"data"},` +
				`{"type":"message","user":"a","text":"hi","to":["b","c"]},` +
				`{"type":"message","user":"a","data":null},{"type":"message","text":"hi"}]}`},
		{"timers",
			&Event{Event: EventChanges, Room: "42", Epoch: "e1", Version: 20, From: 17, Changes: []Change{
				{Type: "countdown", User: "a", Name: "turn", In: new(int64(29990))}, {Type: "countdown", Name: "turn", In: new(int64(0))}, {Type: "countdown", User: "a", Name: "turn"}, {Type: "timer", Name: "turn"}}},
			`{"event":"changes","room":"42","epoch":"e1","version":20,"from":17,"changes":[` +
				`{"type":"countdown","user":"a","name":"turn","in":29990},{"type":"countdown","name":"turn","in":0},{"type":"countdown","user":"a","name":"turn","in":null},{"type":"timer","name":"turn"}]}`},
		{"a list with timers",
			&Reply{ID: ptr(int64(1)), Room: "42", Epoch: "e1", Version: 1, State: State{Data: "1", Timers: Timers{"turn": 5, "b": 0}, Users: []Seated{}}},
			`{"id":1,"room":"42","epoch":"e1","version":1,"count":0,"data":1,"timers":{"b":0,"turn":5},"users":[]}`},
		{"a snapshot with timers",
			&Event{Event: EventSnapshot, Room: "42", Epoch: "e1", Version: 1, State: State{Timers: Timers{"turn": 5}, Users: []Seated{}}},
			`{"event":"snapshot","room":"42","epoch":"e1","version":1,"count":0,"timers":{"turn":5},"users":[]}`},
		{"changes that cancel out",
			&Event{Event: EventChanges, Room: "42", Epoch: "e1", Version: 2, Changes: []Change{}},
			`{"event":"changes","room":"42","epoch":"e1","version":2,"from":0,"changes":[]}`},
		{"snapshot",
			&Event{Event: EventSnapshot, Room: "42", Epoch: "e1", Version: 20, State: State{Count: 1, Settings: &room.Settings{Capacity: 4}, Users: []Seated{{User: "赵六", Seat: 0}}}},
			`{"event":"snapshot","room":"42","epoch":"e1","version":20,"count":1,"settings":{"capacity":4},"users":[{"user":"赵六","seat":0}]}`},
		{"snapshot with data",
			&Event{Event: EventSnapshot, Room: "42", Epoch: "e1", Version: 20, State: State{Data: `7`, Users: []Seated{}}},
			`{"event":"snapshot","room":"42","epoch":"e1","version":20,"count":0,"data":7,"users":[]}`},
		{"snapshot of an empty room",
			&Event{Event: EventSnapshot, Room: "42", Epoch: "e1", Version: 20, State: State{Users: []Seated{}}},
			`{"event":"snapshot","room":"42","epoch":"e1","version":20,"count":0,"users":[]}`},
		{"a ping", &Reply{ID: ptr(int64(8)), Time: 946684800000}, `{"id":8,"time":946684800000}`},
		{"private data, and what was said",
			&Reply{ID: ptr(int64(1)), Room: "42", Epoch: "e1", Version: 3, State: State{Private: map[string]JSON{"b": "1", "a": "[2]"}, Host: "a", Users: []Seated{}},
				Said: []Said{{Epoch: "e0", Version: 7, User: "a", Text: "hi"}, {Version: 2, Data: "null", To: []string{"a"}}}},
			`{"id":1,"room":"42","epoch":"e1","version":3,"count":0,"private":{"a":[2],"b":1},"host":"a","said":[{"epoch":"e0","version":7,"user":"a","text":"hi"},{"version":2,"data":null,"to":["a"]}],"users":[]}`},
		{"a join after a kick", &Reply{ID: ptr(int64(1)), Room: "42", Epoch: "e1", Version: 6, Reason: ReasonKicked, Text: "too loud", Error: NewError(CodeConflict, "m")},
			`{"id":1,"room":"42","epoch":"e1","version":6,"reason":"kicked","text":"too loud","error":{"code":"conflict","message":"m","retry":false}}`},
		{"a join after a move", &Reply{ID: ptr(int64(1)), Room: "42", Epoch: "e1", Version: 6, Reason: ReasonMoved, To: "43", Error: NewError(CodeConflict, "m")},
			`{"id":1,"room":"42","epoch":"e1","version":6,"reason":"moved","to":"43","error":{"code":"conflict","message":"m","retry":false}}`},
		{"a lost seat", &Event{Event: EventLost, Room: "42", Reason: CodeRoomFull},
			`{"event":"lost","room":"42","reason":"room_full"}`},
		{"a kick", &Event{Event: EventLost, Room: "42", Reason: ReasonKicked, Text: "too loud"},
			`{"event":"lost","room":"42","reason":"kicked","text":"too loud"}`},
		{"a move", &Event{Event: EventLost, Room: "42", Reason: ReasonMoved, To: "43"},
			`{"event":"lost","room":"42","reason":"moved","to":"43"}`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got := encode("before ", tt.frame)
			if want := "before " + tt.want; got != want {
				t.Fatalf("got  %s\nwant %s", got, want)
			}
			back, err := DecodeFrame([]byte(tt.want))
			if err != nil || !reflect.DeepEqual(back, tt.frame) {
				t.Errorf("read back as %+v, %v, want %+v", back, err, tt.frame)
			}
		})
	}
}

func encode(before string, f Frame) string {
	switch f := f.(type) {
	case *Reply:
		return string(AppendReply([]byte(before), f))
	case *Event:
		return string(AppendEvent([]byte(before), f))
	}
	panic("no such frame")
}

// A frame is valid JSON also if its fields are not set, or are not UTF-8. A refusal carries no result.
func TestEncodeIsAlwaysJSON(t *testing.T) {
	result := Reply{Room: "42", Epoch: "e", Version: 5, Seat: ptr(1), State: State{Data: "1", Users: []Seated{}}, Error: &Error{}}
	for want, frame := range map[string]Frame{
		`{"event":"snapshot","room":"","epoch":"","version":0,"count":0,"users":[]}`: &Event{Event: EventSnapshot},
		`{"event":"changes","room":"","epoch":"","version":0,"from":0,"changes":[]}`: &Event{Event: EventChanges},
		"{\"error\":{\"code\":\"a\uFFFD\",\"message\":\"b\uFFFD\",\"retry\":false}}": &Reply{Error: &Error{Code: "a\xff", Message: "b\xfe"}},
		`{"room":"42","error":{"code":"","message":"","retry":false}}`:               &result,
	} {
		if got := encode("", frame); got != want {
			t.Errorf("got  %s\nwant %s", got, want)
		}
	}
}

func TestDecodeFrame(t *testing.T) {
	tests := []struct {
		name, data string
		want       Frame // nil: an error
	}{
		{"unknown fields are ignored", `{"id":1,"room":"42","later":{"x":[1]},"count":2}`,
			&Reply{ID: ptr(int64(1)), Room: "42", State: State{Count: 2}}},
		{"also inside", `{"event":"changes","changes":[{"type":"join","user":"a","seat":1,"at":5}]}`,
			&Event{Event: "changes", Changes: []Change{{Type: "join", User: "a", Seat: 1}}}},
		{"unknown kind of event", `{"event":"closing","in":5}`, &Event{Event: "closing"}},
		{"an event with an id is an event", `{"id":1,"event":"changes"}`, &Event{Event: "changes"}},
		{"a message to nobody is one to nobody", `{"event":"changes","changes":[{"type":"message","to":[]}]}`,
			&Event{Event: "changes", Changes: []Change{{Type: "message", To: Target{Users: []string{}}}}}},
		{"to is neither", `{"event":"changes","changes":[{"type":"message","to":{"a":1}}]}`, nil},
		{"to holds a number", `{"event":"changes","changes":[{"type":"message","to":[1]}]}`, nil},
		{"a name twice in data", `{"id":1,"data":{"a":1,"a":2}}`, nil},
		{"unknown error code", `{"id":1,"error":{"code":"later","message":"m","retry":true}}`,
			&Reply{ID: ptr(int64(1)), Error: &Error{Code: "later", Message: "m", Retry: true}}},
		{"neither", `{"room":"42"}`, nil},
		{"not an object", `[]`, nil},
		{"null", `null`, nil},
		{"empty", ``, nil},
		{"trailing data", `{"id":1}{"id":2}`, nil},
		{"wrong type", `{"id":"1"}`, nil},
		{"negative version", `{"id":1,"version":-1}`, nil},
		{"given twice", `{"id":1,"version":1,"version":2}`, nil},
		{"not UTF-8", "{\"id\":1,\"room\":\"\xff\"}", nil},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, err := DecodeFrame([]byte(tt.data))
			if (err != nil) != (tt.want == nil) {
				t.Fatalf("got %+v, %v", got, err)
			}
			if err == nil && !reflect.DeepEqual(got, tt.want) {
				t.Errorf("got %+v, want %+v", got, tt.want)
			}
		})
	}
}

func TestAppendRequest(t *testing.T) {
	for want, req := range map[string]Request{
		`{"id":2,"action":"join","room":"4\"2","seat":0}`:                 {ID: 2, Action: ActionJoin, Room: "4\"2", Seat: ptr(0)},
		`{"id":9007199254740991,"action":"leave","room":"张<三>"}`:          {ID: MaxID, Action: ActionLeave, Room: "张<三>"},
		`{"id":3,"action":"ping"}`:                                        {ID: 3, Action: ActionPing},
		`{"id":4,"action":"ready","room":"42","value":false}`:             {ID: 4, Action: ActionReady, Room: "42"},
		`{"id":6,"action":"say","room":"42","text":"a<b","to":["x","y"]}`: {ID: 6, Action: ActionSay, Room: "42", Text: "a<b", To: []string{"x", "y"}},
		`{"id":7,"action":"kick","room":"42","user":"x","ban":60}`:        {ID: 7, Action: ActionKick, Room: "42", User: "x", Ban: 60},
		`{"id":5,"action":"set","room":"42","scope":"member","data":{"a": 1},"expect":18,"epoch":"e"}`: {ID: 5, Action: ActionSet,
			Room: "42", Scope: ScopeMember, Data: `{"a": 1}`, Expect: ptr(uint64(18)), Epoch: "e"},
		`{"id":8,"action":"configure","room":"42","settings":{"capacity":4,"data":"admins"}}`: {ID: 8, Action: ActionConfigure,
			Room: "42", Settings: &room.Settings{Capacity: 4, Data: room.DataAdmins}},
	} {
		got := AppendRequest([]byte("x"), &req)
		if string(got) != "x"+want {
			t.Errorf("got  %s\nwant x%s", got, want)
		}
		if back, err := DecodeRequest(got[1:]); err != nil || !reflect.DeepEqual(back, req) {
			t.Errorf("read back as %+v, %v, want %+v", back, err, req)
		}
	}
}

// What is not set is written as far as the action needs it; a request may be wrong.
func TestAppendRequestIsAlwaysJSON(t *testing.T) {
	for want, req := range map[string]Request{
		`{"id":0,"action":""}`:                                    {},
		`{"id":1,"action":"later","room":"42"}`:                   {ID: 1, Action: "later", Room: "42"},
		`{"id":1,"action":"leave","room":"42","seat":0}`:          {ID: 1, Action: ActionLeave, Room: "42", Seat: ptr(0)},
		`{"id":1,"action":"set","room":"","data":null}`:           {ID: 1, Action: ActionSet},
		`{"id":1,"action":"configure","room":"","settings":null}`: {ID: 1, Action: ActionConfigure},
		`{"id":1,"action":"say","room":"","to":[]}`:               {ID: 1, Action: ActionSay, To: []string{}},
		"{\"id\":1,\"action\":\"\uFFFD\",\"user\":\"\uFFFD\"}":    {ID: 1, Action: "\xff", User: "\xfe"},
	} {
		if got := string(AppendRequest(nil, &req)); got != want {
			t.Errorf("got  %s\nwant %s", got, want)
		}
	}
}
