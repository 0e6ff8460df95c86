package store

import (
	"reflect"
	"testing"

	"github.com/go-json-experiment/json"

	"roomd/lockmgr/redistest"
	"roomd/room"
)

// FuzzParseCommit checks that an event is read as the JSON library reads it, or refused by both.
func FuzzParseCommit(f *testing.F) {
	for _, seed := range []string{
		`{"epoch":"e","version":7,"mark":"m","node":"n","changes":[{"type":"join","user":"李四","seat":0,"session":"s","at":1795234393978},{"type":"leave","user":"a","seat":1}]}`,
		`{"epoch":"e","version":7,"mark":"m","node":"n","changes":[{"type":"replace","user":"a","seat":3,"session":"s","at":1,"old":"t"}]}`,
		`{"epoch":"e","version":7,"mark":"m","node":"n","changes":[]}`,
		`{"epoch":"e","version":7,"mark":"m","node":"n","changes":[{"type":"join","user":"a","seat":1},]}`,
		`{"epoch":"e","version":07,"mark":"m","node":"n","changes":[]}`,
		"{\"epoch\":\"\xff\",\"version\":7,\"mark\":\"\n\",\"node\":\"n\",\"changes\":[]}",
		`{"version":2,"epoch":"e","changes":null,"more":[1]}`,
		`{"epoch":"\u0065\"","version":7,"mark":"m","node":"n","changes":[{"type":"join","user":"a","seat":-1}]}`,
		`{"epoch":"e","version":7,"mark":"m","node":"n","changes":[{"type":"jo\"","user":"a","seat":1,"data":{"a": [1]},"ready":true,"to":["b"]}]}`,
		`{"epoch":"e","epoch":"f","version":1}`, `null`, ``,
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, payload string) {
		var theirs room.Commit
		theirErr := json.Unmarshal([]byte(payload), &theirs)
		ours, err := ParseCommit(payload)
		redistest.FatalIf(t, (err == nil) != (theirErr == nil && theirs.Version > 0),
			"%q: %v, the library: %v", payload, err, theirErr)
		if err != nil {
			return
		}
		redistest.FatalIf(t, !reflect.DeepEqual(*ours, theirs), "%q: %+v, the library: %+v", payload, ours, theirs)
		if at, ok := PositionIn(payload); ok && at != theirs.Position {
			t.Fatalf("%q is at %+v, the library: %+v", payload, at, theirs.Position)
		}
		written, err := json.Marshal(ours)
		if got := string(appendCommit(nil, ours)); err != nil || got != string(written) {
			t.Fatalf("written as %q, by the library as %q, %v", got, written, err)
		}
	})
}

// FuzzParseMember checks that a member is read and written as the JSON library does it, and sits on
// a seat that there is.
func FuzzParseMember(f *testing.F) {
	for _, seed := range []string{
		`{"seat":0,"session":"b0ec48c7","node":"02c650cb","at":1795234393978}`,
		`{"seat":65536,"session":"","node":"","at":0}`, `{"seat":-1}`, `{"at":1e3,"seat":2}`, `{"Seat":1}`, `{"seat":1,"ready":true,"data":{"version":3,"value":{"a": 1}}}`, `{"seat":1,"seat":2}`,
		`"a string"`, `null`, ``, "{\"node\":\"\xff\"}",
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, stored string) {
		m, err := ParseMember(stored)
		if err != nil {
			return
		}
		redistest.ErrorIf(t, m.Seat < 0 || m.Seat >= room.MaxSeats, "%q sits on %d", stored, m.Seat)
		written := appendMember(nil, m)
		if theirs, err := json.Marshal(m); err != nil || string(written) != string(theirs) {
			t.Errorf("written as %s, by the library as %s, %v", written, theirs, err)
		}
		if again, err := ParseMember(string(written)); err != nil || string(appendMember(nil, again)) != string(written) {
			t.Errorf("%q: %+v, then %+v, %v", stored, m, again, err)
		}
	})
}
