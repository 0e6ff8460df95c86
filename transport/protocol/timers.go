package protocol

import (
	"maps"
	"slices"
	"strconv"

	"github.com/go-json-experiment/json/jsontext"

	"roomd/room"
)

// Timers are the times that a room's timers have left, in ms, by name. In JSON they are an object.
type Timers map[string]int64

// TimersOf returns timers as clients see them at now, by the nodes' clock in ms since 1970; nil for none.
func TimersOf(t *room.Timers, now int64) Timers {
	if t.Len() == 0 {
		return nil
	}
	left := make(Timers, t.Len())
	for name, timer := range t.ByName {
		left[name] = max(0, timer.Due-now)
	}
	return left
}

func appendTimers(dst []byte, timers Timers) []byte {
	if len(timers) == 0 {
		return dst
	}
	dst = append(dst, `,"timers":{`...)
	for i, name := range slices.Sorted(maps.Keys(timers)) {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = strconv.AppendInt(append(appendString(dst, name), ':'), timers[name], 10)
	}
	return append(dst, '}')
}

// appendIn writes the time until a timer fires, in ms, or null.
func appendIn(dst []byte, in *int64) []byte {
	if in == nil {
		return append(dst, "null"...)
	}
	return strconv.AppendInt(dst, *in, 10)
}

func appendThen(dst []byte, then *room.Effect) []byte {
	switch {
	case then == nil:
		return append(dst, "null"...)
	case then.Close:
		return append(dst, `{"close":true}`...)
	case then.Data != nil:
		return append(append(append(dst, `{"data":`...), then.Data...), '}')
	}
	return append(appendString(append(dst, `{"kick":`...), then.Kick), '}')
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
