package protocol

import (
	"fmt"
	"reflect"
	"strings"
	"testing"

	"github.com/go-json-experiment/json/jsontext"

	"roomd/room"
)

func TestRequestsOfMembersAndAdmins(t *testing.T) {
	to := make([]string, MaxTo)
	for i := range to {
		to[i] = fmt.Sprint("p", i)
	}
	tests := []struct {
		name, frame string // behind the id and the action
		want        Request
	}{
		{"join with seat", `"join","room":"42","seat":0`, Request{Seat: ptr(0)}},
		{"largest seat", `"join","room":"42","seat":65535`, Request{Seat: ptr(65535)}},
		{"leave", `"leave","room":"42"`, Request{}},
		{"any order and spacing", "\"users\"\r\n,\t\"room\" : \"42\"", Request{}},
		{"escapes mean what they stand for", `"\u0077atch","room":"4\u0032"`, Request{}},
		{"ready", `"ready","room":"42","value":true`, Request{Value: true}},
		{"not ready", `"ready","value":false,"room":"42"`, Request{}},
		{"set", `"set","room":"42","data":{"round":2}`, Request{Data: `{"round":2}`}},
		{"a value stays as it was written", `"set","room":"42","data": [ 1.0, "\u0041" ,{"a":{},"b":[]}] `, Request{Data: `[ 1.0, "\u0041" ,{"a":{},"b":[]}]`}},
		{"set nothing", `"set","room":"42","data":null`, Request{Data: "null"}},
		{"set with all", `"set","room":"42","scope":"member","data":"x","expect":0,"epoch":"e"`,
			Request{Scope: ScopeMember, Data: `"x"`, Expect: ptr(uint64(0)), Epoch: "e"}},
		{"set of a room, on purpose", `"set","room":"42","scope":"room","data":1,"expect":9007199254740991`,
			Request{Scope: ScopeRoom, Data: "1", Expect: ptr(uint64(9007199254740991))}},
		{"say a text", `"say","room":"42","text":"你好\n"`, Request{Text: "你好\n"}},
		{"say data", `"say","room":"42","data":null,"to":["李四"]`, Request{Data: "null", To: []string{"李四"}}},
		{"say to many", `"say","room":"42","text":"a","to":["` + strings.Join(to, `","`) + `"]`, Request{Text: "a", To: to}},
		{"say to admins", `"say","room":"42","text":"a","to":[]`, Request{Text: "a", To: []string{}}},
		{"a txn", `"txn","room":"42","actions":[{"action":"set","data":1},{"action":"timer","name":"turn","in":null},{"action":"say","text":"a","to":["b"]},{"action":"close"}],"expect":1,"epoch":"e"`,
			Request{Actions: []Request{
				{Action: ActionSet, Data: "1"}, {Action: ActionTimer, Name: "turn"}, {Action: ActionSay, Text: "a", To: []string{"b"}}, {Action: ActionClose},
			}, Expect: ptr(uint64(1)), Epoch: "e"}},
		{"a timer", `"timer","room":"42","name":"turn","in":30000`, Request{Name: "turn", In: ptr(int64(30000))}},
		{"a timer with all", `"timer","room":"42","name":"a","in":0,"then":{"close":true},"expect":3,"epoch":"e"`,
			Request{Name: "a", In: ptr(int64(0)), Then: &room.Effect{Close: true}, Expect: ptr(uint64(3)), Epoch: "e"}},
		{"a timer that kicks", `"timer","room":"42","name":"a","in":7776000000,"then":{"kick":"王五"}`, Request{Name: "a", In: ptr(int64(MaxTimer)), Then: &room.Effect{Kick: "王五"}}},
		{"a turn that passes", `"timer","room":"42","name":"a","in":1,"then":{"data":{"turn": 1.0}}`, Request{Name: "a", In: ptr(int64(1)), Then: &room.Effect{Data: jsontext.Value(`{"turn": 1.0}`)}}},
		{"data that goes", `"timer","room":"42","name":"a","in":1,"then":{"data":null}`, Request{Name: "a", In: ptr(int64(1)), Then: &room.Effect{Data: jsontext.Value(`null`)}}},
		{"a timer is cancelled", `"timer","room":"42","name":"turn","in":null`, Request{Name: "turn"}},
		{"swap", `"swap","room":"42","users":["李四","王五"]`, Request{Users: []string{"李四", "王五"}}},
		{"shuffle", `"shuffle","room":"42"`, Request{}},
		{"kick", `"kick","room":"42","user":"王五"`, Request{User: "王五"}},
		{"kick with all", `"kick","room":"42","user":"a","text":"too loud","ban":315360000`, Request{User: "a", Text: "too loud", Ban: MaxBan}},
		{"a short ban", `"kick","ban":1,"text":"","room":"42","user":""`, Request{Ban: 1}},
		{"close", `"close","room":"42"`, Request{}},
		{"configure", `"configure","room":"42","settings":{"capacity":65536,"closed":true,"keep":true,"data":"admins","watch":"members"},"expect":7,"epoch":"e"`,
			Request{Settings: &room.Settings{Capacity: 65536, Closed: true, Keep: true, Data: room.DataAdmins, Watch: room.WatchMembers}, Expect: ptr(uint64(7)), Epoch: "e"}},
		{"configure to zero", `"configure","room":"42","settings":{ }`, Request{Settings: &room.Settings{}}},
		{"zero settings may be named", `"configure","room":"42","settings":{"keep":false,"data":"members","watch":"all","closed":false,"capacity":0}`, Request{Settings: &room.Settings{}}},
		{"names may be escaped", `"configure","room":"42","settings":{"\u006beep":true}`, Request{Settings: &room.Settings{Keep: true}}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, err := DecodeRequest([]byte(`{"id":1,"action":` + tt.frame + `}`))
			if err != nil {
				t.Fatalf("refused: %v", err)
			}
			tt.want.ID, tt.want.Room = 1, "42"
			tt.want.Action, _, _ = strings.Cut(strings.Replace(tt.frame[1:], `\u0077`, "w", 1), `"`)
			if !reflect.DeepEqual(got, tt.want) {
				t.Errorf("got  %+v\nwant %+v", got, tt.want)
			}
			back, err := DecodeRequest(AppendRequest(nil, &got))
			if err != nil || !reflect.DeepEqual(back, got) {
				t.Errorf("wrote %s, read back as %+v, %v", AppendRequest(nil, &got), back, err)
			}
		})
	}
}

