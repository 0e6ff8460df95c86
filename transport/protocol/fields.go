package protocol

import (
	"bytes"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
)

// field is a member of a request's object.
type field int

const (
	fieldID field = iota
	fieldAction
	fieldRoom
	fieldSeat
	fieldToken
	fieldUnknown
)

// fieldNames is in the order of the field constants, fieldUnknown left out.
var fieldNames = [...]string{"id", "action", "room", "seat", "token"}

// readMember reads one name and its value. It fails only where the JSON is broken.
func (d *decoder) readMember() error {
	raw, err := d.json.ReadValue()
	if err != nil {
		return err
	}
	f := d.field(raw)
	value, err := d.json.ReadValue()
	if err != nil || f == fieldUnknown {
		return err
	}
	if d.seen[f] {
		d.bad(fieldNames[f] + ": given twice")
		if f == fieldID {
			d.idValid = false
		}
		return nil
	}
	d.seen[f] = true
	switch f {
	case fieldID:
		var ok bool
		d.req.ID, ok = d.number(f, value, MaxID)
		d.idValid = ok && d.delimited()
	case fieldAction:
		d.readAction(value)
	case fieldRoom:
		if room, ok := d.text(f, value); ok {
			d.req.Room = string(room)
		}
	case fieldSeat:
		if n, ok := d.number(f, value, MaxSeat); ok {
			seat := int(n)
			d.req.Seat = &seat
		}
	case fieldToken:
		if token, ok := d.text(f, value); ok {
			d.req.Token = string(token)
		}
	}
	return nil
}

// delimited reports whether the value just read ends at a comma or brace. The decoder reads 01
// as a 0 and fails at the 1, but the id of that frame is not 0.
func (d *decoder) delimited() bool {
	rest := bytes.TrimLeft(d.json.UnreadBuffer(), " \t\r\n")
	return len(rest) > 0 && (rest[0] == ',' || rest[0] == '}')
}

// field returns which field a quoted name is. It keeps the fault of the first unknown one.
func (d *decoder) field(raw jsontext.Value) field {
	name, ok := d.unquote(raw)
	if ok {
		for f, known := range fieldNames {
			if string(name) == known {
				return field(f)
			}
		}
	}
	if d.badName == nil {
		d.badName = badName(string(name), ok)
	}
	return fieldUnknown
}

func badName(name string, valid bool) *Error {
	if !valid {
		return NewError(CodeBadRequest, "a field's name is not valid UTF-8: %s", excerpt(name))
	}
	for _, known := range fieldNames {
		if strings.EqualFold(name, known) {
			return NewError(CodeBadRequest,
				"unknown field %s: names are in lower case, %q", excerpt(name), known)
		}
	}
	return NewError(CodeBadRequest, "unknown field %s", excerpt(name))
}

func (d *decoder) readAction(value jsontext.Value) {
	action, ok := d.text(fieldAction, value)
	if !ok {
		return
	}
	if d.req.Action = knownAction(action); d.req.Action == "" {
		d.badAction = NewError(CodeUnknownAction, "unknown action %s", excerpt(string(action)))
	}
}

// knownAction returns the Action constant that text is, or "".
func knownAction(text []byte) string {
	switch string(text) {
	case ActionJoin:
		return ActionJoin
	case ActionLeave:
		return ActionLeave
	case ActionUsers:
		return ActionUsers
	case ActionWatch:
		return ActionWatch
	case ActionUnwatch:
		return ActionUnwatch
	case ActionAuth:
		return ActionAuth
	}
	return ""
}

// text returns the string that a field's value stands for, valid until the next call.
func (d *decoder) text(f field, value jsontext.Value) (text []byte, ok bool) {
	if value.Kind() != jsontext.KindString {
		d.bad(fieldNames[f] + ": must be a string, not " + kindName(value.Kind()))
		return nil, false
	}
	if text, ok = d.unquote(value); !ok {
		d.bad(fieldNames[f] + ": not valid UTF-8")
	}
	return text, ok
}

// unquote returns what a JSON string stands for. It reports false for bytes that are not UTF-8
// and for half of a surrogate pair, with U+FFFD in their place.
func (d *decoder) unquote(quoted jsontext.Value) (text []byte, ok bool) {
	text, err := jsontext.AppendUnquote(d.scratch[:0], quoted)
	d.scratch = text
	return text, err == nil
}

// number reads a whole number from 0 to limit, written in digits only. It refuses 1.0 and 1e3,
// because not every JSON reader holds them as whole numbers.
func (d *decoder) number(f field, value jsontext.Value, limit int64) (n int64, ok bool) {
	got := kindName(value.Kind())
	if value.Kind() == jsontext.KindNumber {
		if n, ok = digits(value, limit); ok {
			return n, true
		}
		got = shorten(string(value))
	}
	d.bad(fieldNames[f] + ": must be a whole number from 0 to " +
		strconv.FormatInt(limit, 10) + ", not " + got)
	return 0, false
}

func digits(raw []byte, limit int64) (n int64, ok bool) {
	for _, c := range raw {
		if c < '0' || c > '9' {
			return 0, false
		}
		// limit is at most MaxID, so n cannot overflow before it is found too large.
		if n = n*10 + int64(c-'0'); n > limit {
			return 0, false
		}
	}
	return n, true
}

// bad keeps the first fault of a known field.
func (d *decoder) bad(message string) {
	if d.badMember == nil {
		d.badMember = NewError(CodeBadRequest, "%s", message)
	}
}

// excerptLen is how many characters of a client's text an error message repeats.
const excerptLen = 32

// excerpt quotes the beginning of a client's text, with control characters escaped.
func excerpt(s string) string { return strconv.Quote(shorten(s)) }

func shorten(s string) string {
	count := 0
	for i := range s {
		if count == excerptLen {
			return s[:i] + "…"
		}
		count++
	}
	return s
}

func kindName(kind jsontext.Kind) string {
	switch kind {
	case jsontext.KindNull:
		return "null"
	case jsontext.KindTrue, jsontext.KindFalse:
		return "true or false"
	case jsontext.KindString:
		return "a string"
	case jsontext.KindNumber:
		return "a number"
	case jsontext.KindBeginObject:
		return "an object"
	case jsontext.KindBeginArray:
		return "an array"
	}
	return "something else"
}
