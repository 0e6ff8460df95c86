package protocol

import (
	"slices"
	"strconv"
)

// requestSize is about how long a request without data is, in bytes.
const requestSize = 80

// AppendRequest appends r to dst as one JSON object and returns the longer slice. It writes what
// its action requires and what is set, and does not check r: [DecodeRequest] does. Data must be
// JSON, and empty stands for null. Other bytes that are not UTF-8 are written as U+FFFD.
func AppendRequest(dst []byte, r *Request) []byte {
	dst = append(slices.Grow(dst, requestSize+len(r.Data)), `{"id":`...)
	dst = strconv.AppendInt(dst, r.ID, 10)
	dst = append(dst, `,"action":`...)
	dst = appendString(dst, r.Action)
	written := r.fields()
	if form := formOf(r.Action); form != nil {
		written |= form.required
	}
	for f := fieldRoom; f < fieldUnknown; f++ {
		if written.has(f) {
			dst = append(dst, `,"`...)
			dst = append(dst, fieldNames[f]...)
			dst = append(dst, `":`...)
			dst = r.appendField(dst, f)
		}
	}
	return append(dst, '}')
}

// fields returns which fields behind the action are set.
func (r *Request) fields() (set fieldSet) {
	for _, f := range [...]struct {
		field field
		isSet bool
	}{
		{fieldRoom, r.Room != ""},
		{fieldToken, r.Token != ""},
		{fieldSeat, r.Seat != nil},
		{fieldValue, r.Value},
		{fieldUser, r.User != ""},
		{fieldScope, r.Scope != ""},
		{fieldSettings, r.Settings != nil},
		{fieldText, r.Text != ""},
		{fieldData, r.Data != ""},
		{fieldTo, r.To != nil},
		{fieldBan, r.Ban != 0},
		{fieldExpect, r.Expect != nil},
		{fieldEpoch, r.Epoch != ""},
	} {
		if f.isSet {
			set |= 1 << f.field
		}
	}
	return set
}

// appendField writes the value of a field.
func (r *Request) appendField(dst []byte, f field) []byte {
	switch f {
	case fieldRoom:
		return appendString(dst, r.Room)
	case fieldToken:
		return appendString(dst, r.Token)
	case fieldSeat:
		return strconv.AppendInt(dst, int64(*r.Seat), 10)
	case fieldValue:
		return strconv.AppendBool(dst, r.Value)
	case fieldUser:
		return appendString(dst, r.User)
	case fieldScope:
		return appendString(dst, r.Scope)
	case fieldSettings:
		return appendSettings(dst, r.Settings)
	case fieldText:
		return appendString(dst, r.Text)
	case fieldData:
		return appendJSON(dst, r.Data)
	case fieldTo:
		return appendStrings(dst, r.To)
	case fieldBan:
		return strconv.AppendInt(dst, int64(r.Ban), 10)
	case fieldExpect:
		return strconv.AppendUint(dst, *r.Expect, 10)
	default:
		return appendString(dst, r.Epoch)
	}
}
