package room

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"golang.org/x/text/unicode/norm"
	"pgregory.net/rapid"
)

// An error names the character that is wrong, not a byte of it.
func TestWhatIsWrongWithARoomID(t *testing.T) {
	for id, want := range map[string]string{
		"大厅":                    "not '大'",
		"a厅":                    "not '厅'",
		"a\xe5":                 "is not valid UTF-8",
		"\xff":                  "is not valid UTF-8",
		"a\n":                   `not '\n'`,
		strings.Repeat("x", 70): "1 to 64 characters long, not 70",
		strings.Repeat("大", 30): "not '大'", // 90 bytes
	} {
		if err := CheckID(id); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", id, err, want)
		}
	}
}

func TestUserNames(t *testing.T) {
	for name, want := range map[string]string{
		"张三":                          "张三",
		"🀄️ Mahjong 👩‍👩‍👧":            "🀄️ Mahjong 👩‍👩‍👧",
		"e\u0301":                     "\u00e9", // NFD and NFC are one user
		strings.Repeat("张", 64):       strings.Repeat("张", 64),
		strings.Repeat("e\u0301", 64): strings.Repeat("\u00e9", 64),
		"a b":                         "a b",
		"a\u034f\u0301":               "a\u034f\u0301", // a joiner of the user's own

		// The most marks, as they are, and combined with what they follow.
		"e" + strings.Repeat("\u0301", 30):       "\u00e9" + strings.Repeat("\u0301", 29),
		"x" + strings.Repeat("\u0301", 30) + "y": "x" + strings.Repeat("\u0301", 30) + "y",
		strings.Repeat("\u0301", 30):             strings.Repeat("\u0301", 30),
	} {
		if got, err := ParseUser(name); got != want || err != nil {
			t.Errorf("%q became %q, %v", name, got, err)
		}
	}
	for _, name := range []string{
		"x" + strings.Repeat("\u0301", 31), strings.Repeat("\u0301", 31), "x" + strings.Repeat("\u0323\u0301", 16) + "y",
	} {
		_, err := ParseUser(name)
		if checkInvalid(t, err, "user", name); err != nil && !strings.Contains(err.Error(), "combining marks") {
			t.Errorf("%q: %v", name, err)
		}
	}
	for _, name := range []string{"", strings.Repeat("张", 65), "a\tb", "a\x00", "\x7f", "\u0085", "\xff", "a\xc3", strings.Repeat("\u0301", 2000)} {
		_, err := ParseUser(name)
		checkInvalid(t, err, "user", name)
	}
}

func TestBadActionsNameTheField(t *testing.T) {
	for field, a := range map[string]Action{
		"action":   nil,
		"session":  Join{User: "a", Session: ""},
		"seat":     Join{User: "a", Session: "s", Seat: new(MaxSeats)},
		"capacity": Configure{Settings: Settings{Capacity: MaxSeats + 1}},
		"user":     Leave{User: "", Session: "s"},
	} {
		_, err := Check(a, Rules{Seating: Capacity(4)})
		checkInvalid(t, err, field, "")
	}
	for _, seat := range []int{-2, MaxSeats} {
		_, err := Check(Join{User: "a", Session: "s", Seat: new(seat)}, Rules{})
		checkInvalid(t, err, "seat", fmt.Sprint(seat))
	}
	for _, a := range []Action{Upkeep{Stray: "n"}, Upkeep{Evict: "n"}, Upkeep{Renew: "e"}} { // clients cannot ask for them
		if _, err := Check(a, Rules{}); !errors.Is(err, ErrInvalid) {
			t.Errorf("%+v: %v", a, err)
		}
	}
}

func checkInvalid(t *testing.T, err error, field, input string) {
	t.Helper()
	var invalid *InvalidError
	if !errors.As(err, &invalid) || invalid.Field != field || !errors.Is(err, ErrInvalid) || !strings.HasPrefix(err.Error(), field) {
		t.Errorf("%q: %v, want an error that names %s", input, err, field)
	}
}

// A name that is accepted is exactly the one in normal form C: it means the same as what
// was typed, has the length that was counted, and stays as it is.
func TestNamesAreKept(t *testing.T) {
	alphabet := []rune("aeEx张가각\u1100\u1161\u11a8\u0301\u0300\u0323\u0308\u0344\u034f\u0345\u3099か\u1e69\u212b\U0001d15e\u0f73🀄")
	rapid.Check(t, func(t *rapid.T) {
		runes := rapid.SliceOfN(rapid.SampledFrom(alphabet), 0, 80)
		marks := strings.Repeat("\u0301", rapid.IntRange(0, 40).Draw(t, "marks"))
		typed := string(runes.Draw(t, "before")) + marks + string(runes.Draw(t, "after"))
		checkName(t, typed)
	})
}

// decomposed is normal form D without norm's idea of a stream.
func decomposed(s string) string {
	var out []rune
	for _, r := range s {
		out = append(out, []rune(norm.NFD.String(string(r)))...)
	}
	class := func(r rune) uint8 { return norm.NFD.PropertiesString(string(r)).CCC() }
	for start := 0; start < len(out); {
		end := start + 1
		for ; end < len(out) && class(out[end]) != 0; end++ {
		}
		first := start
		if class(out[start]) == 0 {
			first++
		}
		slices.SortStableFunc(out[first:end], func(a, b rune) int { return int(class(a)) - int(class(b)) })
		start = end
	}
	return string(out)
}
