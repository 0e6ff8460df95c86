package frames

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"github.com/gorilla/websocket"

	"roomd/room"
)

func TestFrameHeaders(t *testing.T) {
	for _, tt := range []struct {
		size   int
		header string
	}{
		{0, "\x81\x00"},
		{125, "\x81\x7d"},
		{126, "\x81\x7e\x00\x7e"},
		{65535, "\x81\x7e\xff\xff"},
		{65536, "\x81\x7f\x00\x00\x00\x00\x00\x01\x00\x00"},
	} {
		content := strings.Repeat("x", tt.size)
		if got := string(seal(append(newFrame(0), content...))); got != tt.header+content {
			t.Errorf("%d bytes: header %q, want %q", tt.size, got[:len(got)-tt.size], tt.header)
		}
	}
	if got := string(Control(websocket.PongMessage, []byte("hello"))); got != "\x8a\x05hello" {
		t.Errorf("a pong is %q", got)
	}
}

func change(version uint64) *room.Event {
	return &room.Event{Room: "42", Epoch: "e", Version: version, From: version - 1,
		Changes: []room.Change{{Type: room.KindJoin, User: fmt.Sprint("u", version), Seat: int(version)}}}
}

func TestMergedFrame(t *testing.T) {
	frame := Changes(room.Viewer{}, change(4), change(5))
	got := string(frame[bytes.IndexByte(frame, '{'):])
	want := `{"event":"changes","room":"42","epoch":"e","version":5,"from":3,"changes":[{"type":"join","user":"u4","seat":4},{"type":"join","user":"u5","seat":5}]}`
	if got != want {
		t.Errorf("merged to %s", got)
	}
	e := change(7)
	if first := Of(e).For(room.Viewer{}); &Of(e).For(room.Viewer{User: "a"})[0] != &first[0] {
		t.Error("an event is encoded twice")
	}
}

// However many sessions come back in one commit, the room is encoded once.
func TestSnapshot_IsShared(t *testing.T) {
	found := room.NewRoom("42", room.Position{Epoch: "e", Version: 6}, map[string]room.Member{"a": {Seat: 1}}).Snapshot()
	shown := func(s room.Snapshot) []byte {
		return Of(&room.Event{Room: "42", Epoch: s.Epoch, Version: s.Version, Snapshot: &s}).For(room.Viewer{User: "x"})
	}
	first, second := shown(found), shown(found)
	if &first[0] != &second[0] {
		t.Error("each client has a copy of its own")
	}
	later := found
	later.Version = 7 // the same members
	if frame := shown(later); !strings.Contains(string(frame), `"version":7`) {
		t.Errorf("got %s", frame)
	}
}
