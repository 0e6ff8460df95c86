package transport

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"roomd/lockmgr/redistest"
	"roomd/room"
	"roomd/transport/internal/frames"
	"roomd/transport/protocol"
)

// meet returns clients of room 42, of whom a, b and c are members through two nodes, and w watches.
// The room is at version 3.
func meet(t *testing.T, opts Options) (a, b, c, w *testClient) {
	t.Helper()
	first, second, a, b := twoNodes(t, room.Rules{}, opts)
	c, w = first.connect(t, "c"), second.connect(t, "w")
	c.ask(`"join"`, `"version":3,"seat":2,"count":3,"users":[{"user":"b","seat":0},{"user":"a","seat":1},{"user":"c","seat":2}]`)
	w.ask(`"watch"`, `"version":3,"count":3,"users":[{"user":"b","seat":0},{"user":"a","seat":1},{"user":"c","seat":2}]`)
	expectAll(eventOf(3, `{"type":"join","user":"c","seat":2}`), a, b)
	return a, b, c, w
}

// Everybody in the room hears a message, also who has sent it: as an event behind the reply. What is
// for some is heard by those and the sender; to others it is a version without changes.
func TestSay_Messages(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, b, c, w := meet(t, Options{})
		for i, tt := range []struct{ said, change, heard string }{
			{`"text":"hi \"all\""`, `"text":"hi \"all\""`, "abcw"},
			{`"data":{"x": [1]}`, `"data":{"x":[1]}`, "abcw"},
			{`"data":null`, `"data":null`, "abcw"},
			{`"text":"psst","to":["b"]`, `"text":"psst","to":["b"]`, "ab"},
			{`"data":1,"to":["b","c"]`, `"data":1,"to":["b","c"]`, "abc"},
			{`"text":"to me","to":["a"]`, `"text":"to me","to":["a"]`, "a"},
		} {
			a.ask(`"say",`+tt.said, fmt.Sprintf(`"version":%d,"count":3`, 4+i))
			for name, v := range map[string]*testClient{"a": a, "b": b, "c": c, "w": w} {
				if strings.Contains(tt.heard, name) {
					v.expect(eventOf(4+i, `{"type":"message","user":"a",`+tt.change+`}`))
				} else {
					v.expect(eventOf(4 + i))
				}
			}
		}
	})
}

// A frame that merges events keeps from each client what is not for it.
func TestSay_Merged(t *testing.T) {
	said := func(version uint64, text string, to ...string) *room.Event {
		return &room.Event{Room: "42", Epoch: "e", Version: version, From: version - 1, Changes: []room.Change{
			{Type: room.KindMessage, User: "a", Detail: &room.Detail{Text: text, To: to}},
		}}
	}
	events := []*room.Event{said(1, "1 b", "b"), said(2, "2 all"), said(3, "3 b c", "b", "c"), said(4, "4 c", "c")}
	for user, want := range map[string]string{"a": "1 b,2 all,3 b c,4 c", "b": "1 b,2 all,3 b c", "c": "2 all,3 b c,4 c", "w": "2 all"} {
		for n := 1; n <= len(events); n++ { // as many at once
			var texts []string
			at := uint64(0)
			for i := 0; i < len(events); i += n {
				for _, frame := range frames.Append(nil, room.Viewer{User: user}, nil, events[i:min(i+n, len(events))]) {
					decoded, err := protocol.DecodeFrame(frame[strings.IndexByte(string(frame), '{'):])
					e, ok := decoded.(*protocol.Event)
					redistest.FatalIf(t, err != nil || !ok || e.From != at, "at %d: %s, %v", at, frame, err)
					at = e.Version
					for _, c := range e.Changes {
						texts = append(texts, c.Text)
					}
				}
			}
			got := strings.Join(texts, ",")
			redistest.ErrorIf(t, got != want || at != 4, "%s hears %s, and is at %d", user, got, at)
		}
	}
}

// A message counts as five requests, for a connection and for a user. Where fewer may come at once,
// it counts as all of them.
func TestSay_Rate(t *testing.T) {
	t.Parallel()
	for burst, atOnce := range map[int]int{0: 19, 16: 3, 11: 2, 4: 1, 1: 1} { // a request comes before, where it leaves something
		bubble(t, fmt.Sprint(burst), func(t *testing.T) {
			_, second, a, b := twoNodes(t, room.Rules{}, Options{Burst: burst, Rate: 10})
			time.Sleep(time.Minute)
			a.send(users42)
			limit := burst
			if burst == 0 {
				limit = defaultBurst
			}
			if limit < 6 {
				time.Sleep(time.Minute)
			}
			said := 0
			for range 40 {
				a.send(`{"id":7,"room":"42","action":"say","text":"hi"}`)
			}
			time.Sleep(time.Millisecond)
			synctest.Wait()
			for len(a.frames) > 0 {
				if strings.HasPrefix(<-a.frames, `{"id":7,"room":"42","version"`) {
					said++
				}
			}
			redistest.ErrorIf(t, said != atOnce, "of 40 messages at once %d were said, want %d", said, atOnce)
			time.Sleep(time.Minute)
			if now, err := second.rooms.Read(t.Context(), "42"); err != nil || now.Version != uint64(2+said) {
				t.Errorf("the room is at %d, %v", now.Version, err)
			}
			start, said := time.Now(), 0
			for time.Since(start) < 10*time.Second {
				b.send(`{"id":7,"room":"42","action":"say","text":"hi"}`)
				time.Sleep(time.Second / 2)
				synctest.Wait()
			}
			for len(b.frames) > 0 {
				if strings.HasPrefix(<-b.frames, `{"id":7,"room":"42","version"`) {
					said++
				}
			}
			if said != 20 { // 10 a second, of which a message is 5, or fewer where fewer may come at once
				t.Errorf("%d of 20 messages at the highest rate were said", said)
			}
			a.expectOpen()
		})
	}
}
