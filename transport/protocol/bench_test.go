package protocol

import (
	"fmt"
	"testing"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// The benchmarks compare what is encoded and decoded by hand with the JSON library.

var benchFrames = []struct{ name, frame string }{
	{"join", `{"id":1,"action":"join","room":"42"}`},
	{"seat", `{"id":1,"action":"join","room":"42","seat":2}`},
	{"spaced", `{"id": 1, "action": "join", "room": "42"}`},
	{"refused", `{"id":1,"action":"join","Room":"42"}`},
}

func compare(b *testing.B, name string, hand, library func()) {
	for kind, run := range map[string]func(){"hand": hand, "library": library} {
		b.Run(name+kind, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				run()
			}
		})
	}
}

func BenchmarkDecodeRequest(b *testing.B) {
	for _, f := range benchFrames {
		frame := []byte(f.frame)
		compare(b, f.name+"/", func() { DecodeRequest(frame) }, func() {
			var r strictRequest
			_ = json.Unmarshal(frame, &r, json.RejectUnknownMembers(true))
		})
	}
}

// libraryReply and libraryEvent are the frames as the library would have them.
type libraryReply struct {
	ID      *int64         `json:"id,omitempty"`
	Room    string         `json:"room"`
	Epoch   string         `json:"epoch"`
	Version uint64         `json:"version"`
	Seat    *int           `json:"seat,omitempty"`
	Count   int            `json:"count"`
	Users   jsontext.Value `json:"users,omitempty"`
}

type libraryEvent struct {
	Event   string   `json:"event"`
	Room    string   `json:"room"`
	Epoch   string   `json:"epoch"`
	Version uint64   `json:"version"`
	From    uint64   `json:"from"`
	Changes []Change `json:"changes"`
}

var toleratesBadUTF8 = jsontext.AllowInvalidUTF8(true)

func BenchmarkAppendReply(b *testing.B) {
	list := AppendUsers(nil, []Seated{{User: "李四", Seat: 0}, {User: "王五", Seat: 1}, {User: "张三", Seat: 2}})
	r := &Reply{ID: ptr(int64(1)), Room: "42", Epoch: "abcdefghijklmnop", Version: 20, Seat: ptr(2), State: State{Count: 3, List: list}}
	compare(b, "", func() { AppendReply(make([]byte, 0, 300), r) }, func() {
		_, _ = json.Marshal(&libraryReply{r.ID, r.Room, r.Epoch, r.Version, r.Seat, r.Count, r.List}, toleratesBadUTF8)
	})
}

func BenchmarkAppendEvent(b *testing.B) {
	e := &Event{Event: EventChanges, Room: "42", Epoch: "abcdefghijklmnop", Version: 20, From: 19,
		Changes: []Change{{Type: ChangeJoin, User: "赵六", Seat: 0}}}
	compare(b, "", func() { AppendEvent(make([]byte, 0, 200), e) }, func() {
		_, _ = json.Marshal(&libraryEvent{e.Event, e.Room, e.Epoch, e.Version, e.From, e.Changes}, toleratesBadUTF8)
	})
}

func BenchmarkAppendUsers(b *testing.B) {
	for _, n := range []int{4, 10_000} {
		users := make([]Seated, n)
		for i := range users {
			users[i] = Seated{User: fmt.Sprint("player-", i), Seat: i}
		}
		compare(b, fmt.Sprint(n, "/"), func() { AppendUsers(nil, users) }, func() {
			_, _ = json.Marshal(users, toleratesBadUTF8)
		})
	}
}

func BenchmarkAppendRequest(b *testing.B) {
	r := &Request{ID: 1, Action: ActionJoin, Room: "42"}
	b.ReportAllocs()
	for b.Loop() {
		AppendRequest(nil, r)
	}
}

func BenchmarkDecodeFrame(b *testing.B) {
	data := AppendEvent(nil, &Event{Event: EventChanges, Room: "42", Epoch: "5f1c9a7e", Version: 20, From: 19,
		Changes: []Change{{Type: ChangeJoin, User: "赵六", Seat: 0}}})
	b.ReportAllocs()
	for b.Loop() {
		if _, err := DecodeFrame(data); err != nil {
			b.Fatal(err)
		}
	}
}
