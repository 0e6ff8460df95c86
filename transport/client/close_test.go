package client

import (
	"errors"
	"net"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gorilla/websocket"

	"roomd/lockmgr/redistest"
	"roomd/transport/protocol"
)

func TestConn_EndsWhileRequestsWait(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name string
		end  func(*server)
		code int
		text string // the beginning
	}{
		{"replaced", func(s *server) { s.close(protocol.CloseReplaced, "a newer session took over") }, 4001,
			"a newer session took over"},
		{"going away", func(s *server) { s.close(websocket.CloseGoingAway, "") }, 1001, ""},
		{"cut", func(s *server) { _ = s.NetConn().Close() }, 1006, "unexpected EOF"},
		{"binary frame", func(s *server) {
			_ = s.WriteMessage(websocket.BinaryMessage, []byte(`{"id":1}`))
			s.wantClose(1003)
		}, 1006, "closed here with code 1003: the server sent a frame that is not text"},
		{"not the protocol", func(s *server) {
			s.send(`{"room":"42"}`)
			s.wantClose(1002)
		}, 1006, "closed here with code 1002: protocol: server frame has no id"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			c := dialScript(t, Options{}, func(s *server) {
				s.next()
				s.next()
				tt.end(s)
			})
			var calls sync.WaitGroup
			for range 2 {
				calls.Go(func() {
					_, err := c.Do(t.Context(), protocol.Request{Action: protocol.ActionJoin, Room: "42"})
					wantClosed(t, err, tt.code, tt.text)
					redistest.ErrorIf(t, err != nil && strings.Contains(err.Error(), "not sent"),
						"%v: but it was sent", err)
				})
			}
			calls.Wait()
			<-c.Done()
			wantClosed(t, c.Err(), tt.code, tt.text)
			_, err := c.Do(t.Context(), protocol.Request{Action: protocol.ActionUsers, Room: "42"})
			wantClosed(t, err, tt.code, tt.text)
			redistest.ErrorIf(t, err != nil && !strings.Contains(err.Error(), "not sent"),
				"%v: does not say that it was not sent", err)
			c.Close()
			c.Close()
		})
	}
}

// wantClose reads the client's close frame.
func (s *server) wantClose(code int) {
	_, _, err := s.ReadMessage()
	redistest.ErrorIf(s.t, !websocket.IsCloseError(err, code), "server: read %v, want close code %d", err, code)
}

func wantClosed(t *testing.T, err error, code int, text string) {
	t.Helper()
	var closed *CloseError
	if !errors.Is(err, ErrClosed) || !errors.As(err, &closed) {
		t.Errorf("got %v, want ErrClosed", err)
		return
	}
	redistest.ErrorIf(t, closed.Code != code || !strings.HasPrefix(closed.Text, text),
		"got code %d %q, want %d %q", closed.Code, closed.Text, code, text)
}

// What the server sent before it closed is delivered, even if both are read at one go.
func TestConn_ReplyBeforeEndCounts(t *testing.T) {
	t.Parallel()
	for range 20 {
		c := dialScript(t, Options{}, func(s *server) {
			req, _ := s.next()
			s.send(`{"id":%d,"version":7}`, req.ID)
			s.close(protocol.CloseRestart, "")
		})
		if reply, err := c.Do(t.Context(), protocol.Request{Action: protocol.ActionJoin, Room: "42"}); err != nil || reply.Version != 7 {
			t.Fatalf("got %+v, %v, want the reply", reply, err)
		}
		<-c.Done()
	}
}

func TestConn_Close(t *testing.T) {
	t.Parallel()
	ended := make(chan error, 1)
	got := make(chan protocol.Request, 1)
	c := dialScript(t, Options{}, func(s *server) {
		req, _ := s.next()
		got <- req
		_, _, err := s.ReadMessage()
		ended <- err
	})
	redistest.OK(t, c.Err())
	waiting := make(chan error, 1)
	go func() {
		_, err := c.Do(t.Context(), protocol.Request{Action: protocol.ActionJoin, Room: "42"})
		waiting <- err
	}()
	<-got
	var closers sync.WaitGroup
	for range 4 {
		closers.Go(c.Close)
	}
	closers.Wait()
	if err := <-ended; !websocket.IsCloseError(err, websocket.CloseNormalClosure) {
		t.Errorf("the server read %v, want close code 1000", err)
	}
	wantClosed(t, <-waiting, 1000, "")
	wantClosed(t, c.Err(), 1000, "")
	if got, want := c.Err().Error(), "connection closed with code 1000"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

// The tests below run in virtual time.

func TestConn_CloseIsBounded(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		finish := make(chan struct{})
		c := inMemory(t, Options{}, func(*server) { <-finish }) // neither reads nor answers
		begin := time.Now()
		c.Close()
		took := time.Since(begin)
		redistest.ErrorIf(t, took > 5*time.Second, "took %v", took)
		wantClosed(t, c.Err(), 1006, "closed here, and the server did not answer")
		close(finish)
	})
}

func TestConn_SilentServer(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := inMemory(t, Options{}, func(s *server) { s.drain() })
		defer c.Close()
		begin := time.Now()
		_, err := c.Do(t.Context(), protocol.Request{Action: protocol.ActionJoin, Room: "42"})
		wantClosed(t, err, 1006, "read pipe: i/o timeout")
		var timeout net.Error
		redistest.ErrorIf(t, !errors.As(err, &timeout) || !timeout.Timeout(), "%v does not wrap a timeout", err)
		redistest.Equal(t, "noticed after … , want 1m30s:", time.Since(begin), 90*time.Second)
	})
}

func TestConn_PingsAndFramesKeepIt(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		pongs := make(chan string, 10)
		c := inMemory(t, Options{}, func(s *server) {
			s.SetPongHandler(func(data string) error { pongs <- data; return nil })
			read := make(chan struct{})
			go func() {
				defer close(read)
				s.drain()
			}()
			for range 3 {
				time.Sleep(80 * time.Second) // virtual
				redistest.OK(s.t, s.WriteControl(websocket.PingMessage, []byte("p"), time.Time{}))
				time.Sleep(80 * time.Second)
				s.send(`{"event":"changes"}`)
			}
			s.close(protocol.CloseRestart, "")
			<-read
		})
		defer c.Close()
		<-c.Done()
		wantClosed(t, c.Err(), 1012, "")
		redistest.ErrorIf(t, len(pongs) != 3 || <-pongs != "p",
			"%d pongs left, want 3 with the ping's data", len(pongs))
	})
}

func TestConn_ServerStopsReading(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		finish := make(chan struct{})
		c := inMemory(t, Options{WriteTimeout: 3 * time.Second}, func(*server) { <-finish })
		defer c.Close()
		begin := time.Now()
		_, err := c.Do(t.Context(), protocol.Request{Action: protocol.ActionJoin, Room: "42"})
		wantClosed(t, err, 1006, "sending: write pipe: i/o timeout")
		redistest.Equal(t, "noticed after", time.Since(begin), 3*time.Second+closeWait)
		close(finish)
	})
}

// A frame that cannot be sent must not hide why the server has closed.
func TestConn_CloseCodeOutlivesFailedWrite(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		finish := make(chan struct{})
		c := inMemory(t, Options{WriteTimeout: time.Second}, func(s *server) {
			time.Sleep(2 * time.Second) // virtual: the client's write has failed by now
			s.close(protocol.CloseTooSlow, "slow down")
			<-finish
		})
		defer c.Close()
		_, err := c.Do(t.Context(), protocol.Request{Action: protocol.ActionJoin, Room: "42"})
		wantClosed(t, err, 4008, "slow down")
		close(finish)
	})
}
