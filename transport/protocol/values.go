package protocol

import (
	"encoding"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"roomd/room"
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

// readSettings reads the settings of a configure or a match. It fails only where the JSON is broken.
func (d *decoder) readSettings() error {
	d.req.Settings = new(room.Settings)
	seen := fieldSet(0)
	return d.readParts(fieldSettings, func(name string, valid bool, value jsontext.Value) {
		which := slices.IndexFunc(room.SettingFields, func(f room.Setting) bool { return f.Name == name })
		if which < 0 || !valid {
			d.bad(fieldSettings, badName(name, valid, settingNames()))
			return
		}
		wrong := "given twice"
		if !seen.has(field(which)) {
			wrong = d.setting(room.SettingFields[which], value)
		}
		seen |= 1 << which
		if wrong != "" {
			d.badAt(fieldSettings, "settings."+name, wrong)
		}
	})
}

func (d *decoder) setting(f room.Setting, value jsontext.Value) (wrong string) {
	switch into := f.In(d.req.Settings).(type) {
	case *int:
		var n int64
		n, wrong = number(value, 0, int64(f.Most))
		*into = int(n)
	case *bool:
		*into, wrong = truth(value)
	case *room.Labels:
		*into, wrong = labels(value)
	case encoding.TextUnmarshaler:
		var name string
		if name, wrong = d.choice(value, f.Values...); wrong == "" {
			_ = into.UnmarshalText([]byte(name)) // any text is valid here
		}
	}
	return wrong
}

func settingNames() (names []string) {
	for _, f := range room.SettingFields {
		names = append(names, f.Name)
	}
	return names
}

// readThen reads the effect of a timer: an object with one field. It fails only where the JSON is broken.
func (d *decoder) readThen() error {
	then := new(room.Effect)
	d.req.Then = then
	fields := 0
	err := d.readParts(fieldThen, func(name string, valid bool, value jsontext.Value) {
		fields++
		var wrong string
		switch name {
		case "close":
			if then.Close, wrong = truth(value); wrong == "" && !then.Close {
				wrong = "must be true"
			}
		case "kick":
			if then.Kick, wrong = d.text(value); wrong == "" && then.Kick == "" {
				wrong = "must not be empty"
			}
		case "data":
			var text JSON
			text, wrong = data(value)
			then.Data = jsontext.Value(text)
		default:
			d.bad(fieldThen, badName(name, valid, []string{"close", "kick", "data"}))
		}
		if wrong != "" {
			d.badAt(fieldThen, "then."+name, wrong)
		}
	})
	if fields != 1 {
		d.bad(fieldThen, "must have one of close, kick and data")
	}
	return err
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
