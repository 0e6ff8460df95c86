package protocol

import (
	"reflect"
	"testing"
	"unicode/utf8"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"roomd/room"
)

// strictRequest is a request as the JSON library reads it. The library does not know required
// fields, ranges or actions, so it must accept all that DecodeRequest accepts, and read the same.
type strictRequest struct {
	ID       *int64         `json:"id"`
	Action   *string        `json:"action"`
	Room     string         `json:"room"`
	Token    string         `json:"token"`
	Seat     *int           `json:"seat"`
	Value    bool           `json:"value"`
	User     string         `json:"user"`
	Scope    string         `json:"scope"`
	Settings *room.Settings `json:"settings"`
	Text     string         `json:"text"`
	Data     jsontext.Value `json:"data"`
	To       []string       `json:"to"`
	Ban      int            `json:"ban"`
	Users    []string       `json:"users"`
	Name     string         `json:"name"`
	In       *int64         `json:"in"`
	Then     *room.Effect   `json:"then"`
	Expect   *uint64        `json:"expect"`
	Epoch    string         `json:"epoch"`
}

func (s *strictRequest) request() Request {
	return Request{
		ID: *s.ID, Action: *s.Action, Room: s.Room, Token: s.Token, Seat: s.Seat, Value: s.Value, User: s.User,
		Scope: s.Scope, Settings: s.Settings, Text: s.Text, Data: JSON(s.Data), To: s.To, Ban: s.Ban, Users: s.Users, Name: s.Name, In: s.In, Then: s.Then,
		Expect: s.Expect, Epoch: s.Epoch,
	}
}

func FuzzDecodeRequest(f *testing.F) {
	for _, seed := range []string{
		`{"id":1,"action":"join","room":"42","seat":2}`,
		`{"id":2,"action":"leave","room":"张三🃏"}`,
		` {"room":"\ud83c\udccf","action":"users","\u0069d":9007199254740991} `,
		`{"id":1,"id":2,"action":"join","room":"42"}`,
		`{"ID":1,"action":"join","room":"42","x":[{"a":null}]}`,
		`{"id":1,"action":"auth","token":"a.b.c"}`, `{"token":"","action":"auth","id":1,"room":"42"}`,
		`{"id":1,"action":"ready","room":"42","value":true}`,
		`{"id":1,"action":"set","room":"42","scope":"member","data":{"a":[1.0,"\u0041"]},"expect":18,"epoch":"e"}`,
		`{"id":1,"action":"say","room":"42","text":"hi","to":["a","b"]}`, `{"id":1,"action":"say","room":"42","data": null }`,
		`{"id":1,"action":"timer","room":"42","name":"a","in":5,"then":{"data":[1]},"expect":1}`, `{"id":1,"action":"timer","room":"42","name":"a","in":null}`, `{"id":1,"action":"swap","room":"42","users":["a","b"]}`,
		`{"id":1,"action":"kick","room":"42","user":"a","text":"t","ban":60}`, `{"id":1,"action":"close","room":"42"}`,
		`{"id":1,"action":"configure","room":"42","settings":{"capacity":4,"closed":true,"keep":false,"data":"admins"},"expect":1}`,
		`{"id":01}`, `{"id":1.0,"seat":null,"room":"\ud800"}`, `{"id":1}{`, `[]`, ``,
		"{\"room\xff\":\"\xfe\"}",
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, frame []byte) {
		req, err := DecodeRequest(frame)
		if err != nil {
			checkRefusal(t, err)
			return
		}
		var strict strictRequest
		if err := json.Unmarshal(frame, &strict, json.RejectUnknownMembers(true)); err != nil {
			t.Fatalf("accepted what a strict reader refuses: %v", err)
		}
		seen := strict.request()
		if !reflect.DeepEqual(seen, req) {
			t.Fatalf("read %+v, a strict reader %+v", req, seen)
		}
		again, err := DecodeRequest(AppendRequest(nil, &req))
		if err != nil || !reflect.DeepEqual(again, req) {
			t.Fatalf("wrote %+v, read %+v, %v", req, again, err)
		}
	})
}

func checkRefusal(t *testing.T, err *DecodeError) {
	t.Helper()
	if err.Err.Code != CodeBadRequest && err.Err.Code != CodeUnknownAction {
		t.Errorf("code %q", err.Err.Code)
	}
	if err.Err.Message == "" || !utf8.ValidString(err.Err.Message) || len(err.Err.Message) > 512 {
		t.Errorf("message %q", err.Err.Message)
	}
	if err.ID != nil && (*err.ID < 0 || *err.ID > MaxID) {
		t.Errorf("id %d", *err.ID)
	}
	sent, decodeErr := DecodeFrame(AppendReply(nil, err.Reply()))
	if decodeErr != nil || !reflect.DeepEqual(sent, Frame(err.Reply())) {
		t.Errorf("a client reads %+v, %v", sent, decodeErr)
	}
}

// What a client reads and writes again, it reads as the same.
func FuzzDecodeFrame(f *testing.F) {
	for _, seed := range []string{
		`{"id":1,"room":"42","epoch":"e","version":18,"seat":2,"count":1,"settings":{"capacity":4,"data":"admins"},"data":[1.0],"users":[{"user":"a","seat":2,"away":true,"ready":true,"data":{}}]}`,
		`{"id":3,"room":"42","epoch":"e","version":19,"data":null,"error":{"code":"conflict","message":"m","retry":false}}`,
		`{"event":"changes","room":"42","version":3,"from":1,"changes":[{"type":"leave","user":"a","reason":"moved","to":"43"},{"type":"message","text":"t","to":["a"]}]}`,
		`{"event":"changes","changes":[{"type":"data","data":"\u0041"},{"type":"settings","settings":{"capacity":0}},{"type":"join","away":true}]}`,
		`{"event":"snapshot","room":"42","data":1,"users":[]}`, `{"event":"lost","room":"42","reason":"kicked","text":"t","to":"43"}`,
		`{"event":"changes","changes":[{"type":"countdown","name":"a","in":null},{"type":"countdown","name":"a","in":5},{"type":"timer","name":"a"}]}`, `{"id":1,"room":"42","timers":{"b":1,"a":2},"users":[]}`,
		`{"id":1,"user":"a","expires":5}`, `{"error":{}}`, `{"event":"lost","to":[1]}`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		frame, err := DecodeFrame(data)
		if err != nil {
			return
		}
		// Fields that make no sense in a frame are read, but not written.
		written := encode("", frame)
		again, err := DecodeFrame([]byte(written))
		if err != nil {
			t.Fatalf("wrote %s: %v", written, err)
		}
		if rewritten := encode("", again); rewritten != written {
			t.Fatalf("wrote %s, then %s", written, rewritten)
		}
	})
}
