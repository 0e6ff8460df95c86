package protocol

import (
	"strconv"

	"github.com/go-json-experiment/json/jsontext"
)

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
