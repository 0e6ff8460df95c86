package room

import (
	"fmt"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"
	"golang.org/x/text/unicode/norm"
)

// Limits of names.
const (
	MaxIDLength   = 64 // characters of a room's id
	MaxUserLength = 64 // characters (code points) of a user's name in NFC

	maxSession = 64
	// maxUserBytes bounds the work of normalizing. No name of MaxUserLength code points is longer in an accepted form.
	maxUserBytes = 16 * MaxUserLength

	// maxMarks is how many combining marks Unicode's Stream-Safe Text Format (UAX #15) allows in a row. Package norm
	// breaks longer rows with a joiner, which would change the name.
	maxMarks = 30
	joiner   = "\u034f" // combining grapheme joiner
)

// CheckID returns an [InvalidError] unless id is 1 to 64 of A-Z a-z 0-9 . _ -, and not "." or "..", which mean
// something else in a URL.
func CheckID(id string) error {
	bad := strings.IndexFunc(id, func(c rune) bool { return !isNameRune(c) })
	switch {
	case !utf8.ValidString(id):
		return &InvalidError{"room", "is not valid UTF-8"}
	case bad >= 0:
		c, _ := utf8.DecodeRuneInString(id[bad:])
		return invalid("room", "may hold only A-Z a-z 0-9 . _ -, not %q", c)
	case id == "." || id == "..":
		return invalid("room", "may not be %q", id)
	case len(id) < 1 || len(id) > MaxIDLength:
		return invalid("room", "must be 1 to %d characters long, not %d", MaxIDLength, len(id))
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
		return "", invalid("user", "must be 1 to %d characters long, not %d",
			MaxUserLength, utf8.RuneCountInString(name))
	}
	typed := name
	name = norm.NFC.String(name)
	if strings.Count(name, joiner) != strings.Count(typed, joiner) {
		return "", invalid("user", "may not hold more than %d combining marks in a row", maxMarks)
	}
	if n := utf8.RuneCountInString(name); n < 1 || n > MaxUserLength {
		return "", invalid("user", "must be 1 to %d characters long, not %d", MaxUserLength, n)
	}
	for _, r := range name {
		if unicode.IsControl(r) {
			return "", invalid("user", "may not hold the control character %U", r)
		}
	}
	return name, nil
}

// checkSession returns the acting user's name in its normal form. It fails if the name or the session is invalid.
func checkSession(user, session string) (normal string, err error) {
	if normal, err = ParseUser(user); err != nil {
		return "", err
	}
	return normal, checkSessionID(session)
}

// checkActor is checkSession for actions that authority can do without a session: then user and session are empty.
func checkActor(user, session string) (normal string, err error) {
	if user == "" && session == "" {
		return "", nil
	}
	return checkSession(user, session)
}

func checkSessionID(id string) error {
	if id == "" || len(id) > maxSession {
		return invalid("session", "must be 1 to %d bytes long, not %d", maxSession, len(id))
	}
	return nil
}

// parseUsers returns names in their normal form. It fails unless they are 1 to MaxGroup different ones.
func parseUsers(field string, names []string) ([]string, error) {
	if len(names) < 1 || len(names) > MaxGroup {
		return nil, invalid(field, "must name 1 to %d users, not %d", MaxGroup, len(names))
	}
	users, seen := make([]string, len(names)), make(map[string]bool, len(names))
	for i, name := range names {
		user, err := ParseUser(name)
		if err != nil {
			return nil, &InvalidError{fmt.Sprintf("%s[%d]", field, i), err.(*InvalidError).Problem}
		}
		if seen[user] {
			return nil, invalid(field, "names %s twice", user)
		}
		users[i], seen[user] = user, true
	}
	return users, nil
}

// maxDepth limits the nesting of arrays and objects.
const maxDepth = 32

// parseData returns JSON without insignificant spaces, and "" for null or "". It fails with an [InvalidError] of that
// field for text that is no JSON or that not all readers understand alike (I-JSON, RFC 7493: unique names, and numbers
// that a double can hold), and for more than limit bytes or 32 levels.
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
	depth, number := scan(v)
	switch {
	case string(v) == "null":
		return "", nil
	case len(v) > limit:
		return "", tooLong(field, len(v), limit)
	case depth > maxDepth:
		return "", invalid(field, "must be at most %d levels deep, not %d", maxDepth, depth)
	case number != "":
		return "", invalid(field, "has the number %.32s, which not every JSON reader can hold; send it as a string",
			number)
	}
	return string(v), nil
}

func tooLong(field string, size, limit int) error {
	return invalid(field, "must be at most %d bytes long, not %d", limit, size)
}

// scan returns how deep valid JSON is nested, and its first number that not every reader holds alike, "" for none. Most
// readers hold numbers as doubles (RFC 8259, section 6).
func scan(text []byte) (deepest int, strange string) {
	depth, quoted := 0, false
	for i := 0; i < len(text); i++ {
		switch c := text[i]; {
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
		case c == '-' || '0' <= c && c <= '9':
			end := i + 1
			for end < len(text) && strings.IndexByte("+-.eE0123456789", text[end]) >= 0 {
				end++
			}
			if number := string(text[i:end]); strange == "" && !fitsDouble(number) {
				strange = number
			}
			i = end - 1
		}
	}
	return deepest, strange
}

// exactDigits is how many digits of any whole number a double holds.
const exactDigits = 15

// fitsDouble reports whether a double holds a number well enough: it does not overflow or become zero, and a whole
// number without point or exponent loses no digit.
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
