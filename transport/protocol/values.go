package protocol

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
)

// Each of these functions reads a value. wrong is its fault, or "".

func (d *decoder) text(value jsontext.Value) (text, wrong string) {
	unquoted, wrong := d.textBytes(value)
	return string(unquoted), wrong
}

// textBytes is text with a result that is valid until the next call.
func (d *decoder) textBytes(value jsontext.Value) (text []byte, wrong string) {
	if value.Kind() != jsontext.KindString {
		return nil, "must be a string, not " + kindName(value.Kind())
	}
	text, ok := d.unquote(value)
	if !ok {
		return nil, "not valid UTF-8"
	}
	return text, ""
}

// unquote returns the content of a JSON string, valid until the next call. It reports false for bytes that are not
// UTF-8 and for half of a surrogate pair, with U+FFFD in their place.
func (d *decoder) unquote(quoted jsontext.Value) (text []byte, ok bool) {
	text, err := jsontext.AppendUnquote(d.scratch[:0], quoted)
	d.scratch = text
	return text, err == nil
}

// choice reads one of the names.
func (d *decoder) choice(value jsontext.Value, names ...string) (text, wrong string) {
	if text, wrong = d.text(value); wrong == "" && !slices.Contains(names, text) {
		return "", fmt.Sprintf("must be \"%s\", not %s", strings.Join(names, `" or "`), excerpt(text))
	}
	return text, wrong
}

func truth(value jsontext.Value) (is bool, wrong string) {
	switch value.Kind() {
	case jsontext.KindTrue, jsontext.KindFalse:
		return value.Kind() == jsontext.KindTrue, ""
	}
	return false, "must be true or false, not " + kindName(value.Kind())
}

// number reads a whole number from least to most. It refuses 1.0 and 1e3: not every JSON reader takes them for whole.
func number(value jsontext.Value, least, most int64) (n int64, wrong string) {
	got := kindName(value.Kind())
	if value.Kind() == jsontext.KindNumber {
		if n, ok := digits(value, most); ok && n >= least {
			return n, ""
		}
		got = shorten(string(value))
	}
	return 0, fmt.Sprintf("must be a whole number from %d to %d, not %s", least, most, got)
}

// optional reads a whole number from 0 to most for a field that may be nil.
func optional[T int | uint64](value jsontext.Value, most int64) (*T, string) {
	n, wrong := number(value, 0, most)
	if wrong != "" {
		return nil, wrong
	}
	return new(T(n)), ""
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

// data reads any value. It refuses what tolerant let pass, and other readers could understand differently.
func data(value jsontext.Value) (text JSON, wrong string) {
	switch {
	case value.IsValid():
		return JSON(value), ""
	case value.IsValid(jsontext.AllowDuplicateNames(true)):
		return "", "an object in it has a name twice"
	}
	return "", "not valid UTF-8"
}

// readUsers reads an array of different users. It fails only where the JSON is broken.
func (d *decoder) readUsers(f field) error {
	users := fieldTable[f].in(&d.req).(*[]string)
	*users = []string{}
	return d.readArray(f, "users", func(_ int64, value jsontext.Value) { d.readUser(f, users, value) })
}

func (d *decoder) readActions() error {
	return d.readArray(fieldActions, "actions", func(i int64, value jsontext.Value) {
		part, wrong := decodePart(value)
		if wrong != nil {
			d.badAt(fieldActions, fmt.Sprintf("actions[%d]", i), wrong.Message)
		}
		d.req.Actions = append(d.req.Actions, part)
	})
}

// readArray reads an array, and calls each for as many values as allowed. It fails only where the JSON is broken.
func (d *decoder) readArray(f field, what string, each func(i int64, value jsontext.Value)) error {
	if kind := d.json.PeekKind(); kind != jsontext.KindBeginArray {
		d.bad(f, "must be an array of "+what+", not "+kindName(kind))
		return d.json.SkipValue()
	}
	row := &fieldTable[f]
	_, err := d.json.ReadToken()
	count := int64(0)
	for ; err == nil && d.json.PeekKind() != jsontext.KindEndArray; count++ {
		var value jsontext.Value
		if value, err = d.json.ReadValue(); err == nil && count < row.most {
			each(count, value)
		}
	}
	if err != nil {
		return err
	}
	if count < row.least || count > row.most {
		d.bad(f, fmt.Sprintf("must have %s %s, not %d", row.span(), what, count))
	}
	_, err = d.json.ReadToken()
	return err
}

func (d *decoder) readUser(f field, users *[]string, value jsontext.Value) {
	user, wrong := d.text(value)
	if wrong == "" && slices.Contains(*users, user) {
		wrong = "has user " + excerpt(user) + " twice"
		d.bad(f, wrong)
		return
	}
	if wrong != "" {
		d.badAt(f, f.name()+"["+strconv.Itoa(len(*users))+"]", wrong)
	}
	*users = append(*users, user)
}
