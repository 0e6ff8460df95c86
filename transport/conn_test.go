package transport

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gorilla/websocket"

	"roomd/lockmgr/redistest"
	"roomd/room"
	"roomd/transport/protocol"
)

func TestConnection_Ends(t *testing.T) {
	s := start(t, room.Rules{}, Options{})
	for name, tt := range map[string]struct {
		kind int
		data []byte
		code int
	}{
		"binary":    {websocket.BinaryMessage, []byte(`{"id":1,"action":"users","room":"1"}`), protocol.CloseNotText},
		"not UTF-8": {websocket.TextMessage, []byte("{\"id\":1,\"action\":\"users\",\"room\":\"\xff\"}"), protocol.CloseNotUTF8},
		"too big":   {websocket.TextMessage, []byte(`{"id":1,"pad":"` + strings.Repeat("x", protocol.MaxFrame) + `"}`), protocol.CloseTooBig},
	} {
		p := s.connect(t, "张三")
		redistest.OK(t, p.ws.WriteMessage(tt.kind, tt.data))
		t.Run(name, func(t *testing.T) { p.t = t; p.expectClose(tt.code) })
	}
}

// A panic ends the connection that caused it, and no other.
func TestConnection_Panic(t *testing.T) {
	s := serve(t, sizedRooms{}, Options{})
	a, b := s.connect(t, "a"), s.connect(t, "b")
	a.send(`{"id":1,"action":"users","room":"panic"}`)
	_, frame, err := a.ws.ReadMessage()
	redistest.ErrorIf(t, err == nil, "got %s", frame)
	b.exchange(`{"id":1,"action":"users","room":"1"}`, `{"id":1,"room":"1","version":1,"count":1,"users":[{"user":"player-0","seat":0}]}`)
}

// Without a grace a user who disconnects leaves at once. A newer session of the user takes the
// seat over, and the end of the older one changes nothing.
func TestTakeOver_NewerSession(t *testing.T) {
	s := start(t, room.Rules{}, Options{Grace: -1})
	watcher, old := s.connect(t, "李四"), s.connect(t, "张三")
	watcher.exchange(`{"id":1,"action":"join","room":"42"}`, `{"id":1,"room":"42","version":1,"seat":0,"count":1,"users":[{"user":"李四","seat":0}]}`)
	old.send(`{"id":1,"action":"join","room":"42"}`)
	watcher.expect(`{"event":"changes","room":"42","version":2,"from":1,"changes":[{"type":"join","user":"张三","seat":1}]}`)
	newer := s.connect(t, "张三")
	newer.ask(`"join"`, `"version":3,"seat":1,"count":2,"users":[{"user":"李四","seat":0},{"user":"张三","seat":1}]`)
	watcher.expect(`{"event":"changes","room":"42","version":3,"from":2,"changes":[]}`)
	old.expectClose(protocol.CloseReplaced)
	_ = newer.ws.Close() // without a close frame
	watcher.expect(`{"event":"changes","room":"42","version":4,"from":3,"changes":[{"type":"leave","user":"张三","seat":1,"reason":"timeout"}]}`)
}

func TestHeartbeat_Silence(t *testing.T) {
	s := start(t, room.Rules{}, Options{PingInterval: 500 * time.Millisecond, Grace: -1})
	alive, watcher := s.connect(t, "alive"), s.connect(t, "watcher")
	watcher.ask(`"join"`, `"version":1,"seat":0,"count":1,"users":[{"user":"watcher","seat":0}]`)
	silent := s.connect(t, "silent")
	silent.send(`{"id":1,"action":"join","room":"42"}`) // and reads nothing, so answers no ping
	watcher.expect(`{"event":"changes","room":"42","version":2,"from":1,"changes":[{"type":"join","user":"silent","seat":1}]}`)
	pings := make(chan struct{}, 100)
	answer := alive.ws.PingHandler()
	alive.ws.SetPingHandler(func(data string) error { pings <- struct{}{}; return answer(data) })
	go func() { _, _, _ = alive.ws.ReadMessage() }()
	watcher.expect(`{"event":"changes","room":"42","version":3,"from":2,"changes":[{"type":"leave","user":"silent","seat":1,"reason":"timeout"}]}`)
	for range 3 {
		redistest.Receive(t, pings, "a ping")
	}
}

// A silent client stays connected as long as it answers pings, also if these are further apart
// than a write may take.
func TestHeartbeat_QuietClientStays(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := start(t, room.Rules{}, Options{WriteTimeout: time.Second, PingInterval: 30 * time.Second})
		v := s.connect(t, "a")
		time.Sleep(10 * time.Minute)
		v.expectSilence()
	})
}

// The server answers pings and close frames.
func TestConnection_ControlFrames(t *testing.T) {
	s := start(t, room.Rules{}, Options{})
	for _, code := range []int{websocket.CloseNormalClosure, websocket.CloseNoStatusReceived} {
		a := s.connect(t, "a")
		pongs := make(chan string, 1)
		a.ws.SetPongHandler(func(data string) error { pongs <- data; return nil })
		soon := time.Now().Add(time.Minute)
		redistest.OK(t, a.ws.WriteControl(websocket.PingMessage, []byte("there?"), soon))
		a.exchange(users42, `{"id":3,"room":"42","epoch":"","version":0,"count":0,"users":[]}`)
		select {
		case got := <-pongs: // before the reply
			redistest.ErrorIf(t, got != "there?", "pong %q", got)
		default:
			t.Error("no pong")
		}
		a.ws.SetCloseHandler(func(int, string) error { return nil })
		redistest.OK(t, a.ws.WriteControl(websocket.CloseMessage, websocket.FormatCloseMessage(code, ""), soon))
		a.expectClose(code)
	}
}
