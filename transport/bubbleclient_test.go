package transport

import (
	"bytes"
	"errors"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gorilla/websocket"

	"roomd/lockmgr/redistest"
	"roomd/transport/protocol"
)

// bubbleClient is a client in a bubble. It reads all the time, also while it answers a ping,
// because net.Pipe has no buffer.
type bubbleClient struct {
	wsClient
	frames   chan string
	closed   chan error
	degraded atomic.Bool // whether the last event of the node said that it is degraded
}

func (s *bubbleServer) connect(t *testing.T, user string) *bubbleClient {
	t.Helper()
	dialer := websocket.Dialer{Subprotocols: []string{protocol.Subprotocol}, NetDialContext: s.pipes.dial}
	ws, _, err := dialer.Dial("ws://pipes/ws?user="+url.QueryEscape(user), nil)
	redistest.OK(t, err)
	return readAlways(t, ws)
}

func readAlways(t *testing.T, ws *websocket.Conn) *bubbleClient {
	v := &bubbleClient{wsClient: wsClient{t, ws}, frames: make(chan string, 1000), closed: make(chan error, 1)}
	ws.SetPingHandler(func(data string) error {
		go func() { _ = ws.WriteControl(websocket.PongMessage, []byte(data), time.Now().Add(time.Second)) }()
		return nil
	})
	go func() {
		for {
			_, frame, err := ws.ReadMessage()
			if err != nil {
				v.closed <- err
				return
			}
			checkDescribed(t, frame)
			if bytes.HasPrefix(frame, []byte(`{"event":"node"`)) { // whether Redis answers is another matter
				v.degraded.Store(bytes.Contains(frame, []byte("true")))
				continue
			}
			v.frames <- withoutEpoch(frame)
		}
	}()
	t.Cleanup(func() { _ = ws.Close() })
	return v
}

// connectIdle returns a client in a bubble that reads only in expect.
func (s *bubbleServer) connectIdle(t *testing.T, user string) *wsClient {
	t.Helper()
	dialer := websocket.Dialer{Subprotocols: []string{protocol.Subprotocol}, NetDialContext: s.pipes.dial}
	ws, _, err := dialer.Dial("ws://pipes/ws?user="+url.QueryEscape(user), nil)
	redistest.OK(t, err)
	t.Cleanup(func() { _ = ws.Close() })
	return &wsClient{t, ws}
}

// cut breaks the connection without a close frame.
func (v *bubbleClient) cut() {
	_ = v.ws.NetConn().Close()
	synctest.Wait()
}

// expect expects the next frame to be want, within the time that Redis takes.
func (v *bubbleClient) expect(want string) {
	v.t.Helper()
	v.expectWithin(want, 100*time.Millisecond)
}

// expectWithin is expect for a frame that takes longer.
func (v *bubbleClient) expectWithin(want string, patience time.Duration) {
	v.t.Helper()
	if got := v.next(want, patience); got != want {
		v.t.Fatalf("got\n  %s\nwant\n  %s", got, want)
	}
}

// next returns the next frame, which comes within patience.
func (v *bubbleClient) next(want string, patience time.Duration) string {
	v.t.Helper()
	select {
	case got := <-v.frames: // also if the connection was closed after it
		return got
	default:
	}
	select {
	case got := <-v.frames:
		return got
	case err := <-v.closed:
		v.t.Fatalf("instead of %s: %v", want, err)
	case <-time.After(patience):
		v.t.Fatalf("nothing came, want %s", want)
	}
	return ""
}

// expectLeaveAndRejoin expects eventARemoved and eventARejoined, in one frame if the second came
// before the first was written.
func (v *bubbleClient) expectLeaveAndRejoin() {
	v.t.Helper()
	both := strings.Replace(strings.TrimSuffix(eventARemoved, "]}"), `"version":3`, `"version":4`, 1) +
		"," + eventARejoined[strings.Index(eventARejoined, `{"type"`):]
	switch got := v.next(eventARemoved, 100*time.Millisecond); got {
	case both:
	case eventARemoved:
		v.expect(eventARejoined)
	default:
		v.t.Fatalf("got\n  %s\nwant\n  %s", got, eventARemoved)
	}
}

// expectSilence expects that no frame has come and that the connection is open.
func (v *bubbleClient) expectSilence() {
	v.t.Helper()
	synctest.Wait()
	select {
	case got := <-v.frames:
		v.t.Fatalf("got %s", got)
	case err := <-v.closed:
		v.t.Fatal(err)
	default:
	}
}

// expectClosed expects that the connection was closed with that code.
func (v *bubbleClient) expectClosed(code int) {
	v.t.Helper()
	synctest.Wait()
	select {
	case err := <-v.closed:
		var closed *websocket.CloseError
		if !errors.As(err, &closed) || closed.Code != code {
			v.t.Fatalf("closed with %v, want %d", err, code)
		}
	default:
		v.t.Fatal("the connection is open")
	}
}

// lastVersion reads the events of a member of one room, checks that they have no gap, and
// returns the last version.
func lastVersion(t *testing.T, v *bubbleClient) (version uint64) {
	t.Helper()
	for len(v.frames) > 0 {
		text := <-v.frames
		frame, err := protocol.DecodeFrame([]byte(text))
		redistest.OK(t, err)
		e, isEvent := frame.(*protocol.Event)
		if !isEvent {
			t.Fatalf("got %s", text)
		}
		if e.Event == protocol.EventChanges && e.From != version {
			t.Fatalf("at version %d got %s", version, text)
		}
		version = e.Version
	}
	return version
}
