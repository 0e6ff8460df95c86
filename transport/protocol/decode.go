package protocol

import (
	"bytes"
	"errors"
	"io"
	"sync"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// DecodeError is the error for a frame that is not a request, with the request's id and room if readable.
type DecodeError struct {
	// ID is nil if the frame has no usable id before the point where its JSON breaks, or has more than one "id": a
	// reply must not name a request that the client may not have meant.
	ID *int64
	// Room is the frame's room, under the same conditions; empty if it names none.
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
// Of several faults, it reports the first in this order: broken JSON; an id, action or room that is wrong or
// repeated; an unknown action; another field that is wrong or repeated; an unknown field; a missing field; a field
// that does not belong there. So a request of a later protocol, with new fields or values of its action, gets
// unknown_action.
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

// tolerant lets the decoder go on to the id after a repeated name or bad UTF-8. readMember, text and data refuse
// both.
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

	// The first fault of each kind, or nil: in id, action or room, then in other known fields.
	badCommon, badAction, badOther, badName *Error
}

func (d *decoder) release() {
	// Nothing of the frame may stay reachable from the pool.
	d.src = bytes.Buffer{}
	d.json.Reset(&d.src)
	d.findings = findings{}
	decoders.Put(d)
}

func (d *decoder) whole() string {
	if d.part {
		return "it"
	}
	return "the frame"
}

// readObject reads the whole frame, and fails only where the JSON itself is broken.
func (d *decoder) readObject() *Error {
	if kind := d.json.PeekKind(); kind != jsontext.KindBeginObject && kind != jsontext.KindInvalid {
		return NewError(CodeBadRequest, "%s must be one JSON object, not %s", d.whole(), kindName(kind))
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
