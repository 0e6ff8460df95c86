package transport

import (
	"bytes"
	"strings"
	"testing"

	"github.com/gorilla/websocket"
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
	if got := string(controlFrame(websocket.PongMessage, []byte("hello"))); got != "\x8a\x05hello" {
		t.Errorf("a pong is %q", got)
	}
}

func TestMergedFrame(t *testing.T) {
	frame := changesFrame("", change(4), change(5))
	got := string(frame[bytes.IndexByte(frame, '{'):])
	want := `{"event":"changes","room":"42","epoch":"e","version":5,"from":3,"changes":[{"type":"join","user":"u4","seat":4},{"type":"join","user":"u5","seat":5}]}`
	if got != want {
		t.Errorf("merged to %s", got)
	}
	e := change(7)
	if first := eventFrameOf(e).frame(); &eventFrameOf(e).frame()[0] != &first[0] {
		t.Error("an event is encoded twice")
	}
}
