package transport

import (
	"testing"
	"testing/synctest"
	"time"

	"roomd/lockmgr/redistest"
	"roomd/room"
)

// A panic ends the connection that caused it, and no other.
func TestConnection_Panic(t *testing.T) {
	s := serve(t, sizedRooms{}, Options{})
	a, b := s.connect(t, "a"), s.connect(t, "b")
	a.send(`{"id":1,"action":"users","room":"panic"}`)
	_, frame, err := a.ws.ReadMessage()
	redistest.ErrorIf(t, err == nil, "got %s", frame)
	b.exchange(`{"id":1,"action":"users","room":"1"}`, `{"id":1,"room":"1","version":1,"count":1,"users":[{"user":"player-0","seat":0}]}`)
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
