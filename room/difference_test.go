package room

import (
	"strings"
	"testing"
)

func TestDifferences(t *testing.T) {
	build := func(change func(r *Room, members map[string]Member)) *Room {
		members := map[string]Member{
			"a": {Seat: 0, Session: "s", Node: "n", At: 1}, "b": {Seat: 1, Session: "s", Node: "n", At: 1},
		}
		r := NewRoom("42", Position{"e", 5, "m"}, members)
		r.Restore(State{Settings: &Settings{Capacity: 2}, Data: &Value{Version: 3, JSON: []byte(`1`)}, Bans: map[string]int64{"x": 7}, Gone: map[string]Gone{"y": {Version: 2, Reason: reasonKicked}}, Host: "a"})
		if change != nil {
			change(r, members)
		}
		return r
	}
	known := build(nil)
	for want, change := range map[string]func(r *Room, members map[string]Member){
		"":                                       nil,
		`"c" is too many, on seat 2`:             func(_ *Room, m map[string]Member) { m["c"] = Member{Seat: 2} },
		`"b" is missing on seat 1`:               func(_ *Room, m map[string]Member) { delete(m, "b") },
		`"b" is on seat 0 instead of 1`:          func(_ *Room, m map[string]Member) { m["b"] = Member{Session: "s", Node: "n", At: 1} },
		`"b" has another session`:                func(_ *Room, m map[string]Member) { m["b"] = Member{Seat: 1, Session: "t", Node: "n", At: 1} },
		`"a" has other data, or is ready or not`: func(_ *Room, m map[string]Member) { m["a"] = Member{Session: "s", Node: "n", At: 1, Ready: true} },
		`"a" has other private data`: func(_ *Room, m map[string]Member) {
			m["a"] = Member{Session: "s", Node: "n", At: 1, Private: &Value{3, []byte(`"secret"`)}}
		},
		`the data is "2" of version 4 instead of "1" of version 3`: func(r *Room, _ map[string]Member) { r.state.data = &Value{4, []byte(`2`)} },
		`"1" of version 4 instead of`:                              func(r *Room, _ map[string]Member) { r.state.data = &Value{4, []byte(`1`)} },
		"1 users were taken out instead of 1": func(r *Room, _ map[string]Member) {
			r.state.gone = &goneList{map[string]Gone{"y": {Version: 2, Reason: ReasonMoved}}}
		},
		"0 users were taken out instead of 1": func(r *Room, _ map[string]Member) { r.state.gone = nil },
		`the host is "b" instead of "a"`:      func(r *Room, _ map[string]Member) { r.state.host = "b" },
		"the settings are":                    func(r *Room, _ map[string]Member) { r.state.settings.Capacity = 3 },
		"1 users are banned instead of 1":     func(r *Room, _ map[string]Member) { r.state.bans = map[string]int64{"x": 8} },
		"and 1 more": func(r *Room, m map[string]Member) {
			clear(m)
			m["c"], r.state.data = Member{}, nil
		},
	} {
		got := known.Differences(build(change))
		if !strings.Contains(got, want) || want == "" && got != "" || want != "and 1 more" && strings.Contains(got, ";") {
			t.Errorf("%q, want %q", got, want)
		}
	}
}
