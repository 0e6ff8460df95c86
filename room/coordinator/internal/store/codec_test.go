package store

import (
	"reflect"
	"testing"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"pgregory.net/rapid"

	"roomd/lockmgr/redistest"
	"roomd/room"
)

// Both encoders and both decoders agree, whatever the names.
func TestEvent(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.OneOf(rapid.SampledFrom([]string{"张三", "a", `"`, `\`, "}", `","seat":9`, "\u2028", "\x7f"}), rapid.String())
		want := room.Commit{Position: room.Position{Epoch: text.Draw(t, "epoch"), Version: rapid.Uint64Range(1, 1<<40).Draw(t, "version"), CommitID: text.Draw(t, "mark")}, Prev: text.Draw(t, "prev"), Node: text.Draw(t, "node"), Updates: []room.Update{}}
		for range rapid.IntRange(0, 4).Draw(t, "changes") {
			want.Updates = append(want.Updates, room.Update{
				Type: rapid.SampledFrom([]room.Kind{room.KindJoin, room.KindLeave, "replace", "away", "back"}).Draw(t, "type"), User: text.Draw(t, "user"),
				Seat: rapid.IntRange(0, room.MaxSeats).Draw(t, "seat"), Session: text.Draw(t, "session"),
				At: rapid.Int64Range(0, 1<<42).Draw(t, "at"), Old: text.Draw(t, "old"), Reason: room.Reason(text.Draw(t, "reason")),
			})
		}
		ours := appendCommit(nil, &want)
		theirs, err := json.Marshal(&want)
		redistest.FatalIf(t, err != nil || string(ours) != string(theirs), "%s\nlibrary: %s, %v", ours, theirs, err)
		read, err := ParseCommit(string(ours))
		redistest.FatalIf(t, err != nil || !reflect.DeepEqual(*read, want), "%s\nread as %+v, %v", ours, read, err)
		if at, ok := PositionIn(string(ours)); ok && at != want.Position {
			t.Fatalf("%s is at %+v", ours, at)
		}
		var m room.Member
		for field, v := range reflect.ValueOf(&m).Elem().Fields() {
			if !rapid.Bool().Draw(t, "has "+field.Name) {
				continue
			}
			switch v := v.Addr().Interface().(type) {
			case *bool:
				*v = true
			case *int:
				*v = 1
			case *int64:
				*v = 5
			case *string:
				*v = text.Draw(t, field.Name)
			case **room.Value:
				*v = &room.Value{Version: 3, JSON: []byte(`{"\u0041":1}`)}
			case **room.Agreement:
				*v = &room.Agreement{Labels: `{"mode":"ranked"}`, Rooms: []string{text.Draw(t, field.Name)}}
			default:
				t.Fatalf("%s has no value here", field.Name)
			}
		}
		theirs, _ = json.Marshal(&m, jsontext.PreserveRawStrings(true))
		if got := appendMember(nil, m); string(got) != string(theirs) {
			t.Fatalf("%s, library: %s", got, theirs)
		}
	})
}

// Events that another version writes in another form are read all the same.
func TestEvent_InOtherWords(t *testing.T) {
	for payload, ok := range map[string]bool{
		`{"version":2,"epoch":"e","changes":[{"user":"a","seat":1,"type":"join"}]}`: true,
		`{"epoch":"e","version":2,"node":"n","changes":[],"more":1}`:                true,
		`{"epoch":"e","version":0,"node":"n","changes":[]}`:                         false,
		`{"epoch":"e","version":2,"node":"n","changes":[`:                           false,
		`{"epoch":"e","version":99999999999999999999,"node":"n","changes":[]}`:      false,
		``: false,
	} {
		c, err := ParseCommit(payload)
		redistest.ErrorIf(t, (err == nil) != ok || ok && (c.Version != 2 || c.Epoch != "e"),
			"%s: %+v, %v", payload, c, err)
	}
}

func BenchmarkEvent(b *testing.B) {
	w := room.Commit{Position: room.Position{Epoch: "abcdefghijklmnop", Version: 7, CommitID: "abcdefghijkl"}, Node: "abcdefghijklmnop", Updates: []room.Update{
		{Type: room.KindJoin, User: "李四", Seat: 0, Session: "0e5f1d7e-94a5-4b0f-a0f7-0123456789ab", At: 1795234393978},
		{Type: room.KindLeave, User: "王五", Seat: 1},
	}}
	payload := string(appendCommit(nil, &w))
	b.Run("encode", func(b *testing.B) {
		b.ReportAllocs()
		buf := make([]byte, 0, 1024)
		for b.Loop() {
			buf = appendCommit(buf[:0], &w)
		}
	})
	b.Run("decode", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			redistest.OK(b, redistest.Err(ParseCommit(payload)))
		}
	})
	b.Run("decode with the library", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			redistest.OK(b, json.Unmarshal([]byte(payload), new(room.Commit)))
		}
	})
	b.Run("encode with the library", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			redistest.OK(b, redistest.Err(json.Marshal(&w)))
		}
	})
}

// Settings in an event that a later version has written become what this one knows.
func TestParseCommit_SettingsOfAnotherVersion(t *testing.T) {
	c, err := ParseCommit(`{"epoch":"e","version":2,"mark":"m","prev":"l","node":"n","changes":[{"type":"settings","settings":{"capacity":-1,"watch":"friends"}}]}`)
	redistest.OK(t, err)
	redistest.Equal(t, "it is", *c.Updates[0].Settings, (room.Settings{Watch: room.WatchMembers}))
}
