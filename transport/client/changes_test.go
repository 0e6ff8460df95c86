package client

import (
	"context"
	"errors"

	"testing"
	"testing/synctest"
	"time"

	"roomd/lockmgr/redistest"
	"roomd/transport/protocol"
)

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
					redistest.OK(t, end(t.Context(), client, r))
				}
				redistest.ErrorIf(t, r.Err() == nil, "the room has not ended")
				// Whoever comes late gets what was last.
				late := 0
				for c := range r.Changes(t.Context()) {
					late++
					redistest.ErrorIf(t, c.Type != ChangeSnapshot || c.View.Member && name != "close", "%+v", c)
				}
				redistest.ErrorIf(t, late != 1, "%d changes", late)
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
		_, err := client.Join(ctx, "42")
		redistest.ErrorIf(t, !errors.Is(err, context.DeadlineExceeded) || client.Room("42") != nil, "%v", err)
		time.Sleep(5 * time.Second)
		synctest.Wait()
		r := client.Room("42")
		redistest.ErrorIf(t, r == nil || !r.View().Member, "the client does not know that it is a member")
	})
}
