package client

import (
	"encoding/json"
	"errors"
	"math"
	"reflect"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"roomd/lockmgr/redistest"
	"roomd/room"
	"roomd/transport/protocol"
)

// asking returns a client, and a room that it has joined. answer is the server's part after that.
func asking(t *testing.T, answer script) (*Client, *Room) {
	t.Helper()
	cast := newCast(t, joined(answer))
	c := cast.connect(cast.config())
	return c, c.mustJoin(t, "42")
}

// The scenarios of package scenarios have the other requests.
func TestRequest_Frames(t *testing.T) {
	t.Parallel()
	got := make(chan protocol.Request, 1)
	c, r := asking(t, func(s *server) {
		for req, ok := s.next(); ok; req, ok = s.next() {
			got <- req
			s.list(req, 1, "a")
		}
	})
	type move struct {
		From int    `json:"from"`
		Note string `json:"note,omitempty"`
	}
	ctx, version := t.Context(), new(uint64(18))
	admins := room.Settings{Capacity: 4, Data: room.DataAdmins}
	tests := []struct {
		name string
		err  func() error
		want protocol.Request
	}{
		{"set", func() error { return r.Set(ctx, move{3, "a<b"}) }, protocol.Request{Action: "set", Data: `{"from":3,"note":"a<b"}`}},
		{"set JSON", func() error { return r.Set(ctx, protocol.JSON(`{"a":1.0}`)) }, protocol.Request{Action: "set", Data: `{"a":1.0}`}},
		{"compare and set", func() error { return r.Set(ctx, nil, Expect("e", 18)) },
			protocol.Request{Action: "set", Data: `null`, Expect: version, Epoch: "e"}},
		{"of any epoch", func() error { return r.SetMember(ctx, "x", Expect("", 18)) },
			protocol.Request{Action: "set", Scope: "member", Data: `"x"`, Expect: version}},
		{"say data to some", func() error {
			return r.SayTo(ctx, []string{"李四", "王五"}, Message{Data: json.RawMessage("null")})
		},
			protocol.Request{Action: "say", Data: "null", To: []string{"李四", "王五"}}},
		// A message to a list that turns out to be empty does not go to everybody, but to admins alone.
		{"say to nobody", func() error { return r.SayTo(ctx, nil, Message{Text: "psst"}) },
			protocol.Request{Action: "say", Text: "psst", To: []string{}}},
		{"kick", func() error { _, err := c.Kick(ctx, "42", "王五", "", 0); return err }, protocol.Request{Action: "kick", User: "王五"}},
		{"ban", func() error { _, err := c.Kick(ctx, "42", "王五", "too loud", 1001*time.Millisecond); return err },
			protocol.Request{Action: "kick", User: "王五", Text: "too loud", Ban: 2}},
		{"longest ban", func() error { _, err := c.Kick(ctx, "42", "王五", "", protocol.MaxBan*time.Second); return err },
			protocol.Request{Action: "kick", User: "王五", Ban: protocol.MaxBan}},
		{"close", func() error { _, err := c.CloseRoom(ctx, "42"); return err }, protocol.Request{Action: "close"}},
		{"configure", func() error { _, err := c.Configure(ctx, "42", admins, Expect("e", 18)); return err },
			protocol.Request{Action: "configure", Settings: &admins, Expect: version, Epoch: "e"}},
		{"a party", func() error {
			_, err := c.MatchParty(ctx, "friends", map[string]string{"mode": "ranked"}, admins, "a", "b")
			return err
		}, protocol.Request{Action: "match", Labels: `{"mode":"ranked"}`, Settings: &admins, Party: "friends", Users: []string{"a", "b"}}},
		{"users", func() error {
			reply, err := c.Users(ctx, "42")
			want := &protocol.Reply{ID: reply.ID, Room: "42", Epoch: "e", Version: 1,
				State: protocol.State{Count: 1, Users: []protocol.Seated{{User: "a"}}}}
			redistest.ErrorIf(t, !reflect.DeepEqual(reply, want), "got %+v, want %+v", reply, want)
			return err
		}, protocol.Request{Action: "users"}},
	}
	for i, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			redistest.OK(t, tt.err())
			tt.want.ID = int64(i + 2)
			if tt.want.Party == "" {
				tt.want.Room = "42"
			}
			if req := <-got; !reflect.DeepEqual(req, tt.want) {
				t.Errorf("the server got %+v, want %+v", req, tt.want)
			}
		})
	}
}

