package client

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"sync"
	"testing"
	"time"

	"roomd/lockmgr/redistest"
	"roomd/transport/protocol"
)

func TestRequest_Concurrent(t *testing.T) {
	t.Parallel()
	const total = 50
	c := dialScript(t, Options{}, func(s *server) {
		var reqs []protocol.Request
		for range total {
			req, _ := s.next()
			reqs = append(reqs, req)
		}
		// Last come, first served: only the ids say whose reply is whose.
		for i := len(reqs) - 1; i >= 0; i-- {
			s.send(`{"id":%d,"room":%q}`, reqs[i].ID, reqs[i].Room)
		}
		s.drain()
	})
	ctx, cancel := context.WithTimeoutCause(t.Context(), 10*time.Second, errors.New("no reply has come"))
	defer cancel()
	var calls sync.WaitGroup
	for i := range total {
		calls.Go(func() {
			room := fmt.Sprint("room-", i)
			reply, err := c.Do(ctx, protocol.Request{Action: protocol.ActionUsers, Room: room})
			redistest.ErrorIf(t, err != nil || reply.Room != room, "asked for %s, got %+v, %v", room, reply, err)
		})
	}
	calls.Wait()
}

func TestConn_CallbacksInOrder(t *testing.T) {
	t.Parallel()
	var seen []string // written by the reading goroutine only, read after Close
	connected := make(chan *Conn, 1)
	c := dialScript(t, Options{
		OnReply: func(r *protocol.Reply) {
			seen = append(seen, fmt.Sprint("reply ", r.Version))
			redistest.ErrorIf(t, r.Version == 5 && !waitsFor(<-connected, *r.ID),
				"the call got its reply before OnReply")
		},
		OnEvent: func(e *protocol.Event) { seen = append(seen, fmt.Sprint(e.Event, " ", e.Version)) },
	}, func(s *server) {
		s.send(`{"event":"changes","room":"42","version":1}`)
		req, _ := s.next()
		s.send(`{"event":"changes","room":"42","version":2}`)
		s.send(`{"id":99,"version":3}`)
		s.send(`{"error":{"code":"bad_request"},"version":4}`)
		s.send(`{"id":%d,"version":5}`, req.ID)
		s.send(`{"id":%d,"version":6}`, req.ID)
		s.send(`{"event":"snapshot","room":"42","version":7}`)
		s.send(`{"event":"later","room":"42","version":8}`)
		s.drain()
	})
	connected <- c
	reply, err := c.Do(t.Context(), protocol.Request{Action: protocol.ActionJoin, Room: "42"})
	redistest.ErrorIf(t, err != nil || reply.Version != 5,
		"got %+v, %v, want the first reply with the id", reply, err)
	c.Close() // reads everything that was sent before the server's close frame
	want := []string{"changes 1", "changes 2", "reply 3", "reply 4", "reply 5", "reply 6", "snapshot 7", "later 8"}
	redistest.ErrorIf(t, !reflect.DeepEqual(seen, want), "got  %q\nwant %q", seen, want)
}

func waitsFor(c *Conn, id int64) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.calls[id] != nil
}

func TestConn_SecondReplyDoesNotBlock(t *testing.T) {
	t.Parallel()
	c := &Conn{calls: map[int64]*call{}}
	k := plainCall(protocol.ActionUsers, "42")
	k.answer = make(chan *protocol.Reply, 1)
	redistest.OK(t, c.expect(k))
	first, second := &protocol.Reply{ID: &k.req.ID}, &protocol.Reply{ID: &k.req.ID}
	c.deliver(first)
	c.deliver(second) // before the call has looked at the first
	redistest.Equal(t, "the second reply took the first one's place:", <-k.answer, first)
}

func TestRequest_ContextEndsFirst(t *testing.T) {
	t.Parallel()
	late := make(chan *protocol.Reply, 2)
	arrived, answer := make(chan struct{}), make(chan struct{})
	c := dialScript(t, Options{OnReply: func(r *protocol.Reply) { late <- r }}, func(s *server) {
		req, _ := s.next()
		close(arrived)
		<-answer
		s.send(`{"id":%d,"room":"late"}`, req.ID)
		echo(s)
	})
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		<-arrived
		cancel()
	}()
	reply, err := c.Do(ctx, protocol.Request{Action: protocol.ActionJoin, Room: "42"})
	if reply != nil || !errors.Is(err, context.Canceled) || strings.Contains(err.Error(), "not sent") {
		t.Errorf("got %+v, %v, want Canceled with unknown outcome", reply, err)
	}
	redistest.ErrorIf(t, waitsFor(c, 1), "the request is still waited for")
	close(answer)
	if reply, err := c.Do(t.Context(), protocol.Request{Action: protocol.ActionUsers, Room: "43"}); err != nil || reply.Room != "43" {
		t.Errorf("the next request got %+v, %v", reply, err)
	}
	if r := <-late; r.Room != "late" {
		t.Errorf("OnReply got %+v first, want the late reply", r)
	}
}

func TestRequest_NotSent(t *testing.T) {
	t.Parallel()
	c := dialScript(t, Options{}, func(s *server) {
		req, ok := s.next()
		redistest.ErrorIf(s.t, ok, "the server got %+v", req)
	})
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	tests := []struct {
		name string
		ctx  context.Context
		room string
		want string
	}{
		{"ended context", ended, "42", `client: join of room "42": not sent: context canceled`},
		{"bad UTF-8", t.Context(), "\xff", `client: join of room "\xff": not sent: room: not valid UTF-8`},
		{"too long", t.Context(), strings.Repeat("x", protocol.MaxFrame),
			"not sent: room: makes a frame of 16418 bytes, the limit is 16384"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if _, err := c.Do(tt.ctx, protocol.Request{Action: protocol.ActionJoin, Room: tt.room}); err == nil || !strings.HasSuffix(err.Error(), tt.want) {
				t.Errorf("got  %v\nwant %s", err, tt.want)
			}
		})
	}
}
