package client

import (
	"encoding/json"
	"errors"
	"math"
	"reflect"
	"strings"
	"testing"
	"time"

	"roomd/lockmgr/redistest"
	"roomd/transport/protocol"

	"roomd/room"
)

func TestRequest_Frames(t *testing.T) {
	t.Parallel()
	got := make(chan protocol.Request, 1)
	c := dialScript(t, Options{}, func(s *server) {
		for req, ok := s.next(); ok; req, ok = s.next() {
			got <- req
			s.send(`{"id":%d,"room":"42","epoch":"e","version":18,"seat":2,"count":1,"users":[{"user":"张三","seat":2}]}`, req.ID)
		}
	})
	type move struct {
		From int    `json:"from"`
		Note string `json:"note,omitempty"`
	}
	expect := uint64(18)
	tests := []struct {
		name string
		call *call
		want protocol.Request
	}{
		{"join", joinCall("42", nil), protocol.Request{Action: "join"}},
		{"join a seat", joinCall("42", new(2)), protocol.Request{Action: "join", Seat: new(2)}},
		{"leave", plainCall(protocol.ActionLeave, "42"), protocol.Request{Action: "leave"}},
		{"users", plainCall(protocol.ActionUsers, "42"), protocol.Request{Action: "users"}},
		{"watch", plainCall(protocol.ActionWatch, "42"), protocol.Request{Action: "watch"}},
		{"unwatch", plainCall(protocol.ActionUnwatch, "42"), protocol.Request{Action: "unwatch"}},
		{"ready", readyCall("42", true),
			protocol.Request{Action: "ready", Value: true}},
		{"not ready", readyCall("42", false),
			protocol.Request{Action: "ready"}},
		{"set", setCall("42", "", move{3, "a<b"}, nil),
			protocol.Request{Action: "set", Data: `{"from":3,"note":"a<b"}`}},
		{"set nothing", setCall("42", "", nil, nil),
			protocol.Request{Action: "set", Data: `null`}},
		{"set JSON", setCall("42", "", protocol.JSON(`{"a":1.0}`), nil),
			protocol.Request{Action: "set", Data: `{"a":1.0}`}},
		{"compare and set", setCall("42", "", 1, []Condition{Expect("e", 18)}),
			protocol.Request{Action: "set", Data: `1`, Expect: &expect, Epoch: "e"}},
		{"set a member's", setCall("42", protocol.ScopeMember, "x", []Condition{Expect("", 18)}),
			protocol.Request{Action: "set", Scope: "member", Data: `"x"`, Expect: &expect}},
		{"say", sayCall("42", Message{Text: "你好"}),
			protocol.Request{Action: "say", Text: "你好"}},
		{"say data to some", sayToCall("42", []string{"李四", "王五"}, Message{Data: json.RawMessage("null")}), protocol.Request{Action: "say", Data: "null", To: []string{"李四", "王五"}}},
		{"kick", kickCall("42", "王五", "", 0),
			protocol.Request{Action: "kick", User: "王五"}},
		{"ban", kickCall("42", "王五", "too loud", 1001*time.Millisecond),
			protocol.Request{Action: "kick", User: "王五", Text: "too loud", Ban: 2}},
		{"longest ban", kickCall("42", "王五", "", protocol.MaxBan*time.Second), protocol.Request{Action: "kick", User: "王五", Ban: protocol.MaxBan}},
		{"close", plainCall(protocol.ActionClose, "42"),
			protocol.Request{Action: "close"}},
		{"configure", configureCall("42", room.Settings{Capacity: 4, Data: room.DataAdmins}, []Condition{Expect("e", 18)}), protocol.Request{Action: "configure", Settings: &room.Settings{Capacity: 4, Data: room.DataAdmins}, Expect: &expect, Epoch: "e"}},
		{"configure to zero", configureCall("42", room.Settings{}, nil),
			protocol.Request{Action: "configure", Settings: &room.Settings{}}},
	}
	for i, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			reply, err := c.do(t.Context(), tt.call)
			redistest.OK(t, err)
			tt.want.ID, tt.want.Room = int64(i+1), "42"
			if req := <-got; !reflect.DeepEqual(req, tt.want) {
				t.Errorf("the server got %+v, want %+v", req, tt.want)
			}
			want := &protocol.Reply{ID: &tt.want.ID, Room: "42", Epoch: "e", Version: 18, Seat: new(2),
				State: protocol.State{Count: 1, Users: []protocol.Seated{{User: "张三", Seat: 2}}}}
			redistest.ErrorIf(t, !reflect.DeepEqual(reply, want), "got %+v, want %+v", reply, want)
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
	c := dialScript(t, Options{}, func(s *server) {
		for _, reply := range replies {
			req, _ := s.next()
			s.send(`{"id":%d%s`, req.ID, reply)
		}
		s.drain()
	})
	changed := protocol.NewError(protocol.CodeConflict, "the data has changed")
	for _, want := range []ConflictError{{"e", 19, `{"round":3}`, changed}, {"", 0, "", changed}} {
		reply, err := c.do(t.Context(), setCall("42", "", 1, []Condition{Expect("e", 18)}))
		var conflict *ConflictError
		redistest.FatalIf(t, !errors.As(err, &conflict) || !reflect.DeepEqual(*conflict, want),
			"got %v, want %+v", err, want)
		var refused *protocol.Error
		if reply != nil || !errors.Is(err, protocol.ErrConflict) || !errors.As(err, &refused) || errors.Is(err, ErrClosed) {
			t.Errorf("got %+v, %v", reply, err)
		}
		if want := `client: set of room "42": conflict: the data has changed`; err.Error() != want {
			t.Errorf("got %q, want %q", err, want)
		}
	}
}

