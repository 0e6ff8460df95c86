package ws_test

import (
	"bytes"
	"errors"
	"strings"
	"testing"

	"github.com/gorilla/websocket"

	"roomd/transport/internal/ws"
	"roomd/transport/internal/ws/wstest"
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
		if got := string(ws.Seal(append(ws.NewFrame(0), content...))); got != tt.header+content {
			t.Errorf("%d bytes: header %q, want %q", tt.size, got[:len(got)-tt.size], tt.header)
		}
	}
	if got := string(ws.Control(websocket.PongMessage, []byte("hello"))); got != "\x8a\x05hello" {
		t.Errorf("a pong is %q", got)
	}
}

const maxMessage = 16 << 10

func none() error { return nil }

// FuzzFrameReader checks that gorilla reads every message that frameReader reads, and none that
// frameReader takes for broken.
func FuzzFrameReader(f *testing.F) {
	for _, seed := range wstest.Seeds {
		f.Add([]byte(seed))
	}
	closed := errors.New("closed")
	f.Fuzz(func(t *testing.T, sent []byte) {
		var ours [][]byte
		r := ws.NewFrameReader(bytes.NewReader(sent), maxMessage, func(opcode byte, content []byte) error {
			if opcode == websocket.CloseMessage {
				return closed
			}
			return nil
		}, none)
		var end error
		for end == nil {
			message := new(bytes.Buffer)
			if end = r.ReadMessage(message); end == nil {
				ours = append(ours, message.Bytes())
			}
		}
		theirs := wstest.Gorilla(t, wstest.Reading(bytes.NewReader(sent)))
		theirs.SetReadLimit(maxMessage)
		for i, want := range ours {
			if kind, got, err := theirs.ReadMessage(); err != nil || kind != websocket.TextMessage || !bytes.Equal(got, want) {
				t.Fatalf("message %d is %q; gorilla reads %q, %v", i, want, got, err)
			}
		}
		broken, ok := errors.AsType[*ws.CloseError](end)
		if ok && broken.Code != websocket.CloseProtocolError && broken.Code != websocket.CloseMessageTooBig {
			return // gorilla goes on
		}
		if _, more, err := theirs.ReadMessage(); err == nil {
			t.Fatalf("%v after %d messages; gorilla reads %q", end, len(ours), more)
		}
	})
}

// What arrives in parts is unmasked as if it had come at once.
func TestFrames_MaskAcrossParts(t *testing.T) {
	const mask = 0xff569a12 // wstest.Mask
	masked := []byte(wstest.More(strings.Repeat("0123456789", 5)))[6:]
	for cut := range len(masked) {
		content := bytes.Clone(masked)
		ws.Unmask(content[cut:], ws.Unmask(content[:cut], mask))
		if string(content) != strings.Repeat("0123456789", 5) {
			t.Fatalf("cut at %d: %q", cut, content)
		}
	}
}

func TestHasClose(t *testing.T) {
	text, long := wstest.Text("{}"), wstest.Text(string(make([]byte, 300)))
	closing := wstest.Closing(1000, "")
	for content, want := range map[string]bool{
		"": false, closing: true, text: false, text + closing: true, long + text + closing: true,
		long[:200]: false, text + long[:3]: false, wstest.Text(closing): false, text + closing[:2]: true,
		"\x81\xff\xff\xff\xff\xff\xff\xff\xff\xff" + closing: false,
	} {
		if got := ws.HasClose([]byte(content)); got != want {
			t.Errorf("in %x: %v", content, got)
		}
	}
}

// BenchmarkRead compares the reading of a request with gorilla's.
func BenchmarkRead(b *testing.B) {
	frame := wstest.Text(`{"id":1,"action":"join","room":"42"}`)
	into := new(bytes.Buffer)
	b.Run("frameReader", func(b *testing.B) {
		b.ReportAllocs()
		r := ws.NewFrameReader(&endless{frame: frame}, maxMessage, nil, none)
		for b.Loop() {
			into.Reset()
			if err := r.ReadMessage(into); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("gorilla", func(b *testing.B) {
		b.ReportAllocs()
		theirs := wstest.Gorilla(b, wstest.Reading(&endless{frame: frame}))
		for b.Loop() {
			into.Reset()
			kind, r, err := theirs.NextReader()
			if err == nil {
				_, err = into.ReadFrom(r)
			}
			if err != nil || kind != websocket.TextMessage {
				b.Fatal(kind, err)
			}
		}
	})
}

// endless repeats a frame.
type endless struct{ frame, rest string }

func (e *endless) Read(p []byte) (int, error) {
	if e.rest == "" {
		e.rest = e.frame
	}
	n := copy(p, e.rest)
	e.rest = e.rest[n:]
	return n, nil
}
