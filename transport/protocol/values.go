package protocol

import (
	"bytes"
	"iter"

	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"roomd/room"
)

// Each of these functions reads a value. wrong is its fault, or "".

func (d *decoder) text(value jsontext.Value) (text, wrong string) {
	unquoted, wrong := d.textBytes(value)
	return string(unquoted), wrong
}

// textBytes is text, but its result is valid only until d reads another string.
func (d *decoder) textBytes(value jsontext.Value) (text []byte, wrong string) {
	if value.Kind() != jsontext.KindString {
		return nil, "must be a string, not " + kindNames[value.Kind()]
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

// choice reads a string that has to be one of names.
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
	return false, "must be true or false, not " + kindNames[value.Kind()]
}

// number reads a whole number from least to most. It refuses 1.0 and 1e3: not every JSON reader takes them for whole.
func number(value jsontext.Value, least, most int64) (n int64, wrong string) {
	got := kindNames[value.Kind()]
	if value.Kind() == jsontext.KindNumber {
		if n, ok := digits(value, most); ok && n >= least {
			return n, ""
		}
		got = Shorten(string(value))
	}
	return 0, fmt.Sprintf("must be a whole number from %d to %d, not %s", least, most, got)
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

// data reads any value. It refuses repeated names and bad UTF-8, which the option tolerant lets pass.
func data(value jsontext.Value) (text JSON, wrong string) {
	switch {
	case value.IsValid():
		return JSON(value), ""
	case value.IsValid(jsontext.AllowDuplicateNames(true)):
		return "", "an object in it has a name twice"
	}
	return "", "not valid UTF-8"
}

func labels(value jsontext.Value) (l room.Labels, wrong string) {
	if json.Unmarshal(value, &l) != nil || value.Kind() != jsontext.KindBeginObject {
		wrong = "must be an object whose values are strings, each name once"
	}
	return l, wrong
}

// Each of these methods reads a value with parts, and records their faults.

// users reads an array of users. A repeated one is a fault.
func (d *decoder) users(f field, value jsontext.Value) []string {
	users := []string{}
	for i, element := range d.elements(f, "users", value) {
		user, wrong := d.text(element)
		switch {
		case wrong != "":
			d.badAt(f, fmt.Sprintf("[%d]", i), wrong)
		case slices.Contains(users, user):
			d.bad(f, "has user "+excerpt(user)+" twice")
		}
		users = append(users, user)
	}
	return users
}

func (d *decoder) parts(value jsontext.Value) (parts []Request) {
	for i, element := range d.elements(fieldActions, "actions", value) {
		part, err := decodePart(element)
		if err != nil {
			d.badAt(fieldActions, fmt.Sprintf("[%d]", i), err.Message)
		}
		parts = append(parts, part)
	}
	return parts
}

// elements returns the elements of an array, or none if their number is not allowed. what is the word for them in a
// fault.
func (d *decoder) elements(f field, what string, value jsontext.Value) (list []jsontext.Value) {
	if value.Kind() != jsontext.KindBeginArray {
		d.bad(f, "must be an array of "+what+", not "+kindNames[value.Kind()])
		return nil
	}
	_ = json.Unmarshal(value, &list, tolerant) // it is valid JSON
	if row, n := &fieldTable[f], int64(len(list)); n < row.least || n > row.most {
		d.bad(f, fmt.Sprintf("must have %s %s, not %d", row.span(), what, n))
		return nil
	}
	return list
}

func (d *decoder) settings(value jsontext.Value) *room.Settings {
	s, seen := new(room.Settings), fieldSet(0)
	for name, value := range d.members(fieldSettings, value) {
		which := slices.IndexFunc(room.SettingFields, func(f room.Setting) bool { return f.Name == name })
		if which < 0 {
			d.bad(fieldSettings, badName(name, settingNames()))
			continue
		}
		wrong := "given twice"
		if !seen.has(field(which)) {
			wrong = d.setting(s, room.SettingFields[which], value)
		}
		seen |= 1 << which
		if wrong != "" {
			d.badAt(fieldSettings, "."+name, wrong)
		}
	}
	return s
}

func (d *decoder) setting(s *room.Settings, f room.Setting, value jsontext.Value) (wrong string) {
	switch into := f.In(s).(type) {
	case *int:
		var n int64
		n, wrong = number(value, 0, int64(f.Most))
		*into = int(n)
	case *bool:
		*into, wrong = truth(value)
	case *room.Grace:
		var n int64
		n, wrong = number(value, 0, int64(f.Most))
		*into = room.NewGrace(n)
	case *room.Labels:
		*into, wrong = labels(value)
	case *room.Choice:
		var name string
		if name, wrong = d.choice(value, f.Values...); name != f.Values[0] { // else it is the default
			*into = room.Choice(name)
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

// effect reads the effect of a timer: an object with one field.
func (d *decoder) effect(value jsontext.Value) *room.Effect {
	then, fields := new(room.Effect), 0
	for name, value := range d.members(fieldThen, value) {
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
			d.bad(fieldThen, badName(name, []string{"close", "kick", "data"}))
		}
		if wrong != "" {
			d.badAt(fieldThen, "."+name, wrong)
		}
	}
	if fields != 1 {
		d.bad(fieldThen, "must have one of close, kick and data")
	}
	return then
}

// members yields the members of an object whose names are valid UTF-8. Other names are faults, as is another value.
func (d *decoder) members(f field, value jsontext.Value) iter.Seq2[string, jsontext.Value] {
	return func(yield func(string, jsontext.Value) bool) {
		if value.Kind() != jsontext.KindBeginObject {
			d.bad(f, "must be an object, not "+kindNames[value.Kind()])
			return
		}
		in := jsontext.NewDecoder(bytes.NewBuffer(value), tolerant)
		_, _ = in.ReadToken() // it is valid JSON
		for in.PeekKind() != jsontext.KindEndObject {
			raw, _ := in.ReadValue()
			unquoted, valid := d.unquote(raw)
			name := string(unquoted)
			member, _ := in.ReadValue()
			if !valid {
				d.bad(f, badUTF8+excerpt(name))
			} else if !yield(name, member) {
				return
			}
		}
	}
}

// excerptLen is how many characters of a client's text an error message repeats.
const excerptLen = 32

// excerpt quotes the beginning of a client's text, with control characters escaped.
func excerpt(s string) string { return strconv.Quote(Shorten(s)) }

// Shorten returns the beginning of a client's text, at most 32 characters and an ellipsis.
func Shorten(s string) string {
	count := 0
	for i := range s {
		if count == excerptLen {
			return s[:i] + "…"
		}
		count++
	}
	return s
}

// kindNames describe the kinds of JSON for people.
var kindNames = map[jsontext.Kind]string{
	jsontext.KindNull: "null", jsontext.KindTrue: "true or false", jsontext.KindFalse: "true or false",
	jsontext.KindString: "a string", jsontext.KindNumber: "a number",
	jsontext.KindBeginObject: "an object", jsontext.KindBeginArray: "an array",
}
