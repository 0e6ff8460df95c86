package client

import (
	"context"
	"errors"
	"fmt"

	"testing"
	"testing/synctest"
	"time"

	"roomd/transport/protocol"
)

// A reader who lags by more than the limit gets one snapshot; one who lags by less, everything.
func TestChanges_SlowReader(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ sent, snapshots, changes int }{
		{maxLag, 1, maxLag}, {maxLag + 1, 2, 0}, {3 * maxLag, 2, 0},
	} {
		synctest.Test(t, func(t *testing.T) {
			begin := make(chan struct{})
			c := newCast(t, joined(func(s *server) {
				<-begin
				for i := range tt.sent {
					s.change("42", uint64(i+2), fmt.Sprintf(`{"type":"data","data":%d}`, i+2))
				}
				s.drain()
			}))
			r := c.connect(c.config()).mustJoin(t, "42")
			snapshots, changes := 0, 0
			for c := range r.Changes(t.Context()) {
				if snapshots == 0 {
					close(begin)
					synctest.Wait() // until all is there
				}
				if c.Type == ChangeSnapshot {
					snapshots++
				} else {
					changes++
				}
				if c.Version == uint64(tt.sent+1) {
					break
				}
			}
			if snapshots != tt.snapshots || changes != tt.changes {
				t.Errorf("of %d changes: %d, and %d snapshots", tt.sent, changes, snapshots)
			}
			client := r.client
			client.mu.Lock()
			defer client.mu.Unlock()
			if len(r.replica.feeds) != 0 {
				t.Errorf("%d feeds are left", len(r.replica.feeds))
			}
		})
	}
}

// Where events are missed the client asks, and readers go on behind the answer.
func TestRestore_Gap(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := newCast(t, joined(func(s *server) {
			s.change("42", 5, `{"type":"data","data":5}`) // the client has 1
			s.change("42", 6, `{"type":"data","data":6}`)
			s.refuse(s.expect("users 42"), "busy")
			req := s.expect("users 42")
			s.change("42", 7, `{"type":"data","data":7}`) // in the list
			s.list(req, 7, "a", "b")
			s.change("42", 8, `{"type":"data","data":8}`)
			s.change("42", 10, `{"type":"data","data":10}`) // once more
			s.list(s.expect("users 42"), 10, "a", "b")
			s.done(s.expect("leave 42"), 11)
			s.drain()
		}))
		client := c.connect(c.config())
		r := client.mustJoin(t, "42")
		all := read(r)
		time.Sleep(time.Minute)
		synctest.Wait()
		if v := r.View(); v.Version != 10 || len(v.Users) != 2 {
			t.Errorf("%+v", v)
		}
		if err := r.Leave(t.Context()); err != nil {
			t.Error(err)
		}
		wantRead(t, all, "snapshot  1", "snapshot  7", "data  8", "snapshot  10")
	})
}

// The body of a loop may end what it iterates over.
func TestChanges_BodyCallsBack(t *testing.T) {
	t.Parallel()
	for name, end := range map[string]func(context.Context, *Client, *Room) error{
		"leave": func(ctx context.Context, _ *Client, r *Room) error { return r.Leave(ctx) },
		"close": func(_ context.Context, c *Client, _ *Room) error { c.Close(); return nil },
		"join another": func(ctx context.Context, c *Client, r *Room) error {
			other, err := c.Join(ctx, "43")
			if err == nil {
				err = other.Leave(ctx)
			}
			return errors.Join(err, r.Leave(ctx))
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := newCast(t, joined(func(s *server) {
					s.change("42", 2, `{"type":"data","data":1}`)
					for version := uint64(2); ; version++ {
						req, ok := s.next()
						switch {
						case !ok:
							return
						case req.Action == protocol.ActionJoin:
							s.list(req, version, "a")
						default:
							s.done(req, version)
						}
					}
				}))
				client := c.connect(c.config())
				r := client.mustJoin(t, "42")
				for c := range r.Changes(t.Context()) {
					if c.Type != ChangeSnapshot {
						continue
					}
					if err := end(t.Context(), client, r); err != nil {
						t.Error(err)
					}
				}
				if r.Err() == nil {
					t.Error("the room has not ended")
				}
				// Whoever comes late gets what was last.
				late := 0
				for c := range r.Changes(t.Context()) {
					late++
					if c.Type != ChangeSnapshot || c.View.Member && name != "close" {
						t.Errorf("%+v", c)
					}
				}
				if late != 1 {
					t.Errorf("%d changes", late)
				}
			})
		})
	}
}

// A reply that comes after the program has given up counts, because the server did it.
func TestJoin_LateReply(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := newCast(t, func(s *server) {
			req := s.expect("join 42")
			time.Sleep(5 * time.Second)
			s.list(req, 1, "a")
			s.drain()
		})
		client := c.connect(c.config())
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := client.Join(ctx, "42"); !errors.Is(err, context.DeadlineExceeded) || client.Room("42") != nil {
			t.Error(err)
		}
		time.Sleep(5 * time.Second)
		synctest.Wait()
		if r := client.Room("42"); r == nil || !r.View().Member {
			t.Error("the client does not know that it is a member")
		}
	})
}

// Update calls its function with what somebody else has written, until it is first.
func TestUpdate_Conflicts(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := newCast(t, joined(func(s *server) {
			for _, now := range []uint64{5, 6} {
				req := s.expect([]string{"set 42!1", "set 42!5"}[now-5])
				s.send(`{"id":%d,"room":"42","epoch":"e","version":%d,"data":%d,"error":{"code":"conflict","message":"no","retry":false}}`, req.ID, now, now*10)
			}
			req := s.expect("set 42!6")
			if req.Data != "61" || req.Epoch != "e" {
				t.Errorf("set %+v", req)
			}
			s.done(req, 7)
			s.send(`{"event":"changes","room":"42","epoch":"e","version":7,"from":1,"changes":[{"type":"data","user":"a","data":61}]}`)
			s.drain()
		}))
		client := c.connect(c.config())
		r := client.mustJoin(t, "42")
		var seen []protocol.JSON
		err := r.Update(t.Context(), func(old protocol.JSON) (any, error) {
			seen = append(seen, old)
			var n int
			err := old.Decode(&n)
			return n + 1, err
		})
		if err != nil || fmt.Sprint(seen) != "[ 50 60]" {
			t.Errorf("%v, %q", err, seen)
		}
		if v := r.View(); v.Version != 7 || v.Data != "61" {
			t.Errorf("Update has returned, and the room shows %+v", v)
		}
		stop := errors.New("stop")
		if err := r.Update(t.Context(), func(protocol.JSON) (any, error) { return nil, stop }); err != stop {
			t.Error(err)
		}
	})
}

// A reader that lags hears of the loss of a seat, wherever in the burst that comes.
func TestChanges_BurstKeepsLoss(t *testing.T) {
	t.Parallel()
	for _, at := range []int{0, 10, maxLag - 1, maxLag, maxLag + 1, 2 * maxLag} {
		var r replica
		f := &feed{}
		for i := range 2*maxLag + 1 {
			kind := protocol.ChangeData
			if i == at {
				kind = ChangeLost
			}
			f.put(Change{Change: protocol.Change{Type: kind}})
		}
		batch := r.take(f)
		losses := 0
		for _, c := range batch {
			if c.Type == ChangeLost {
				losses++
			}
		}
		if losses != 1 || batch[0].Type != ChangeSnapshot || len(batch) > maxLag {
			t.Errorf("the loss is change %d: %d losses in %d changes", at, losses, len(batch))
		}
	}
}
