package transport

import (
	"fmt"
	"io"
	"testing"

	"github.com/gorilla/websocket"

	"roomd/lockmgr/redistest"
	"roomd/room"
	"roomd/transport/internal/frames"
	"roomd/transport/internal/ws/wstest"
)

// changeTo is an event.
func changeTo(version uint64) *room.Event {
	return &room.Event{Room: "42", Epoch: "e", Version: version, From: version - 1,
		Changes: []room.Change{{Type: room.KindJoin, User: fmt.Sprint("u", version), Seat: int(version)}}}
}

// BenchmarkEventFrame encodes an event and writes it to four clients, by hand and by gorilla's
// PreparedMessage.
func BenchmarkEventFrame(b *testing.B) {
	const clients = 4
	event := func() *room.Event { return changeTo(7) }
	b.Run("hand", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			e := event()
			for range clients {
				_, _ = io.Discard.Write(frames.Of(e).For(room.Viewer{}, nil))
			}
		}
	})
	b.Run("gorilla", func(b *testing.B) {
		var conns []*websocket.Conn
		for range clients {
			conns = append(conns, wstest.Gorilla(b, wstest.Reading(nil)))
		}
		b.ReportAllocs()
		for b.Loop() {
			content := frames.Changes(room.Viewer{}, nil, event())
			message, err := websocket.NewPreparedMessage(websocket.TextMessage, content[2:])
			redistest.OK(b, err)
			for _, ws := range conns {
				redistest.OK(b, ws.WritePreparedMessage(message))
			}
		}
	})
}
