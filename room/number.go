package room

import (
	"strconv"
	"strings"
)

// strangeNumber returns the first number in valid JSON that not every reader holds alike, "" if there
// is none. Most readers hold numbers as doubles (RFC 8259, section 6).
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

// exactDigits is how many digits of a whole number a double holds in any case.
const exactDigits = 15

// fitsDouble reports whether a double holds a number but for the rounding of a fraction: it is not too
// large, is not zero only because it is so small, and no digit before its point gets lost.
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
	case whole: // as it is, or with zeros behind the digits that count, as JavaScript writes it
		return strconv.FormatFloat(f, 'f', 0, 64) == number || strconv.FormatFloat(f, 'f', -1, 64) == number
	}
	return true
}
