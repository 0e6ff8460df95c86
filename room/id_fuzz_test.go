package room

import (
	"errors"
	"regexp"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"
)

func FuzzCheckID(f *testing.F) {
	for _, seed := range []string{"42", "", "A.b_c-9", "{42}", "a\n", "大厅", "\xff", ".", "..", "...", "a.", "a b", "a:b", "a\x00", "*", strings.Repeat("x", 64), strings.Repeat("x", 65)} {
		f.Add(seed)
	}
	valid := regexp.MustCompile(`\A[A-Za-z0-9._-]{1,64}\z`)
	f.Fuzz(func(t *testing.T, id string) {
		err := CheckID(id)
		if (err == nil) != (valid.MatchString(id) && id != "." && id != "..") {
			t.Errorf("%q: %v", id, err)
		}
		checkRefusal(t, err)
	})
}

// An accepted name is in normal form C, within the limits, means what was typed, and is
// accepted as it is.
func FuzzParseUser(f *testing.F) {
	for _, seed := range []string{
		"张三", "e\u0301", "🀄️ 👩‍👩‍👧", "", "a\x00", "\xff", "a\u034f\u0301", "\u1100\u1161\u11a8", "\u0344", "\U0001d15e\u0f73",
		strings.Repeat("\u0301", 31), "x" + strings.Repeat("\u0323\u0301", 15) + "y", strings.Repeat("张", 65), strings.Repeat("e\u0301", 64),
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, typed string) { checkName(t, typed) })
}

func checkName(t errorer, typed string) {
	name, err := ParseUser(typed)
	if err != nil {
		checkRefusal(t, err)
		if name != "" {
			t.Errorf("%+q: %+q, %v", typed, name, err)
		}
		return
	}
	if n := utf8.RuneCountInString(name); n < 1 || n > MaxUserLength || !utf8.ValidString(name) || !norm.NFC.IsNormalString(name) {
		t.Errorf("%+q became %+q of %d characters", typed, name, n)
	}
	if strings.ContainsFunc(name, unicode.IsControl) {
		t.Errorf("%+q became %+q", typed, name)
	}
	if again, err := ParseUser(name); again != name || err != nil {
		t.Errorf("%+q became %+q, then %+q, %v", typed, name, again, err)
	}
	if decomposed(name) != decomposed(typed) {
		t.Errorf("%+q became %+q", typed, name)
	}
}

// errorer is a *testing.T or a *rapid.T.
type errorer interface {
	Errorf(format string, args ...any)
}

// checkRefusal checks that an error, if any, is one that a client can be shown.
func checkRefusal(t errorer, err error) {
	if err != nil && (!errors.Is(err, ErrInvalid) || !utf8.ValidString(err.Error()) || len(err.Error()) > 200) {
		t.Errorf("refused with %q", err)
	}
}
