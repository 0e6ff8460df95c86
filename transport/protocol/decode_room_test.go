package protocol

import (
	"errors"
	"testing"
)

// The frame that tells a client of a fault has the id and the room, as far as they could be read.
func TestDecodeErrorReply(t *testing.T) {
	const refused = `"error":{"code":"bad_request","message":`
	for frame, want := range map[string]string{
		`{"id":7,"action":"join"}`:                      `{"id":7,` + refused + `"room: required","retry":false}}`,
		`{"id":7,"room":"42"}`:                          `{"id":7,"room":"42",` + refused + `"action: required","retry":false}}`,
		`{"room":"42"}`:                                 `{"room":"42",` + refused + `"id: required","retry":false}}`,
		`{"room":"42","id":7,"seat":`:                   `{"id":7,"room":"42",` + refused + `"not valid JSON: the frame ends in the middle of the object","retry":false}}`,
		`{"id":7,"room":"4`:                             `{"id":7,` + refused + `"not valid JSON: the frame ends in the middle of the object","retry":false}}`,
		`{"id":7,"room":"42","room":"42"}`:              `{"id":7,` + refused + `"room: given twice","retry":false}}`,
		`{"id":7,"room":"42","room":`:                   `{"id":7,` + refused + `"not valid JSON: the frame ends in the middle of the object","retry":false}}`,
		`{"id":7,"room":"42","id":`:                     `{"room":"42",` + refused + `"not valid JSON: the frame ends in the middle of the object","retry":false}}`,
		`{"id":7,"room":"\ud800","action":"join"}`:      `{"id":7,` + refused + `"room: not valid UTF-8","retry":false}}`,
		`{"id":7,"room":"","action":"join","x":1}`:      `{"id":7,` + refused + `"unknown field \"x\"","retry":false}}`,
		`{"id":7,"Room":"42","action":"leave"}`:         `{"id":7,` + refused + `"unknown field \"Room\": names are in lower case, \"room\"","retry":false}}`,
		`{"id":7,"room":"42","action":"join","to":[1]}`: `{"id":7,"room":"42",` + refused + `"to[0]: must be a string, not a number","retry":false}}`,
	} {
		_, err := DecodeRequest([]byte(frame))
		if !errors.Is(err, ErrBadRequest) {
			t.Errorf("%s: %v is not ErrBadRequest", frame, err)
			continue
		}
		if got := string(AppendReply(nil, err.Reply())); got != want {
			t.Errorf("%s\ngot  %s\nwant %s", frame, got, want)
		}
	}
}
