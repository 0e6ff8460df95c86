package protocol

import (
	"errors"
	"reflect"
	"strings"
	"testing"
)

const noID = -1

func TestDecodeRequestRefuses(t *testing.T) {
	const (
		idRange   = "id: must be a whole number from 0 to 9007199254740991, not "
		seatRange = "seat: must be a whole number from 0 to 65535, not "
		cutShort  = "not valid JSON: the frame ends in the middle of the object"
	)
	tests := []struct {
		name, frame string
		id          int64
		code, want  string // want is the whole message
	}{
		// Not one JSON object.
		{"empty", ``, noID, CodeBadRequest, "the frame is empty: it must be one JSON object"},
		{"white space", " \n", noID, CodeBadRequest, "the frame is empty: it must be one JSON object"},
		{"array", `[{"id":1}]`, noID, CodeBadRequest, "the frame must be one JSON object, not an array"},
		{"string", `"join"`, noID, CodeBadRequest, "the frame must be one JSON object, not a string"},
		{"number", `7`, noID, CodeBadRequest, "the frame must be one JSON object, not a number"},
		{"true", `true`, noID, CodeBadRequest, "the frame must be one JSON object, not true or false"},
		{"null", `null`, noID, CodeBadRequest, "the frame must be one JSON object, not null"},
		{"second object", `{"id":1,"action":"join","room":"42"}{"id":2}`, 1, CodeBadRequest,
			"a frame holds one JSON object, but more follows after byte 36"},
		{"trailing text", `{"id":1,"action":"join","room":"42"} x`, 1, CodeBadRequest,
			"a frame holds one JSON object, but more follows after byte 36"},
		{"trailing brace", `{"id":1}}`, 1, CodeBadRequest,
			"a frame holds one JSON object, but more follows after byte 8"},

		// Broken JSON: the id counts if it stands complete before the break.
		{"cut short", `{"id":12,"action":"jo`, 12, CodeBadRequest, cutShort},
		{"cut short in the id", `{"id":12`, noID, CodeBadRequest, cutShort},
		{"broken before the id", `{"action":join,"id":1}`, noID, CodeBadRequest, "not valid JSON from byte 10 on"},
		{"trailing comma", `{"id":1,}`, 1, CodeBadRequest, "not valid JSON from byte 7 on"},
		{"missing comma", `{"id":1 "room":"42"}`, noID, CodeBadRequest, "not valid JSON from byte 8 on"},
		{"single quotes", `{'id':1}`, noID, CodeBadRequest, "not valid JSON from byte 1 on"},
		{"bare name", `{id:1}`, noID, CodeBadRequest, "not valid JSON from byte 1 on"},
		{"number as name", `{1:2}`, noID, CodeBadRequest, "not valid JSON from byte 1 on"},
		{"leading zero", `{"id":01,"action":"join","room":"42"}`, noID, CodeBadRequest, "not valid JSON from byte 7 on"},
		{"byte order mark", "\ufeff{\"id\":1}", noID, CodeBadRequest, "not valid JSON from byte 0 on"},
		{"raw control character", "{\"id\":1,\"room\":\"a\nb\"}", 1, CodeBadRequest, "not valid JSON from byte 17 on"},

		// The id.
		{"no id", `{"action":"join","room":"42"}`, noID, CodeBadRequest, "id: required"},
		{"id null", `{"id":null,"action":"join","room":"42"}`, noID, CodeBadRequest, idRange + "null"},
		{"id string", `{"id":"1","action":"join","room":"42"}`, noID, CodeBadRequest, idRange + "a string"},
		{"id true", `{"id":true,"action":"join","room":"42"}`, noID, CodeBadRequest, idRange + "true or false"},
		{"id object", `{"id":{"id":1},"action":"join","room":"42"}`, noID, CodeBadRequest, idRange + "an object"},
		{"id negative", `{"id":-1,"action":"join","room":"42"}`, noID, CodeBadRequest, idRange + "-1"},
		{"id minus zero", `{"id":-0,"action":"join","room":"42"}`, noID, CodeBadRequest, idRange + "-0"},
		{"id fraction", `{"id":1.0,"action":"join","room":"42"}`, noID, CodeBadRequest, idRange + "1.0"},
		{"id exponent", `{"id":1e3,"action":"join","room":"42"}`, noID, CodeBadRequest, idRange + "1e3"},
		{"id too large", `{"id":9007199254740992,"action":"join","room":"42"}`, noID, CodeBadRequest,
			idRange + "9007199254740992"},
		{"id far too large", `{"id":` + strings.Repeat("9", 100) + `,"action":"join","room":"42"}`, noID,
			CodeBadRequest, idRange + strings.Repeat("9", 32) + "…"},
		{"id twice", `{"id":1,"id":2,"action":"join","room":"42"}`, noID, CodeBadRequest, "id: given twice"},
		{"id twice, the same", `{"id":1,"action":"join","room":"42","id":1}`, noID, CodeBadRequest, "id: given twice"},
		{"id three times", `{"id":1,"id":1,"id":1}`, noID, CodeBadRequest, "id: given twice"},
		{"id twice, once escaped", `{"id":1,"\u0069d":2}`, noID, CodeBadRequest, "id: given twice"},
		{"id only deeper down", `{"x":{"id":1},"action":"join","room":"42"}`, noID, CodeBadRequest, `unknown field "x"`},

		// Action and room.
		{"no action", `{"id":1,"room":"42"}`, 1, CodeBadRequest, "action: required"},
		{"action null", `{"id":1,"action":null,"room":"42"}`, 1, CodeBadRequest, "action: must be a string, not null"},
		{"action number", `{"id":1,"action":5,"room":"42"}`, 1, CodeBadRequest, "action: must be a string, not a number"},
		{"unknown action", `{"id":1,"action":"dance","room":"42"}`, 1, CodeUnknownAction, `unknown action "dance"`},
		{"action in capitals", `{"id":1,"action":"JOIN","room":"42"}`, 1, CodeUnknownAction, `unknown action "JOIN"`},
		{"empty action", `{"id":1,"action":"","room":"42"}`, 1, CodeUnknownAction, `unknown action ""`},
		{"long action", `{"id":1,"action":"` + strings.Repeat("张", 100) + `"}`, 1, CodeUnknownAction,
			`unknown action "` + strings.Repeat("张", 32) + `…"`},
		{"action of 32 characters", `{"id":1,"action":"` + strings.Repeat("a", 32) + `"}`, 1, CodeUnknownAction,
			`unknown action "` + strings.Repeat("a", 32) + `"`},
		{"action with control characters", `{"id":1,"action":"a\n\u0007"}`, 1, CodeUnknownAction,
			`unknown action "a\n\a"`},
		{"later action with its own fields", `{"id":1,"action":"deal","cards":5}`, 1, CodeUnknownAction,
			`unknown action "deal"`},
		{"later action with other values", `{"to":"all","id":1,"action":"deal","data":{"a":1,"a":2}}`, 1, CodeUnknownAction,
			`unknown action "deal"`},
		{"no room", `{"id":1,"action":"users"}`, 1, CodeBadRequest, "room: required"},
		{"room null", `{"id":1,"action":"users","room":null}`, 1, CodeBadRequest, "room: must be a string, not null"},
		{"room number", `{"id":1,"action":"users","room":42}`, 1, CodeBadRequest, "room: must be a string, not a number"},
		{"room array", `{"id":1,"action":"users","room":["42"]}`, 1, CodeBadRequest, "room: must be a string, not an array"},
		{"room twice", `{"room":"1","room":"2","action":"join","id":9}`, 9, CodeBadRequest, "room: given twice"},

		// Seat.
		{"seat null", `{"id":1,"action":"join","room":"42","seat":null}`, 1, CodeBadRequest, seatRange + "null"},
		{"seat negative", `{"id":1,"action":"join","room":"42","seat":-1}`, 1, CodeBadRequest, seatRange + "-1"},
		{"seat too large", `{"id":1,"action":"join","room":"42","seat":65536}`, 1, CodeBadRequest, seatRange + "65536"},
		{"seat fraction", `{"id":1,"action":"join","room":"42","seat":1.5}`, 1, CodeBadRequest, seatRange + "1.5"},
		{"seat string", `{"id":1,"action":"join","room":"42","seat":"2"}`, 1, CodeBadRequest, seatRange + "a string"},
		{"seat with leave", `{"id":1,"action":"leave","room":"42","seat":2}`, 1, CodeBadRequest, "seat: only goes with join"},
		{"seat with watch", `{"seat":0,"id":1,"action":"watch","room":"42"}`, 1, CodeBadRequest, "seat: only goes with join"},
		{"seat with users", `{"seat":0,"id":1,"action":"users","room":"42"}`, 1, CodeBadRequest, "seat: only goes with join"},

		// Token.
		{"no token", `{"id":1,"action":"auth"}`, 1, CodeBadRequest, "token: required"},
		{"room for a token", `{"id":1,"action":"auth","room":"42"}`, 1, CodeBadRequest, "token: required"},
		{"room beside a token", `{"id":1,"action":"auth","token":"t","room":"42"}`, 1, CodeBadRequest, "room: does not go with auth"},
		{"seat beside a token", `{"id":1,"action":"auth","token":"t","seat":1}`, 1, CodeBadRequest, "seat: only goes with join"},
		{"token with join", `{"id":1,"action":"join","room":"42","token":"t"}`, 1, CodeBadRequest, "token: only goes with auth"},
		{"token null", `{"id":1,"action":"auth","token":null}`, 1, CodeBadRequest, "token: must be a string, not null"},
		{"token twice", `{"id":1,"action":"auth","token":"t","token":"t"}`, 1, CodeBadRequest, "token: given twice"},
		{"Token", `{"id":1,"action":"auth","Token":"t"}`, 1, CodeBadRequest,
			`unknown field "Token": names are in lower case, "token"`},

		// Names.
		{"unknown field", `{"id":1,"action":"join","room":"42","color":"red"}`, 1, CodeBadRequest, `unknown field "color"`},
		{"unknown field before the id", `{"x":[{"a":1,"a":2}],"id":8,"action":"join","room":"42"}`, 8, CodeBadRequest,
			`unknown field "x"`},
		{"unknown field twice", `{"x":1,"x":2,"id":1,"action":"join","room":"42"}`, 1, CodeBadRequest, `unknown field "x"`},
		{"long name", `{"` + strings.Repeat("x", 100) + `":1,"id":1}`, 1, CodeBadRequest,
			`unknown field "` + strings.Repeat("x", 32) + `…"`},
		{"other letter case", `{"id":1,"action":"join","Room":"42"}`, 1, CodeBadRequest,
			`unknown field "Room": names are in lower case, "room"`},
		{"other letter case of the id", `{"ID":1,"action":"join","room":"42"}`, noID, CodeBadRequest,
			`unknown field "ID": names are in lower case, "id"`},
		{"both letter cases", `{"id":1,"action":"join","room":"1","ROOM":"2"}`, 1, CodeBadRequest,
			`unknown field "ROOM": names are in lower case, "room"`},

		// Text that is not UTF-8.
		{"room not UTF-8", "{\"room\":\"\xff\",\"id\":4,\"action\":\"join\"}", 4, CodeBadRequest, "room: not valid UTF-8"},
		{"half a surrogate pair", `{"room":"\ud83c","id":4,"action":"join"}`, 4, CodeBadRequest, "room: not valid UTF-8"},
		{"action not UTF-8", "{\"id\":4,\"action\":\"join\xfe\",\"room\":\"42\"}", 4, CodeBadRequest, "action: not valid UTF-8"},
		{"name not UTF-8", "{\"room\xff\":\"42\",\"id\":4,\"action\":\"join\"}", 4, CodeBadRequest,
			"a field's name is not valid UTF-8: \"room\uFFFD\""},

		// Several faults: the order that the doc comment gives.
		{"broken JSON goes first", `{"id":null,"x":1,"action":"dance"`, noID, CodeBadRequest, cutShort},
		{"then wrong values", `{"x":1,"action":"dance","room":5,"id":1}`, 1, CodeBadRequest,
			"room: must be a string, not a number"},
		{"of id, action and room first", `{"seat":null,"room":5,"id":1}`, 1, CodeBadRequest, "room: must be a string, not a number"},
		{"the first of them", `{"seat":null,"token":5,"id":1,"room":"42","action":"join"}`, 1, CodeBadRequest, seatRange + "null"},
		{"then what is unknown", `{"action":"join","seats":1}`, noID, CodeBadRequest, `unknown field "seats"`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, err := DecodeRequest([]byte(tt.frame))
			if err == nil {
				t.Fatalf("accepted as %+v", got)
			}
			if !reflect.DeepEqual(got, Request{}) {
				t.Errorf("refused, but with the request %+v", got)
			}
			if err.Err.Code != tt.code || err.Err.Message != tt.want || err.Err.Retry {
				t.Errorf("got  %+v\nwant %s: %s, no retry", *err.Err, tt.code, tt.want)
			}
			id := int64(noID)
			if err.ID != nil {
				id = *err.ID
			}
			if id != tt.id {
				t.Errorf("id %d, want %d", id, tt.id)
			}
		})
	}
}

