package room

import (
	"fmt"
	"reflect"
	"testing"

	"github.com/go-json-experiment/json"
	"pgregory.net/rapid"
)

// Both encoders and both decoders agree, whatever the names.
func TestWireEvent(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.OneOf(rapid.SampledFrom([]string{"张三", "a", `"`, `\`, "}", `","seat":9`, "\u2028", "\x7f"}), rapid.String())
		want := wireEvent{Epoch: text.Draw(t, "epoch"), Version: rapid.Uint64Range(1, 1<<40).Draw(t, "version"), Mark: text.Draw(t, "mark"), Node: text.Draw(t, "node"), Changes: []wireChange{}}
		for range rapid.IntRange(0, 4).Draw(t, "changes") {
			want.Changes = append(want.Changes, wireChange{
				Type: rapid.SampledFrom([]Kind{KindJoin, KindLeave, kindReplace}).Draw(t, "type"), User: text.Draw(t, "user"),
				Seat: rapid.IntRange(0, MaxSeats).Draw(t, "seat"), Session: text.Draw(t, "session"),
				At: rapid.Int64Range(0, 1<<42).Draw(t, "at"), Old: text.Draw(t, "old"),
			})
		}
		ours := want.append(nil)
		theirs, err := json.Marshal(&want)
		if err != nil || string(ours) != string(theirs) {
			t.Fatalf("%s\nlibrary: %s, %v", ours, theirs, err)
		}
		e, err := parseEvent("42", string(ours))
		if err != nil || !reflect.DeepEqual(*e.wire, want) {
			t.Fatalf("%s\nread as %+v, %v", ours, e, err)
		}
		if epoch, version, mark, ok := eventAt(string(ours)); ok && (epoch != want.Epoch || version != want.Version || mark != want.Mark) {
			t.Fatalf("%s is at %q %d", ours, epoch, version)
		}
		m := Member{Seat: 1, Session: want.Node, Node: want.Epoch, At: 5}
		theirs, _ = json.Marshal(&m)
		if got := m.append(nil); string(got) != string(theirs) {
			t.Fatalf("%s, library: %s", got, theirs)
		}
	})
}

// Another version may write events in other words: they are read all the same.
func TestEventInOtherWords(t *testing.T) {
	for payload, ok := range map[string]bool{
		`{"version":2,"epoch":"e","changes":[{"user":"a","seat":1,"type":"join"}]}`: true,
		`{"epoch":"e","version":2,"node":"n","changes":[],"more":1}`:                true,
		`{"epoch":"e","version":0,"node":"n","changes":[]}`:                         false,
		`{"epoch":"e","version":2,"node":"n","changes":[`:                           false,
		`{"epoch":"e","version":99999999999999999999,"node":"n","changes":[]}`:      false,
		``: false,
	} {
		e, err := parseEvent("42", payload)
		if (err == nil) != ok || ok && (e.Version != 2 || e.Epoch != "e") {
			t.Errorf("%s: %+v, %v", payload, e, err)
		}
	}
}

func BenchmarkEvent(b *testing.B) {
	w := wireEvent{"abcdefghijklmnop", 7, "abcdefghijkl", "abcdefghijklmnop", []wireChange{
		{KindJoin, "李四", 0, "0e5f1d7e-94a5-4b0f-a0f7-0123456789ab", 1795234393978, ""},
		{KindLeave, "王五", 1, "", 0, ""},
	}}
	payload := string(w.append(nil))
	b.Run("encode", func(b *testing.B) {
		b.ReportAllocs()
		buf := make([]byte, 0, 1024)
		for b.Loop() {
			buf = w.append(buf[:0])
		}
	})
	b.Run("decode", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if _, err := parseEvent("42", payload); err != nil {
				b.Fatal(err)
			}
		}
	})
}

func BenchmarkApply(b *testing.B) {
	r := NewRoom("42", "e", 1, map[string]Member{})
	for _, n := range []int{10, 10_000} {
		for i := len(r.members); i < n; i++ {
			_, _ = r.Apply(Join(string(rune(i)), "s"), Rules{})
		}
		r.Commit("e")
		b.Run(fmt.Sprintf("members=%d", n), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				_, _ = r.Apply(Join("x", "s"), Rules{})
				_, _ = r.Apply(Leave("x", "s"), Rules{})
				r.Commit("e")
				r.Snapshot()
			}
		})
	}
}
