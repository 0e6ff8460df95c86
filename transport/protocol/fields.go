package protocol

import (
	"bytes"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"roomd/room"
)

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
	switch f {
	case fieldUnknown:
		return d.json.SkipValue()
	case fieldTo, fieldUsers:
		err = d.readUsers(f)
	case fieldSettings:
		err = d.readSettings()
	case fieldThen:
		err = d.readThen()
	case fieldActions:
		err = d.readActions()
	default:
		var value jsontext.Value
		if value, err = d.json.ReadValue(); err == nil {
			d.readField(f, value)
		}
	}
	d.seen |= 1 << f
	return err
}

// readField reads the value of a field that is a number, a string, a boolean or data.
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
		*in, wrong = optional[int](value, row.most)
	case **int64:
		if value.Kind() != jsontext.KindNull {
			if n, wrong = number(value, row.least, row.most); wrong != "" {
				wrong += "; null cancels the timer"
			}
			*in = new(n)
		}
	case **uint64:
		*in, wrong = optional[uint64](value, row.most)
	case *bool:
		*in, wrong = truth(value)
	case *JSON:
		*in, wrong = data(value)
	case *room.Labels:
		*in, wrong = labels(value)
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

// readParts reads an object, and calls member for its members. It fails only where the JSON is broken.
func (d *decoder) readParts(f field, member func(name string, valid bool, value jsontext.Value)) error {
	if kind := d.json.PeekKind(); kind != jsontext.KindBeginObject {
		d.bad(f, "must be an object, not "+kindName(kind))
		return d.json.SkipValue()
	}
	_, err := d.json.ReadToken()
	for err == nil && d.json.PeekKind() != jsontext.KindEndObject {
		var raw, value jsontext.Value
		if raw, err = d.json.ReadValue(); err != nil {
			return err
		}
		unquoted, valid := d.unquote(raw)
		name := string(unquoted)
		if value, err = d.json.ReadValue(); err == nil {
			member(name, valid, value)
		}
	}
	if err == nil {
		_, err = d.json.ReadToken()
	}
	return err
}

func labels(value jsontext.Value) (l room.Labels, wrong string) {
	if json.Unmarshal(value, &l) != nil || value.Kind() != jsontext.KindBeginObject {
		wrong = "must be an object whose values are strings, each name once"
	}
	return l, wrong
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

// delimited reports whether a comma or brace follows the last value: the 0 that the decoder reads of 01 is no id.
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
		d.badName = NewError(CodeBadRequest, "%s", badName(string(name), ok, fieldSet(1<<fieldUnknown-1).names()))
	}
	return fieldUnknown
}

func badName(name string, valid bool, known []string) string {
	if !valid {
		return "a field's name is not valid UTF-8: " + excerpt(name)
	}
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
func (d *decoder) bad(f field, wrong string) { d.badAt(f, f.name(), wrong) }

// badAt is bad for a part of the field.
func (d *decoder) badAt(f field, place, wrong string) {
	kept := &d.badOther
	if f <= fieldRoom {
		kept = &d.badCommon
	}
	if *kept == nil {
		*kept = NewError(CodeBadRequest, "%s: %s", place, wrong)
	}
}
