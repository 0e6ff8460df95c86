package protocol

import (
	"math/bits"
	"strings"
)

// field is a member of a request's object.
type field int

const (
	fieldID field = iota
	fieldAction
	fieldRoom
	fieldToken
	fieldSeat
	fieldValue
	fieldUser
	fieldScope
	fieldSettings
	fieldText
	fieldData
	fieldTo
	fieldBan
	fieldExpect
	fieldEpoch
	fieldUnknown
)

// fieldNames is in the order of the field constants, fieldUnknown left out.
var fieldNames = [...]string{
	"id", "action", "room", "token", "seat", "value", "user", "scope", "settings", "text", "data", "to", "ban", "expect", "epoch",
}

// fieldSet holds a bit for each field in it.
type fieldSet uint

func setOf(fields ...field) (set fieldSet) {
	for _, f := range fields {
		set |= 1 << f
	}
	return set
}

func (s fieldSet) has(f field) bool { return s&(1<<f) != 0 }

// first returns the first field of a set that is not empty.
func (s fieldSet) first() field { return field(bits.TrailingZeros(uint(s))) }

// form says which fields a request has, beside its id and action.
type form struct {
	action             string
	required, optional fieldSet
}

// forms has a form for each action. What goes with what beyond that, checkTogether says.
var forms = [...]form{
	{ActionJoin, setOf(fieldRoom), setOf(fieldSeat, fieldExpect, fieldEpoch)},
	{ActionLeave, setOf(fieldRoom), 0},
	{ActionUsers, setOf(fieldRoom), 0},
	{ActionWatch, setOf(fieldRoom), 0},
	{ActionUnwatch, setOf(fieldRoom), 0},
	{ActionReady, setOf(fieldRoom, fieldValue), 0},
	{ActionSet, setOf(fieldRoom, fieldData), setOf(fieldScope, fieldExpect, fieldEpoch)},
	{ActionSay, setOf(fieldRoom), setOf(fieldText, fieldData, fieldTo)},
	{ActionKick, setOf(fieldRoom, fieldUser), setOf(fieldText, fieldBan)},
	{ActionClose, setOf(fieldRoom), 0},
	{ActionConfigure, setOf(fieldRoom, fieldSettings), setOf(fieldExpect, fieldEpoch)},
	{ActionAuth, setOf(fieldToken), 0},
	{ActionPing, 0, 0},
}

// formOf returns the form of an action, nil if there is no such action.
func formOf[T string | []byte](action T) *form {
	for i := range forms {
		if forms[i].action == string(action) {
			return &forms[i]
		}
	}
	return nil
}

// check returns what is wrong with a request that has those fields: one that is missing goes
// first.
func (f *form) check(req *Request, seen fieldSet) *Error {
	if missing := f.required &^ seen; missing != 0 {
		return required(missing.first())
	}
	known := f.required | f.optional | setOf(fieldID, fieldAction)
	if foreign := seen &^ known; foreign != 0 {
		return f.refuse(foreign.first())
	}
	return checkTogether(req, seen)
}

func required(f field) *Error { return NewError(CodeBadRequest, "%s: required", fieldNames[f]) }

// refuse says that a field is foreign to the form.
func (f *form) refuse(foreign field) *Error {
	var others []string
	for _, other := range forms {
		if (other.required | other.optional).has(foreign) {
			others = append(others, other.action)
		}
	}
	if len(others) > len(forms)/2 {
		return NewError(CodeBadRequest, "%s: does not go with %s", fieldNames[foreign], f.action)
	}
	return NewError(CodeBadRequest, "%s: only goes with %s", fieldNames[foreign], strings.Join(others, " and "))
}

// checkTogether returns what is wrong with fields of which each alone is right.
func checkTogether(req *Request, seen fieldSet) *Error {
	if seen.has(fieldEpoch) && !seen.has(fieldExpect) {
		return NewError(CodeBadRequest, "epoch: only goes with expect")
	}
	if req.Action != ActionSay {
		return nil
	}
	switch text, data := seen.has(fieldText), seen.has(fieldData); {
	case text && data:
		return NewError(CodeBadRequest, "data: does not go with text")
	case !text && !data:
		return NewError(CodeBadRequest, "text: required, or data")
	case text && req.Text == "":
		return NewError(CodeBadRequest, "text: must not be empty")
	}
	return nil
}