func TestDecodeRequestNesting(t *testing.T) {
	frame := []byte(`{"id":1,"x":` + strings.Repeat("[", MaxFrame))
	_, err := DecodeRequest(frame)
	if err == nil || err.Err.Code != CodeBadRequest || err.ID == nil || *err.ID != 1 {
		t.Errorf("got %v, want bad_request for id 1", err)
	}
}

// A decoder is used again for the next frame, and remembers nothing of the last one.
func TestDecodersRememberNothing(t *testing.T) {
	frame := []byte(`{"id":1,"action":"join","room":"first","seat":3}`)
	first, _ := DecodeRequest(frame)
	for i := range frame {
		frame[i] = '#'
	}
	if first.Room != "first" || *first.Seat != 3 {
		t.Errorf("the request changed with its frame: %+v", first)
	}
	if _, err := DecodeRequest([]byte(`{"action":"users","x":1`)); err == nil || err.ID != nil {
		t.Errorf("got %v with an id, want a refusal without", err)
	}
	second, err := DecodeRequest([]byte(`{"id":2,"action":"users","room":"second"}`))
	if want := (Request{ID: 2, Action: "users", Room: "second"}); err != nil || !reflect.DeepEqual(second, want) {
		t.Errorf("got %+v, %v, want %+v", second, err, want)
	}
}

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
