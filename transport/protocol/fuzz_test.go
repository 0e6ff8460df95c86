package protocol

import (
	"reflect"
	"testing"
	"unicode/utf8"

	"github.com/go-json-experiment/json"
)

// strictRequest is a request as the JSON library reads it. The library does not know required
// fields, ranges or actions, so it must accept all that DecodeRequest accepts, and read the same.
type strictRequest struct {
	ID     *int64  `json:"id"`
	Action *string `json:"action"`
	Room   *string `json:"room"`
	Seat   *int    `json:"seat"`
	Token  *string `json:"token"`
}

func FuzzDecodeRequest(f *testing.F) {
	for _, seed := range []string{
		`{"id":1,"action":"join","room":"42","seat":2}`,
		`{"id":2,"action":"leave","room":"张三🃏"}`,
		` {"room":"\ud83c\udccf","action":"users","\u0069d":9007199254740991} `,
		`{"id":1,"id":2,"action":"join","room":"42"}`,
		`{"ID":1,"action":"join","room":"42","x":[{"a":null}]}`,
		`{"id":1,"action":"auth","token":"a.b.c"}`, `{"token":"","action":"auth","id":1,"room":"42"}`,
		`{"id":01}`, `{"id":1.0,"seat":null,"room":"\ud800"}`, `{"id":1}{`, `[]`, ``,
		"{\"room\xff\":\"\xfe\"}",
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, frame []byte) {
		agreesWithDecodeAny(t, string(frame))
		req, err := DecodeRequest(frame)
		if err != nil {
			checkRefusal(t, err)
			return
		}
		var strict strictRequest
		if err := json.Unmarshal(frame, &strict, json.RejectUnknownMembers(true)); err != nil {
			t.Fatalf("accepted what a strict reader refuses: %v", err)
		}
		seen := Request{ID: *strict.ID, Action: *strict.Action, Seat: strict.Seat}
		if req.Action == ActionAuth {
			seen.Token = *strict.Token
		} else {
			seen.Room = *strict.Room
		}
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