// A message to a list that turns out to be empty does not go to everybody, but to admins alone.
func TestRequest_SayToNobody(t *testing.T) {
	t.Parallel()
	frames := make(chan string, 1)
	c := dialScript(t, Options{}, func(s *server) {
		for {
			_, data, err := s.ReadMessage()
			if err != nil {
				return
			}
			frames <- string(data)
			request, bad := protocol.DecodeRequest(data)
			if bad != nil || request.To == nil {
				t.Errorf("a server takes %s for a message to %v, %v", data, request.To, bad)
				return
			}
			s.send("%s", protocol.AppendReply(nil, &protocol.Reply{ID: &request.ID, Room: "42"}))
		}
	})
	for _, users := range [][]string{nil, {}} {
		_, err := c.do(t.Context(), sayToCall("42", users, Message{Text: "psst"}))
		redistest.ErrorIf(t, err != nil || !strings.Contains(<-frames, `"to":[]`), "to %#v: got %v", users, err)
	}
}

func TestRequest_DataNotSent(t *testing.T) {
	t.Parallel()
	c := dialScript(t, Options{}, func(s *server) {
		req, ok := s.next()
		redistest.ErrorIf(s.t, ok, "the server got %+v", req)
	})
	long := strings.Repeat("x", protocol.MaxFrame)
	for want, k := range map[string]*call{
		`client: set of room "42": not sent: data: json: unsupported value: NaN`:                           setCall("42", "", math.NaN(), nil),
		`client: say of room "42": not sent: data: json: unsupported type: chan int`:                       sayCall("42", Message{Data: make(chan int)}),
		`client: set of room "42": not sent: expect: more than one condition`:                              setCall("42", protocol.ScopeMember, 1, []Condition{Expect("", 1), Expect("", 2)}),
		`client: configure of room "42": not sent: expect: more than one condition`:                        configureCall("42", room.Settings{}, []Condition{Expect("", 1), Expect("", 2)}),
		`client: kick of room "42": not sent: ban: must be from 0 to 87600h0m0s, not -1s`:                  kickCall("42", "a", "", -time.Second),
		`client: kick of room "42": not sent: ban: must be from 0 to 87600h0m0s, not 87600h0m0.000000001s`: kickCall("42", "a", "", protocol.MaxBan*time.Second+1),
		`client: say of room "42": not sent: to: not valid UTF-8`:                                          sayToCall("42", []string{"\xe5", "\xbc\xa0"}, Message{Text: "a"}),
		`client: set of room "42": not sent: epoch: not valid UTF-8`:                                       setCall("42", "", 1, []Condition{Expect("\xff", 1)}),
		`client: set of room "42": not sent: data: makes a frame of 16429 bytes, the limit is 16384`:       setCall("42", "", long, nil),
		`client: kick of room "42": not sent: text: makes a frame of 16441 bytes, the limit is 16384`:      kickCall("42", "a", long, 0),
	} {
		_, err := c.do(t.Context(), k)
		redistest.ErrorIf(t, err == nil || err.Error() != want, "got  %v\nwant %s", err, want)
	}
}