// Ids and tokens are not judged here.
func TestDecodeRequest_WithoutRoom42(t *testing.T) {
	for frame, want := range map[string]Request{
		`{"id":0,"action":"users","room":"42"}`:                       {Action: "users", Room: "42"},
		`{"id":9007199254740991,"action":"users","room":"42"}`:        {ID: MaxID, Action: "users", Room: "42"},
		` {"id":7,"action":"join","room":"{张三} \u0000\ud83c\udccf"} `: {ID: 7, Action: "join", Room: "{张三} \x00🃏"},
		`{"id":8,"action":"join","room":""}`:                          {ID: 8, Action: "join"},
		`{"token":"","action":"auth","id":9}`:                         {ID: 9, Action: "auth"},
		`{"\u0069d":9,"action":"auth","token":"a.b.c"}`:               {ID: 9, Action: "auth", Token: "a.b.c"},
	} {
		if got, err := DecodeRequest([]byte(frame)); err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%s: got %+v, %v, want %+v", frame, got, err, want)
		}
	}
}

func TestRefusedFieldsOfMembersAndAdmins(t *testing.T) {
	many := `"to":["` + strings.Repeat(`a","`, MaxTo-1) + `b"]`
	tests := []struct{ frame, want string }{ // frame is what is behind the id and the room
		// Missing and foreign.
		{`"action":"ready"`, "value: required"},
		{`"action":"set"`, "data: required"},
		{`"action":"say"`, "text: required, or data"},
		{`"action":"say","to":["a"]`, "text: required, or data"},
		{`"action":"say","text":"a","data":1`, "data: does not go with text"},
		{`"action":"kick"`, "user: required"},
		{`"action":"configure"`, "settings: required"},
		{`"action":"set","data":1,"epoch":"e"`, "epoch: only goes with expect"},
		{`"action":"timer","name":"a"`, "in: required"},
		{`"action":"timer","in":1`, "name: required"},
		{`"action":"timer","name":"a","in":7776000001`, "in: must be a whole number from 0 to 7776000000, not 7776000001; null cancels the timer"},
		{`"action":"timer","name":"a","in":-1`, "in: must be a whole number from 0 to 7776000000, not -1; null cancels the timer"},
		{`"action":"timer","name":"a","in":"1"`, "in: must be a whole number from 0 to 7776000000, not a string; null cancels the timer"},
		{`"action":"timer","name":"a","in":null,"then":{"close":true}`, "then: does not go with in null, which cancels the timer"},
		{`"action":"timer","name":"a","in":1,"then":null`, "then: must be an object, not null"},
		{`"action":"timer","name":"a","in":1,"then":{}`, "then: must have one of close, kick and data"},
		{`"action":"timer","name":"a","in":1,"then":{"close":true,"kick":"a"}`, "then: must have one of close, kick and data"},
		{`"action":"timer","name":"a","in":1,"then":{"data":1,"data":2}`, "then: must have one of close, kick and data"},
		{`"action":"timer","name":"a","in":1,"then":{"close":false}`, "then.close: must be true"},
		{`"action":"timer","name":"a","in":1,"then":{"kick":""}`, "then.kick: must not be empty"},
		{`"action":"timer","name":"a","in":1,"then":{"Kick":"a"}`, `then: unknown field "Kick": names are in lower case, "kick"`},
		{`"action":"timer","name":"a","in":1,"then":{"data":{"a":1,"a":2}}`, "then.data: an object in it has a name twice"},
		{`"action":"set","data":1,"then":{"close":true}`, "then: only goes with timer"},
		{`"action":"txn"`, "actions: required"},
		{`"action":"txn","actions":1`, "actions: must be an array of actions, not a number"},
		{`"action":"txn","actions":[]`, "actions: must have 1 to 32 actions, not 0"},
		{`"action":"txn","actions":[` + strings.Repeat(`{"action":"close"},`, 32) + `{"action":"close"}]`, "actions: must have 1 to 32 actions, not 33"},
		{`"action":"txn","actions":[{"action":"close"},1]`, "actions[1]: it must be one JSON object, not a number"},
		{`"action":"txn","actions":[{}]`, "actions[0]: action: required"},
		{`"action":"txn","actions":[{"action":"dance"}]`, `actions[0]: unknown action "dance"`},
		{`"action":"txn","actions":[{"action":"join"}]`, "actions[0]: action: join is no part of a txn"},
		{`"action":"txn","actions":[{"action":"txn","actions":[{"action":"close"}]}]`, "actions[0]: action: txn is no part of a txn"},
		{`"action":"txn","actions":[{"action":"set","data":1,"id":1}]`, "actions[0]: id: goes with the txn, and not with its parts"},
		{`"action":"txn","actions":[{"action":"set","data":1,"room":"43"}]`, "actions[0]: room: goes with the txn, and not with its parts"},
		{`"action":"txn","actions":[{"action":"set","data":1,"expect":1}]`, "actions[0]: expect: goes with the txn, and not with its parts"},
		{`"action":"txn","actions":[{"action":"set"}]`, "actions[0]: data: required"},
		{`"action":"txn","actions":[{"action":"set","data":{"a":1,"a":2}}]`, "actions[0]: data: an object in it has a name twice"},
		{`"action":"txn","actions":[{"action":"close","Data":1}]`, `actions[0]: unknown field "Data": names are in lower case, "data"`},
		{`"action":"txn","actions":[{"action":"say","text":"a","text":"b"}]`, "actions[0]: text: given twice"},
		{`"action":"swap"`, "users: required"},
		{`"action":"swap","users":["a"]`, "users: must have 2 users, not 1"},
		{`"action":"swap","users":["a","b","c"]`, "users: must have 2 users, not 3"},
		{`"action":"swap","users":["a","a"]`, `users: has user "a" twice`},
		{`"action":"swap","users":["a",1]`, "users[1]: must be a string, not a number"},
		{`"action":"shuffle","users":["a","b"]`, "users: only goes with match and swap"},
		{`"action":"join","value":true`, "value: only goes with ready"},
		{`"action":"join","data":1`, "data: only goes with set and say"},
		{`"action":"set","data":1,"text":"a"`, "text: only goes with say and kick"},
		{`"action":"set","data":1,"to":["a"]`, "to: only goes with say"},
		{`"action":"say","text":"a","scope":"room"`, "scope: only goes with set"},
		{`"action":"ready","value":true,"user":"a"`, "user: only goes with set and kick"},
		{`"action":"say","text":"a","ban":5`, "ban: only goes with kick"},
		{`"action":"set","data":1,"settings":{}`, "settings: only goes with match and configure"},
		{`"action":"kick","user":"a","expect":1`, "expect: only goes with join and watch and set and timer and txn and configure"},
		{`"action":"close","epoch":"e"`, "epoch: only goes with join and watch and set and timer and txn and configure"},
		{`"action":"close","seat":1`, "seat: only goes with join"},
		{`"action":"close","token":"t"`, "token: only goes with auth"},
		{`"action":"auth","token":"t"`, "room: does not go with auth"},

		// Values.
		{`"action":"ready","value":null`, "value: must be true or false, not null"},
		{`"action":"ready","value":1`, "value: must be true or false, not a number"},
		{`"action":"ready","value":true,"value":true`, "value: given twice"},
		{`"action":"set","data":{"a":[{"b":1,"\u0062":2}]}`, "data: an object in it has a name twice"},
		{`"action":"set","data":["\ud800"]`, "data: not valid UTF-8"},
		{"\"action\":\"set\",\"data\":{\"\xff\":1}", "data: not valid UTF-8"},
		{`"action":"set","data":1,"data":1`, "data: given twice"},
		{`"action":"set","data":1,"scope":"world"`, `scope: must be "room" or "member" or "private", not "world"`},
		{`"action":"set","data":1,"user":"a"`, "user: with set, only goes with the scope private"},
		{`"action":"set","data":1,"scope":"private","user":""`, "user: must not be empty; without it, your own data is set"},
		{`"action":"set","data":1,"scope":""`, `scope: must be "room" or "member" or "private", not ""`},
		{`"action":"set","data":1,"scope":null`, "scope: must be a string, not null"},
		{`"action":"set","data":1,"expect":-1`, "expect: must be a whole number from 0 to 9007199254740991, not -1"},
		{`"action":"set","data":1,"expect":"18"`, "expect: must be a whole number from 0 to 9007199254740991, not a string"},
		{`"action":"set","data":1,"expect":null`, "expect: must be a whole number from 0 to 9007199254740991, not null"},
		{`"action":"set","data":1,"expect":1,"epoch":5`, "epoch: must be a string, not a number"},
		{`"action":"say","text":5`, "text: must be a string, not a number"},
		{`"action":"say","text":"\udc00"`, "text: not valid UTF-8"},
		{`"action":"say","text":""`, "text: must not be empty"},
		{`"action":"say","text":"a","to":"b"`, "to: must be an array of users, not a string"},
		{`"action":"say","text":"a","to":null`, "to: must be an array of users, not null"},
		{`"action":"say","text":"a",` + many, `to: has user "a" twice`},
		{`"action":"say","text":"a",` + different(MaxTo+1), "to: must have 0 to 64 users, not 65"},
		{`"action":"say","text":"a",` + strings.Replace(different(MaxTo+2), `p65"`, `p0"`, 1), "to: must have 0 to 64 users, not 66"},
		{`"action":"say","text":"a","to":["b",["c"]]`, "to[1]: must be a string, not an array"},
		{`"action":"say","text":"a","to":["\ud800"]`, "to[0]: not valid UTF-8"},
		{`"action":"say","text":"a","to":["b"],"to":["b"]`, "to: given twice"},
		{`"action":"kick","user":5`, "user: must be a string, not a number"},
		{`"action":"kick","user":"a","ban":0`, "ban: must be a whole number from 1 to 315360000, not 0"},
		{`"action":"kick","user":"a","ban":315360001`, "ban: must be a whole number from 1 to 315360000, not 315360001"},
		{`"action":"kick","user":"a","ban":"1h"`, "ban: must be a whole number from 1 to 315360000, not a string"},
		{`"action":"configure","settings":null`, "settings: must be an object, not null"},
		{`"action":"configure","settings":[{}]`, "settings: must be an object, not an array"},
		{`"action":"configure","settings":{"capacity":"4"}`, "settings.capacity: must be a whole number from 0 to 65536, not a string"},
		{`"action":"configure","settings":{"capacity":65537}`, "settings.capacity: must be a whole number from 0 to 65536, not 65537"},
		{`"action":"configure","settings":{"capacity":1.0}`, "settings.capacity: must be a whole number from 0 to 65536, not 1.0"},
		{`"action":"configure","settings":{"capacity":1,"capacity":1}`, "settings.capacity: given twice"},
		{`"action":"configure","settings":{"closed":"yes"}`, "settings.closed: must be true or false, not a string"},
		{`"action":"configure","settings":{"keep":null}`, "settings.keep: must be true or false, not null"},
		{`"action":"configure","settings":{"data":""}`, `settings.data: must be "members" or "admins", not ""`},
		{`"action":"configure","settings":{"color":{"a":1,"a":2}}`, `settings: unknown field "color"`},
		{`"action":"configure","settings":{"Keep":true}`, `settings: unknown field "Keep": names are in lower case, "keep"`},
		{"\"action\":\"configure\",\"settings\":{\"\xff\":1}", "settings: a field's name is not valid UTF-8: \"\ufffd\""},
		{`"action":"configure","settings":{},"settings":{}`, "settings: given twice"},

		// Broken inside: the rest of the frame cannot be read.
		{`"action":"configure","settings":{"capacity":1`, "not valid JSON: the frame ends in the middle of the object"},
		{`"action":"configure","settings":{"capacity"`, "not valid JSON: the frame ends in the middle of the object"},
		{`"action":"say","to":["a"`, "not valid JSON: the frame ends in the middle of the object"},
		{`"action":"say","to":`, "not valid JSON: the frame ends in the middle of the object"},
		{`"action":"set","data":[1,}`, "not valid JSON from byte 45 on"},
	}
	for _, tt := range tests {
		frame := `{"id":1,"room":"42",` + tt.frame
		if !strings.HasPrefix(tt.want, "not valid JSON") {
			frame += "}"
		}
		_, err := DecodeRequest([]byte(frame))
		if err == nil || err.Err.Message != tt.want || err.Err.Code != CodeBadRequest || err.ID == nil || err.Room != "42" {
			t.Errorf("%s\ngot  %+v\nwant %s", frame, err, tt.want)
		}
	}
}

