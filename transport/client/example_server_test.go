package client_test

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"

	"github.com/gorilla/websocket"

	"roomd/transport/protocol"
)

// serveScript starts a server for the examples. It does the steps one after the other, and goes on with
// the next connection where one ends: it answers requests, sends events, and closes connections.
func serveScript(steps ...string) (address string, stop func()) {
	upgrader := websocket.Upgrader{Subprotocols: []string{protocol.Subprotocol}}
	var mu sync.Mutex
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/api/rooms" {
			serveLobby(w, r)
			return
		}
		conn, err := upgrader.Upgrade(w, r, nil)
		if err != nil {
			return
		}
		defer conn.Close()
		mu.Lock()
		defer mu.Unlock()
		for len(steps) > 0 && scripted(conn, steps[0]) {
			steps = steps[1:]
		}
		if len(steps) > 0 {
			steps = steps[1:]
		}
		_, _, _ = conn.ReadMessage() // until the client has closed
	}))
	return "ws" + strings.TrimPrefix(server.URL, "http"), server.Close
}

// scripted does one step. It reports false when the connection ends.
func scripted(conn *websocket.Conn, step string) bool {
	var code int
	verb, data, _ := strings.Cut(step, ": ")
	if strings.HasPrefix(step, "{") {
		return conn.WriteMessage(websocket.TextMessage, []byte(step)) == nil
	}
	if n, _ := fmt.Sscanf(strings.TrimPrefix(step, "read and "), "close %d", &code); n == 1 {
		if strings.HasPrefix(step, "read") {
			_, _, _ = conn.ReadMessage()
		}
		_ = conn.WriteMessage(websocket.CloseMessage, websocket.FormatCloseMessage(code, ""))
		return false
	}
	_, frame, err := conn.ReadMessage()
	if err != nil {
		return false
	}
	req, _ := protocol.DecodeRequest(frame)
	reply := &protocol.Reply{ID: &req.ID, Room: req.Room, Epoch: "e"}
	switch verb {
	case "join":
		reply.Seat = new(1)
		_, _ = fmt.Sscanf(data, "seat 1 of version %d", &reply.Version)
		reply.Users = []protocol.Seated{{User: "李四", Seat: 0}, {User: "张三", Seat: 1}}
	case "conflict":
		reply.Version = 9
		reply.Data, reply.Error = protocol.JSON(data), protocol.NewError(protocol.CodeConflict, "too late")
	}
	return conn.WriteMessage(websocket.TextMessage, protocol.AppendReply(nil, reply)) == nil
}

// serveLobby tells of a lobby with two tables.
func serveLobby(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "text/event-stream")
	_, _ = io.WriteString(w, `event: rooms
data: {"rooms":[{"room":"table-1","count":1,"capacity":4,"free":3},{"room":"table-2","count":3,"capacity":4,"free":1}]}

`)
	_ = http.NewResponseController(w).Flush()
	<-r.Context().Done()
}