// A condition that is not met says what there is now, so that the client can try again at once.
func TestRequest_Conflict(t *testing.T) {
	t.Parallel()
	replies := []string{
		`,"room":"42","epoch":"e","version":19,"data":{"round":3},"error":{"code":"conflict","message":"the data has changed","retry":false}}`,
		`,"room":"42","epoch":"","version":0,"error":{"code":"conflict","message":"the data has changed","retry":false}}`,
	}
	_, r := asking(t, func(s *server) {
		for _, reply := range replies {
			req, _ := s.next()
			s.send(`{"id":%d%s`, req.ID, reply)
		}
		s.drain()
	})
	changed := protocol.NewError(protocol.CodeConflict, "the data has changed")
	for _, want := range []ConflictError{{"e", 19, `{"round":3}`, changed}, {"", 0, "", changed}} {
		err := r.Set(t.Context(), 1, Expect("e", 18))
		conflict, is := errors.AsType[*ConflictError](err)
		redistest.FatalIf(t, !is || !reflect.DeepEqual(*conflict, want), "got %v, want %+v", err, want)
		refused, is := errors.AsType[*protocol.Error](err)
		redistest.ErrorIf(t, !is || refused != conflict.Err || errors.Is(err, ErrClosed), "got %v", err)
		redistest.Equal(t, "text", err.Error(), `client: set of room "42": conflict: the data has changed`)
	}
}

func TestRequest_DataNotSent(t *testing.T) {
	t.Parallel()
	c, r := asking(t, func(s *server) {
		req, ok := s.next()
		redistest.ErrorIf(s.t, ok, "the server got %+v", req)
	})
	ctx, long, twice := t.Context(), strings.Repeat("x", protocol.MaxFrame), []Condition{Expect("", 1), Expect("", 2)}
	_, both := c.Configure(ctx, "42", room.Settings{}, twice...)
	_, negative := c.Kick(ctx, "42", "a", "", -time.Second)
	_, beyond := c.Kick(ctx, "42", "a", "", protocol.MaxBan*time.Second+1)
	_, chatty := c.Kick(ctx, "42", "a", long, 0)
	for want, err := range map[string]error{
		`client: set of room "42": data: json: unsupported value: NaN`:                           r.Set(ctx, math.NaN()),
		`client: say of room "42": data: json: unsupported type: chan int`:                       r.Say(ctx, Message{Data: make(chan int)}),
		`client: set of room "42": expect: more than one condition`:                              r.SetMember(ctx, 1, twice...),
		`client: configure of room "42": expect: more than one condition`:                        both,
		`client: kick of room "42": ban: must be from 0 to 87600h0m0s, not -1s`:                  negative,
		`client: kick of room "42": ban: must be from 0 to 87600h0m0s, not 87600h0m0.000000001s`: beyond,
		`client: say of room "42": to: not valid UTF-8`:                                          r.SayTo(ctx, []string{"\xe5", "\xbc\xa0"}, Message{Text: "a"}),
		`client: set of room "42": epoch: not valid UTF-8`:                                       r.Set(ctx, 1, Expect("\xff", 1)),
		`client: set of room "42": data: makes a frame of 16429 bytes, the limit is 16384`:       r.Set(ctx, long),
		`client: kick of room "42": text: makes a frame of 16441 bytes, the limit is 16384`:      chatty,
	} {
		want = strings.Replace(want, `"42": `, `"42": not sent: `, 1)
		redistest.ErrorIf(t, err == nil || err.Error() != want, "got  %v\nwant %s", err, want)
	}
}

// After a request that came too fast, one request is under way at once.
func TestRequests_OneAtATime(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		client := newCast(t, func(s *server) {
			requests := make(chan protocol.Request)
			go func() {
				defer close(requests)
				for req, ok := s.next(); ok; req, ok = s.next() {
					requests <- req
				}
			}()
			s.refuse(<-requests, protocol.CodeRateLimited)
			for req := range requests {
				select {
				case second := <-requests:
					t.Error("two requests are under way")
					s.list(second, 1)
				case <-time.After(time.Second):
				}
				s.list(req, 1)
			}
		}, quiet)
		users := client.connect(client.config()).Users
		var calls sync.WaitGroup
		for range 2 {
			calls.Go(func() { redistest.ErrorIf(t, redistest.Err(users(t.Context(), "1")) != nil, "a call fails") })
			synctest.Wait()
		}
		calls.Wait()
	})
}
