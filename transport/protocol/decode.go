package protocol

import (
	"bytes"
	"errors"
	"io"
	"strconv"
	"strings"
	"sync"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"roomd/room"
)

// DecodeError is the error for a frame that is not a valid request.
type DecodeError struct {
	// ID is nil if the frame has no usable id before the point where its JSON breaks, or has more than one "id": a
	// reply must not name a request that the client may not have meant.
	ID *int64
	// Room is the room that the frame names before its JSON breaks; empty if it names none, or several.
	Room string
	// Err is never nil; its code is CodeBadRequest or CodeUnknownAction.
	Err *Error
}

// Error returns the text of e.Err.
func (e *DecodeError) Error() string { return e.Err.Error() }

// Unwrap returns e.Err.
func (e *DecodeError) Unwrap() error { return e.Err }

// Reply returns the reply with the error.
func (e *DecodeError) Reply() *Reply { return &Reply{ID: e.ID, Room: e.Room, Error: e.Err} }

// DecodeRequest reads a frame from a client. The error is nil, or the fault in the frame's shape; it has a concrete
// type, so compare it with nil before storing it in an error variable. The request keeps no part of frame, whose
// length the caller limits.
//
// Of several faults, it reports the first in this order: broken JSON; an id, action or room that is wrong or repeated;
// an unknown action; another field that is wrong or repeated; an unknown field; a missing field; a field that does not
// belong there. So a request of a later protocol, with new fields or values of its action, gets unknown_action.
//
// It reads tokens instead of unmarshalling a struct, because a refusal needs more than the library's error: the id,
// even if the frame breaks after it or repeats another field, and the fault in this order.
func DecodeRequest(frame []byte) (Request, *DecodeError) {
	d := decoders.Get().(*decoder)
	defer d.release()
	err := d.decode(frame, false)
	if err == nil {
		return d.req, nil
	}
	failed := &DecodeError{Room: d.req.Room, Err: err}
	if id := d.req.ID; d.idValid {
		failed.ID = &id
	}
	return Request{}, failed
}

func decodePart(text []byte) (Request, *Error) {
	d := decoders.Get().(*decoder)
	defer d.release()
	err := d.decode(text, true)
	return d.req, err
}

func (d *decoder) decode(text []byte, part bool) *Error {
	d.src = *bytes.NewBuffer(text)
	d.json.Reset(&d.src, tolerant)
	d.part = part
	if err := d.readObject(); err != nil {
		return err
	}
	return d.check()
}

// tolerant makes the decoder read on after repeated names and bad UTF-8, to find the id. readMember, text and data
// refuse them.
var tolerant = json.JoinOptions(jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true))

// decoders are reused: a new one for each frame would take 700 ns instead of 280.
var decoders = sync.Pool{New: func() any { return new(decoder) }}

// decoder reads one frame. It reads all members before it reports a fault in one of them.
type decoder struct {
	src     bytes.Buffer
	json    jsontext.Decoder
	scratch []byte // the last unquoted string
	findings
}

type findings struct {
	req     Request
	action  *Action // nil if it is unknown
	seen    fieldSet
	idValid bool
	part    bool // of a txn

	// First faults, nil for none: in id, action or room; an unknown action; another field; an unknown name.
	badCommon, badAction, badOther, badName *Error
}

func (d *decoder) release() {
	// Nothing of the frame may stay reachable from the pool.
	d.src = bytes.Buffer{}
	d.json.Reset(&d.src)
	d.findings = findings{}
	decoders.Put(d)
}

// readObject reads the whole frame. It fails only if the frame is not one JSON object.
func (d *decoder) readObject() *Error {
	if kind := d.json.PeekKind(); kind != jsontext.KindBeginObject && kind != jsontext.KindInvalid {
		whole := map[bool]string{false: "the frame", true: "it"}[d.part]
		return NewError(CodeBadRequest, "%s must be one JSON object, not %s", whole, kindNames[kind])
	}
	if _, err := d.json.ReadToken(); err != nil {
		return d.syntaxError(err)
	}
	for d.json.PeekKind() != jsontext.KindEndObject {
		if err := d.readMember(); err != nil {
			return d.syntaxError(err)
		}
	}
	if _, err := d.json.ReadToken(); err != nil {
		return d.syntaxError(err)
	}
	end := d.json.InputOffset()
	if _, err := d.json.ReadToken(); err != io.EOF {
		return NewError(CodeBadRequest,
			"a frame holds one JSON object, but more follows after byte %d", end)
	}
	return nil
}

func (d *decoder) syntaxError(err error) *Error {
	var syntax *jsontext.SyntacticError
	switch {
	case err == io.EOF:
		return NewError(CodeBadRequest, "the frame is empty: it must be one JSON object")
	case errors.Is(err, io.ErrUnexpectedEOF):
		return NewError(CodeBadRequest, "not valid JSON: the frame ends in the middle of the object")
	case errors.As(err, &syntax):
		return NewError(CodeBadRequest, "not valid JSON from byte %d on", syntax.ByteOffset)
	}
	return NewError(CodeBadRequest, "not valid JSON")
}

