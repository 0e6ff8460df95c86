package transport

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"roomd/lockmgr/redistest"
	"roomd/transport/protocol"
)

// tablesInBubble is a server that answers reads of any room, in a bubble.
func tablesInBubble(t *testing.T, opts Options) *bubbleServer {
	t.Helper()
	s, err := New(tables{}, opts)
	if err != nil {
		t.Fatal(err)
	}
	return &bubbleServer{Server: s, pipes: servePipes(t, s)}
}

// 40 clients ask for a long list again and again and read nothing. What the server
// keeps for them is a list each. Nor do pings get it to keep more.
func TestWhoDoesNotReadCostsLittle(t *testing.T) {
	const members = 2000
	snapshot, _ := tables{}.Read(t.Context(), fmt.Sprint(members))
	for name, tt := range map[string]struct {
		size int // of a frame
		ask  func(*player) error
	}{
		"lists": {cap(replyFrame(listed(protocol.Request{Room: "2000"}, snapshot))), func(p *player) error {
			return p.ws.WriteMessage(1, fmt.Appendf(nil, `{"id":1,"action":"users","room":"%d"}`, members))
		}},
		"pings": {127, func(p *player) error {
			return p.ws.WriteControl(9, make([]byte, 125), time.Now().Add(time.Hour))
		}},
	} {
		synctest.Test(t, func(t *testing.T) {
			const clients, most = 40, 16 << 10
			s := tablesInBubble(t, Options{MaxQueue: most, PingInterval: time.Second})
			for i := range clients {
				p := s.dozer(t, fmt.Sprint("u", i))
				go func() {
					time.Sleep(time.Second + time.Millisecond) // the first ping keeps a writer waiting
					for n := 0; n < 200 && tt.ask(p) == nil; n++ {
					}
				}()
			}
			time.Sleep(time.Second + time.Second/2)
			s.mu.Lock()
			total, conns := 0, len(s.conns)
			for _, c := range s.conns {
				total += held(c.out)
			}
			s.mu.Unlock()
			if conns != clients || total < clients*most || total > clients*(most+tt.size+10*itemSize) {
				t.Errorf("%s: %d bytes are kept for %d clients, a frame has %d", name, total, conns, tt.size)
			}
		})
	}
}

// A reader gets a list of any length.
func TestAListLongerThanTheQueue(t *testing.T) {
	s := serve(t, tables{}, nil, Options{MaxQueue: 1})
	a := s.connect(t, "a")
	for range 3 {
		for i := range 3 {
			a.say(fmt.Sprintf(`{"id":%d,"action":"users","room":"5000"}`, i))
		}
		_ = a.ws.SetReadDeadline(time.Now().Add(patienceOfTests))
		for i := range 3 {
			_, frame, err := a.ws.ReadMessage()
			if err != nil {
				t.Fatal(err)
			}
			reply, err := protocol.DecodeFrame(frame)
			if r := reply.(*protocol.Reply); err != nil || len(r.Users) != 5000 || *r.ID != int64(i) {
				t.Errorf("reply %d: %.60s, %v", i, frame, err)
			}
		}
	}
}

// Clients that do not read hold a drain up for no longer than a few seconds, which
// leaves the others the time to be told.
func TestDrainWaitsForNobodyWhoDoesNotRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := tablesInBubble(t, Options{})
		for i := range 5 {
			p := s.dozer(t, fmt.Sprint("u", i))
			go func() {
				for p.ws.WriteMessage(1, []byte(`{"id":1,"action":"users","room":"2000"}`)) == nil {
				}
			}()
		}
		time.Sleep(time.Second)
		start := time.Now()
		ctx, cancel := context.WithTimeout(t.Context(), 15*time.Second)
		defer cancel()
		if err := s.Shutdown(ctx); err != nil || time.Since(start) > DefaultDrainSpread+closeTimeout+2*linger {
			t.Errorf("drained in %v: %v", time.Since(start), err)
		}
	})
}

// A shutdown whose time is over cuts off who does not read.
func TestShutdownCutsOffWhoDoesNotRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := tablesInBubble(t, Options{})
		s.dozer(t, "a").say(`{"id":1,"action":"users","room":"2000"}`)
		synctest.Wait()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		start := time.Now()
		if err := s.Shutdown(ctx); !errors.Is(err, context.DeadlineExceeded) || time.Since(start) > time.Second {
			t.Errorf("%v after %v", err, time.Since(start))
		}
	})
}

// Whose request runs longer than a closed connection has time gets the reply all the same.
func TestALongRequestIsAnsweredAtTheEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := tablesInBubble(t, Options{})
		a := s.dozer(t, "a")
		a.say(`{"id":1,"action":"users","room":"9s"}`)
		synctest.Wait()
		done := make(chan error, 1)
		go func() { done <- s.Shutdown(context.Background()) }()
		a.hear(`{"id":1,"room":"9s","version":1,"count":9,"users":` + nine + `}`)
		a.hearClose(protocol.CloseRestart)
		if err := redistest.Receive(t, done, "Shutdown"); err != nil {
			t.Fatal(err)
		}
	})
}

var nine = func() string {
	list := ""
	for i := range 9 {
		list += fmt.Sprintf(`,{"user":"player-%d","seat":%d}`, i, i)
	}
	return "[" + list[1:] + "]"
}()
