package room

import (
	"bytes"
	"cmp"
	"fmt"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
)

// Value is JSON that users have set, as stored in Redis. It does not change. Nil is a value that was never set.
type Value struct {
	Version uint64         `json:"version"`        // of the room when it was set
	JSON    jsontext.Value `json:"value,omitzero"` // nil if it was removed
}

// String returns the JSON, "" for none.
func (v *Value) String() string {
	if v == nil {
		return ""
	}
	return string(v.JSON)
}

// equals reports whether both have the same JSON and version.
func (v *Value) equals(other *Value) bool {
	return v.String() == other.String() && v.since() == other.since()
}

// after returns the value after it was set at that version. Nil and null remove it.
func (v *Value) after(now jsontext.Value, version uint64) *Value {
	if now.Kind() == jsontext.KindNull {
		now = nil
	}
	if v == nil && now == nil || v != nil && bytes.Equal(v.JSON, now) {
		return v
	}
	return &Value{version, bytes.Clone(now)}
}

// since returns the version at which the value was last set, 0 for never.
func (v *Value) since() uint64 {
	if v == nil {
		return 0
	}
	return v.Version
}

// maxDepth limits the nesting of arrays and objects.
const maxDepth = 32

// parseData returns JSON without insignificant spaces, and "" for null or "". It fails with an [InvalidError] of that
// field for JSON that not all readers understand alike (I-JSON, RFC 7493: unique names, and numbers that a double can
// hold), and for more than limit bytes or 32 levels.
func parseData(field, text string, limit int) (string, error) {
	if len(text) > 2*limit+16 { // spaces are allowed, but not without limit
		return "", tooLong(field, len(text), limit)
	}
	if text == "" {
		return "", nil
	}
	v := jsontext.Value(text)
	if err := v.Compact(); err != nil || !v.IsValid() {
		return "", &InvalidError{field, "is not valid JSON in UTF-8 whose objects have each name once"}
	}
	switch depth := depthOf(v); {
	case string(v) == "null":
		return "", nil
	case len(v) > limit:
		return "", tooLong(field, len(v), limit)
	case depth > maxDepth:
		return "", &InvalidError{field, fmt.Sprintf("must be at most %d levels deep, not %d", maxDepth, depth)}
	}
	if number := strangeNumber(v); number != "" {
		return "", &InvalidError{field, fmt.Sprintf("has the number %.32s, which not every JSON reader can hold; send it as a string", number)}
	}
	return string(v), nil
}

func tooLong(field string, size, limit int) error {
	return &InvalidError{field, fmt.Sprintf("must be at most %d bytes long, not %d", limit, size)}
}

func depthOf(v jsontext.Value) (deepest int) {
	depth, quoted := 0, false
	for i := 0; i < len(v); i++ {
		switch c := v[i]; {
		case quoted && c == '\\':
			i++
		case c == '"':
			quoted = !quoted
		case quoted:
		case c == '{' || c == '[':
			depth++
			deepest = max(deepest, depth)
		case c == '}' || c == ']':
			depth--
		}
	}
	return deepest
}

// jsonOfMember returns JSON for an update of a member, in which null is none.
func jsonOfMember(text string) jsontext.Value { return jsontext.Value(cmp.Or(text, "null")) }

// jsonOf returns JSON for an update, nil for "".
func jsonOf(text string) jsontext.Value {
	if text == "" {
		return nil
	}
	return jsontext.Value(text)
}

// strangeNumber returns the first number in valid JSON that not every reader holds alike, "" for none. Most readers
// hold numbers as doubles (RFC 8259, section 6).
func strangeNumber(text []byte) string {
	quoted := false
	for i := 0; i < len(text); i++ {
		switch c := text[i]; {
		case quoted && c == '\\':
			i++
		case c == '"':
			quoted = !quoted
		case !quoted && (c == '-' || '0' <= c && c <= '9'):
			end := i + 1
			for end < len(text) && strings.IndexByte("+-.eE0123456789", text[end]) >= 0 {
				end++
			}
			if number := string(text[i:end]); !fitsDouble(number) {
				return number
			}
			i = end - 1
		}
	}
	return ""
}

// exactDigits is how many digits of any whole number a double holds.
const exactDigits = 15

// fitsDouble reports whether a double holds a number up to the rounding of a fraction: it does not overflow or become
// zero, and no digit before the point is lost.
func fitsDouble(number string) bool {
	whole := !strings.ContainsAny(number, ".eE")
	if whole && len(number) <= exactDigits {
		return true
	}
	f, err := strconv.ParseFloat(number, 64)
	mantissa, _, _ := strings.Cut(strings.ToLower(number), "e")
	switch {
	case err != nil, f == 0 && strings.ContainsAny(mantissa, "123456789"):
		return false
	case whole: // exact, or with zeros after the significant digits, as JavaScript writes numbers
		return strconv.FormatFloat(f, 'f', 0, 64) == number || strconv.FormatFloat(f, 'f', -1, 64) == number
	}
	return true
}