func (d *decoder) check() *Error {
	for _, err := range [...]*Error{d.badCommon, d.badAction, d.badOther, d.badName} {
		if err != nil {
			return err
		}
	}
	for _, f := range [...]field{fieldID, fieldAction} {
		if !d.seen.has(f) && !(d.part && f == fieldID) {
			return required(f)
		}
	}
	return d.action.check(&d.req, d.seen, d.part)
}

// readMember reads a name and its value. It fails only where the JSON is broken.
func (d *decoder) readMember() error {
	raw, err := d.json.ReadValue()
	if err != nil {
		return err
	}
	f := d.field(raw)
	if f != fieldUnknown && d.seen.has(f) {
		d.twice(f)
		f = fieldUnknown
	}
	if f == fieldUnknown {
		return d.json.SkipValue()
	}
	value, err := d.json.ReadValue()
	if err == nil {
		d.readField(f, value)
	}
	d.seen |= 1 << f
	return err
}

func (d *decoder) readField(f field, value jsontext.Value) {
	var wrong string
	var n int64
	row := &fieldTable[f]
	switch in := row.in(&d.req).(type) {
	case *int64: // the id
		*in, wrong = number(value, row.least, row.most)
		d.idValid = wrong == "" && d.delimited()
	case *int:
		n, wrong = number(value, row.least, row.most)
		*in = int(n)
	case **int:
		n, wrong = number(value, 0, row.most)
		*in = new(int(n))
	case **uint64:
		n, wrong = number(value, 0, row.most)
		*in = new(uint64(n))
	case **int64:
		if value.Kind() != jsontext.KindNull {
			if n, wrong = number(value, row.least, row.most); wrong != "" {
				wrong += "; null cancels the timer"
			}
			*in = new(n)
		}
	case *bool:
		*in, wrong = truth(value)
	case *JSON:
		*in, wrong = data(value)
	case *room.Labels:
		*in, wrong = labels(value)
	case *[]string:
		*in = d.users(f, value)
	case *[]Request:
		*in = d.parts(value)
	case **room.Settings:
		*in = d.settings(value)
	case **room.Effect:
		*in = d.effect(value)
	case *string:
		switch {
		case f == fieldAction:
			wrong = d.readAction(value)
		case row.choices != nil:
			*in, wrong = d.choice(value, row.choices...)
		default:
			*in, wrong = d.text(value)
		}
		if f == fieldEpoch && wrong == "" && *in == "" {
			wrong = "must not be empty; without it, any epoch will do"
		}
	}
	if wrong != "" {
		d.bad(f, wrong)
	}
}

// twice records a repeated field. It drops a repeated id or room, so that the refusal names none.
func (d *decoder) twice(f field) {
	d.bad(f, "given twice")
	switch f {
	case fieldID:
		d.idValid = false
	case fieldRoom:
		d.req.Room = ""
	}
}

func (d *decoder) readAction(value jsontext.Value) (wrong string) {
	action, wrong := d.textBytes(value)
	if wrong != "" {
		return wrong
	}
	if d.action = ActionNamed(action); d.action == nil {
		d.badAction = UnknownAction(string(action))
		return ""
	}
	d.req.Action = d.action.Name
	return ""
}

// delimited reports whether a comma or brace follows the last value. Of 01 the decoder reads only the 0.
func (d *decoder) delimited() bool {
	rest := bytes.TrimLeft(d.json.UnreadBuffer(), " \t\r\n")
	return len(rest) > 0 && (rest[0] == ',' || rest[0] == '}')
}

// field returns the field with a quoted name. It records the first unknown name as a fault.
func (d *decoder) field(raw jsontext.Value) field {
	name, ok := d.unquote(raw)
	if ok {
		for f := fieldID; f < fieldUnknown; f++ {
			if string(name) == f.name() {
				return f
			}
		}
	}
	if d.badName == nil {
		wrong := badName(string(name), fieldSet(1<<fieldUnknown-1).names())
		if !ok {
			wrong = badUTF8 + excerpt(string(name))
		}
		d.badName = NewError(CodeBadRequest, "%s", wrong)
	}
	return fieldUnknown
}

const badUTF8 = "a field's name is not valid UTF-8: "

func badName(name string, known []string) string {
	for _, k := range known {
		if strings.EqualFold(name, k) {
			return "unknown field " + excerpt(name) + ": names are in lower case, " + strconv.Quote(k)
		}
	}
	return "unknown field " + excerpt(name)
}

// UnknownAction returns the error for an action that a server does not know.
func UnknownAction(action string) *Error {
	return NewError(CodeUnknownAction, "unknown action %s", excerpt(action))
}

// bad records the first fault of a known field.
func (d *decoder) bad(f field, wrong string) { d.badAt(f, "", wrong) }

// badAt is bad for a part of the field, such as .name or [0].
func (d *decoder) badAt(f field, part, wrong string) {
	kept := &d.badOther
	if f <= fieldRoom {
		kept = &d.badCommon
	}
	if *kept == nil {
		*kept = NewError(CodeBadRequest, "%s%s: %s", f.name(), part, wrong)
	}
}