// different returns the field of n users.
func different(n int) string {
	var users []string
	for i := range n {
		users = append(users, fmt.Sprintf(`"p%d"`, i))
	}
	return `"to":[` + strings.Join(users, ",") + `]`
}

// Each action refuses every field that its row does not have.
func TestActions_Fields(t *testing.T) {
	values := [...]string{`1`, ``, `"42"`, `"t"`, `0`, `true`, `3`, `true`, `"a"`, `"private"`, `{}`, `{"a":"b"}`, `"k"`, `"p"`, `"a"`, `1`, `["a"]`, `["a","b"]`, `"turn"`, `1`, `{"close":true}`, `[{"action":"close"}]`, `1`, `1`, `"e"`}
	for _, action := range Actions {
		for f := fieldRoom; f < fieldUnknown; f++ {
			needed := action.required
			if action.Name == ActionSay && f != fieldData {
				needed |= setOf(fieldText)
			}
			if f == fieldEpoch {
				needed |= action.optional & setOf(fieldExpect)
			}
			if f == fieldUsers {
				needed |= action.optional & setOf(fieldParty)
			}
			if f == fieldUser && action.Name == ActionSet {
				needed |= setOf(fieldScope)
			}
			frame := fmt.Sprintf(`{"id":1,"action":%q`, action.Name)
			for g := fieldRoom; g < fieldUnknown; g++ {
				if g == f || needed.has(g) {
					frame += fmt.Sprintf(`,%q:%s`, g.name(), values[g])
				}
			}
			_, err := DecodeRequest([]byte(frame + "}"))
			if known := (action.required | action.optional).has(f); known != (err == nil) {
				t.Errorf("%s}: got %v", frame, err)
			}
		}
	}
	if ActionNamed("") != nil || len(fieldTable) != int(fieldUnknown) {
		t.Error("a field or an action has no name")
	}
}
