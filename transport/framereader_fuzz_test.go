package transport

import (
	"bytes"
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/gorilla/websocket"

	"roomd/room"
	"roomd/transport/internal/frames"
	"roomd/transport/protocol"
)

func addFrames(f *testing.F) {
	for _, seed := range []string{
		text(usersOf(1)) + closing(1000, "bye"),
		first(usersOf(1)[:9]) + ping("a") + more(usersOf(1)[9:11]) + last(usersOf(1)[11:]) + text("{}"),
		text(strings.Repeat(" ", 200)) + pong("") + rawFrame(frames.Final|websocket.CloseMessage, "a"),
		text(strings.Repeat("x", protocol.MaxFrame)) + text("é")[:7],
		first(greek) + more(highest),
		fragments(maxFragments + 1),
		"\x81\xff\x7f\xff\xff\xff\xff\xff\xff\xff1234",
	} {
		f.Add([]byte(seed))
	}
}

// FuzzFrameReader checks that gorilla reads every message that frameReader reads, and none that
// frameReader takes for broken.
func FuzzFrameReader(f *testing.F) {
	addFrames(f)
	f.Fuzz(func(t *testing.T, sent []byte) {
		var ours [][]byte
		r := newFrameReader(bytes.NewReader(sent), protocol.MaxFrame, func(opcode byte, content []byte) error {
			if opcode == websocket.CloseMessage {
				return errEnded
			}
			return nil
		}, func() bool { return true })
		var end error
		for end == nil {
			message := new(bytes.Buffer)
			if end = r.readMessage(message); end == nil {
				ours = append(ours, message.Bytes())
			}
		}
		ws := gorillaOver(t, readOnly{src: bytes.NewReader(sent)})
		ws.SetReadLimit(protocol.MaxFrame)
		for i, want := range ours {
			if kind, got, err := ws.ReadMessage(); err != nil || kind != websocket.TextMessage || !bytes.Equal(got, want) {
				t.Fatalf("message %d is %q; gorilla reads %q, %v", i, want, got, err)
			}
		}
		if broken, ok := errors.AsType[*closeError](end); ok && broken.code != protocol.CloseBroken && broken.code != protocol.CloseTooBig {
			return // gorilla goes on
		}
		if _, more, err := ws.ReadMessage(); err == nil {
			t.Fatalf("%v after %d messages; gorilla reads %q", end, len(ours), more)
		}
	})
}

// unwatchedRooms sends no events.
type unwatchedRooms struct{ *benchRooms }

func (unwatchedRooms) Watch(context.Context, string, func(*room.Event)) (func(), error) {
	return func() {}, nil
}

// panicLog remembers whether anything was logged to it.
type panicLog struct{ atomic.Bool }

func (l *panicLog) Write(line []byte) (int, error) {
	l.Store(true)
	return len(line), nil
}

// FuzzConnection checks that a server answers whatever it gets with frames that a client can read,
// hangs up, and does not panic.
func FuzzConnection(f *testing.F) {
	addFrames(f)
	panics := new(panicLog)
	log := slog.New(slog.NewTextHandler(panics, &slog.HandlerOptions{Level: slog.LevelError}))
	s := serve(f, unwatchedRooms{newBenchRooms()}, Options{Log: log, Grace: -1})
	f.Fuzz(func(t *testing.T, sent []byte) {
		c := s.connectRaw(t)
		go func() {
			c.write(string(sent))
			_ = c.raw.(*net.TCPConn).CloseWrite()
		}()
		closed := false
		for {
			kind, content, err := c.frame()
			if err != nil {
				if err != io.EOF {
					t.Fatal(err)
				}
				break
			}
			if closed {
				t.Fatalf("%d %q after a close frame", kind, content)
			}
			switch kind {
			case websocket.CloseMessage:
				closed = true
				if len(content) == 1 || len(content) > 125 || len(content) > 1 && !validCloseCode(int(content[0])<<8|int(content[1])) {
					t.Fatalf("closed with %q", content)
				}
			case websocket.TextMessage:
				if _, err := protocol.DecodeFrame([]byte(content)); err != nil {
					t.Fatalf("%q: %v", content, err)
				}
			case websocket.PongMessage:
			default:
				t.Fatalf("%d %q", kind, content)
			}
		}
		_ = c.raw.Close()
		if panics.Load() {
			t.Fatal("a panic")
		}
	})
}
