package room

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"
)

// Limits of names.
const (
	MaxIDLength   = 64 // characters of a room's id
	MaxUserLength = 64 // characters (code points) of a user's name in NFC

	maxSession = 64
	// No name of MaxUserLength code points is longer in any accepted normal form; it bounds the work of normalizing.
	maxUserBytes = 16 * MaxUserLength

	// maxMarks is how many combining marks Unicode's Stream-Safe Text Format (UAX #15) allows in a row. Package norm
	// breaks longer rows with a joiner, which would change the name.
	maxMarks = 30
	joiner   = "\u034f" // combining grapheme joiner
)

// CheckID returns an [InvalidError] unless id is 1 to 64 of A-Z a-z 0-9 . _ -, not "." or "..": URLs have no such
// parts.
func CheckID(id string) error {
	if !utf8.ValidString(id) {
		return &InvalidError{"room", "is not valid UTF-8"}
	}
	for _, c := range id {
		if !isNameRune(c) {
			return &InvalidError{"room", fmt.Sprintf("may hold only A-Z a-z 0-9 . _ -, not %q", c)}
		}
	}
	if id == "." || id == ".." {
		return &InvalidError{"room", fmt.Sprintf("may not be %q", id)}
	}
	if len(id) < 1 || len(id) > MaxIDLength {
		return &InvalidError{"room", fmt.Sprintf("must be 1 to %d characters long, not %d", MaxIDLength, len(id))}
	}
	return nil
}

func isNameRune(c rune) bool {
	return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '.' || c == '_' || c == '-'
}

// ParseUser returns name in Unicode's normal form C, so that the same name typed on two keyboards is the same user.
// It returns an [InvalidError] unless the result is valid UTF-8 of 1 to 64 characters (code points) without control
// characters, and with no more than 30 combining marks in a row.
func ParseUser(name string) (string, error) {
	switch {
	case !utf8.ValidString(name):
		return "", &InvalidError{"user", "is not valid UTF-8"}
	case len(name) > maxUserBytes:
		return "", &InvalidError{"user", fmt.Sprintf("must be 1 to %d characters long, not %d", MaxUserLength, utf8.RuneCountInString(name))}
	}
	typed := name
	name = norm.NFC.String(name)
	if strings.Count(name, joiner) != strings.Count(typed, joiner) {
		return "", &InvalidError{"user", fmt.Sprintf("may not hold more than %d combining marks in a row", maxMarks)}
	}
	if n := utf8.RuneCountInString(name); n < 1 || n > MaxUserLength {
		return "", &InvalidError{"user", fmt.Sprintf("must be 1 to %d characters long, not %d", MaxUserLength, n)}
	}
	for _, r := range name {
		if unicode.IsControl(r) {
			return "", &InvalidError{"user", fmt.Sprintf("may not hold the control character %U", r)}
		}
	}
	return name, nil
}
