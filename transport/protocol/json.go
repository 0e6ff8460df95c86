package protocol

import (
	"encoding/json"

	"github.com/go-json-experiment/json/jsontext"
)

// JSON is a JSON text as it was sent, such as the data of a room. Empty means none. Its own JSON form is that text.
type JSON string

// MarshalJSON returns the text, or null if there is none.
func (j JSON) MarshalJSON() ([]byte, error) { return appendJSON(nil, j), nil }

// UnmarshalJSON keeps the text.
func (j *JSON) UnmarshalJSON(text []byte) error {
	*j = JSON(text)
	return nil
}

// Decode stores the value of the text in v, as [json.Unmarshal] does. An empty text is null.
func (j JSON) Decode(v any) error { return json.Unmarshal(appendJSON(nil, j), v) }

// appendJSON writes a text as it is, null if it is empty.
func appendJSON(dst []byte, j JSON) []byte {
	if j == "" {
		return append(dst, "null"...)
	}
	return append(dst, j...)
}

// appendString quotes s with the fewest escapes JSON allows: Chinese and emoji stay as they are.
func appendString(dst []byte, s string) []byte {
	// The error only says that bad UTF-8 was replaced; the frame is valid.
	dst, _ = jsontext.AppendQuote(dst, s)
	return dst
}

func appendStrings(dst []byte, list []string) []byte {
	dst = append(dst, '[')
	for i, s := range list {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = appendString(dst, s)
	}
	return append(dst, ']')
}
