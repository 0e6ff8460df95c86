package transport

import (
	"context"
	"io"
	"log/slog"
	"net"
	"sync/atomic"
	"testing"

	"github.com/gorilla/websocket"

	"roomd/lockmgr/redistest"
	"roomd/room"
	"roomd/transport/internal/ws"
	"roomd/transport/internal/ws/wstest"
	"roomd/transport/protocol"
)

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
	for _, seed := range wstest.Seeds {
		f.Add([]byte(seed))
	}
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
				redistest.FatalIf(t, err != io.EOF, "%v", err)
				break
			}
			redistest.FatalIf(t, closed, "%d %q after a close frame", kind, content)
			switch kind {
			case websocket.CloseMessage:
				closed = true
				if len(content) == 1 || len(content) > 125 || len(content) > 1 && !ws.ValidCloseCode(int(content[0])<<8|int(content[1])) {
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
		redistest.FatalIf(t, panics.Load(), "a panic")
	})
}
