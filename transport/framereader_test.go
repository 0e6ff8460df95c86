package transport

import (
	"bytes"
	"fmt"
	"io"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gorilla/websocket"

	"roomd/lockmgr/redistest"
	"roomd/transport/protocol"
)

// fragments returns a request in n frames.
func fragments(n int) string {
	return first(usersOf(1)) + strings.Repeat(more(""), n-2) + last("")
}

func TestFlood_Fragments(t *testing.T) {
	runCases(t, []frameCase{
		{"as many as allowed", together(fragments(maxFragments)), "1"},
		{"one more", together(fragments(maxFragments + 1)), "close 1008"},
		{"never the last", together(first(""), strings.Repeat(more(""), 1000)), "close 1008"},
		{"never the last, one byte each", together(first("x"), strings.Repeat(more("x"), 1000)), "close 1008"},
		{"with pings between them", together(first(""), strings.Repeat(more("")+pong(""), noopBurst)), "close 1008"},
	})
}

// Whoever sends frames that ask for nothing is cut off. That takes no time here, so the rate
// gives nobody a further frame.
func TestFlood_CutOff(t *testing.T) {
	for name, unit := range map[string]string{
		"pongs":     pong("x"),
		"fragments": first("{") + last("}"),
	} {
		synctest.Test(t, func(t *testing.T) {
			s := serve(t, sizedRooms{}, Options{Rate: -1})
			c := s.connectRawAs(t, "a")
			go c.write(strings.Repeat(unit, noopBurst), text(usersOf(7)), strings.Repeat(unit, 100))
			got := strings.TrimSpace(strings.ReplaceAll(c.readAll(), "bad_request ", ""))
			if want := fmt.Sprint("7 close ", protocol.CloseTooMany); got != want {
				t.Errorf("%s: got %q, want %q", name, got, want)
			}
		})
	}
}

// A client may always send spare frames at the rate, and after a pause all at once.
func TestFlood_AtTheRate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := serve(t, sizedRooms{}, Options{PingInterval: time.Hour})
		c := s.connectRawAs(t, "a")
		_ = c.raw.SetDeadline(time.Time{})
		for range 10 * 60 {
			c.write(strings.Repeat(pong(""), noopRate))
			time.Sleep(time.Second)
		}
		time.Sleep((noopBurst/noopRate + 1) * time.Second)
		go c.write(strings.Repeat(pong(""), noopBurst), text(usersOf(1)), closing(1000, ""))
		redistest.Equal(t, "got", c.readAll(), "1 close 1000")
	})
}

// A client's ping is a sign of life, as its pong is.
func TestFlood_FewPings(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := serve(t, sizedRooms{}, Options{})
		c := s.connectRawAs(t, "a")
		_ = c.raw.SetDeadline(time.Time{})
		go func() {
			for range 20 {
				c.write(ping("")) // and answers none of the server's
				time.Sleep(3 * time.Second)
			}
			c.write(closing(1000, ""))
		}()
		redistest.Equal(t, "got", strings.NewReplacer("pong", "", `9 ""`, "", " ", "").Replace(c.readAll()), "close1000")
	})
}

// A message that never ends ends the connection, whatever comes between its fragments.
func TestFrames_MessageMustEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := serve(t, sizedRooms{}, Options{})
		c := s.connectRawAs(t, "a")
		_ = c.raw.SetDeadline(time.Time{})
		start := time.Now()
		var sending sync.WaitGroup
		defer sending.Wait()
		sending.Go(func() {
			c.write(first("{"))
			for range 30 {
				c.write(pong(""))
				time.Sleep(10 * time.Second)
			}
			_ = c.raw.Close()
		})
		c.readAll()
		if took := time.Since(start); took > 3*DefaultPingInterval {
			t.Errorf("the connection lasted %v", took)
		}
	})
}

// What arrives in parts is unmasked as if it had come at once.
func TestFrames_MaskAcrossParts(t *testing.T) {
	const mask = 0xff569a12 // that of rawFrame
	masked := []byte(rawFrame(0, strings.Repeat("0123456789", 5)))[6:]
	for cut := range len(masked) {
		content := bytes.Clone(masked)
		unmask(content[cut:], unmask(content[:cut], mask))
		if string(content) != strings.Repeat("0123456789", 5) {
			t.Fatalf("cut at %d: %q", cut, content)
		}
	}
}

// readMessage appends the next message.
func (r *frameReader) readMessage(into *bytes.Buffer) error {
	for {
		if err := r.socket.wait(); err != nil {
			return err
		}
		h, message, err := r.next()
		if err != nil {
			return err
		}
		if message {
			return r.readText(h, into)
		}
	}
}

// BenchmarkRead compares the reading of a request with gorilla's.
func BenchmarkRead(b *testing.B) {
	frame := text(`{"id":1,"action":"join","room":"42"}`)
	into := new(bytes.Buffer)
	b.Run("frameReader", func(b *testing.B) {
		b.ReportAllocs()
		r := newFrameReader(&endless{frame: frame}, protocol.MaxFrame, nil, func() bool { return true })
		for b.Loop() {
			into.Reset()
			redistest.OK(b, r.readMessage(into))
		}
	})
	b.Run("gorilla", func(b *testing.B) {
		b.ReportAllocs()
		ws := gorillaOver(b, readOnly{src: &endless{frame: frame}})
		for b.Loop() {
			into.Reset()
			kind, r, err := ws.NextReader()
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

// readOnly is a connection that drops what is written to it.
type readOnly struct {
	discard
	src io.Reader
}

func (c readOnly) Read(p []byte) (int, error)       { return c.src.Read(p) }
func (c readOnly) SetDeadline(time.Time) error      { return nil }
func (c readOnly) SetWriteDeadline(time.Time) error { return nil }
