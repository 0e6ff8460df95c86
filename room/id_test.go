package room

import (
	"errors"
	"strings"
	"testing"
)

func TestRoomIDs(t *testing.T) {
	for _, id := range []string{"42", "a", "A.b_c-9", strings.Repeat("x", 64)} {
		if err := CheckID(id); err != nil {
			t.Errorf("%q: %v", id, err)
		}
	}
	for _, id := range []string{"", strings.Repeat("x", 65), "a b", "{42}", "a:b", "房间", "a\n", "a\x00", "*"} {
		checkInvalid(t, CheckID(id), "room", id)
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
	} {
		if got, err := ParseUser(name); got != want || err != nil {
			t.Errorf("%q became %q, %v", name, got, err)
		}
	}
	for _, name := range []string{"", strings.Repeat("张", 65), "a\tb", "a\x00", "\x7f", "\u0085", "\xff", "a\xc3", strings.Repeat("\u0301", 2000)} {
		_, err := ParseUser(name)
		checkInvalid(t, err, "user", name)
	}
}

func TestBadActionsNameTheField(t *testing.T) {
	for field, a := range map[string]Action{
		"action":  {user: "a", session: "s", seat: anySeat},
		"session": Join("a", ""),
		"seat":    Join("a", "s").At(4),
		"user":    Leave("", "s"),
	} {
		checkInvalid(t, a.check(Rules{Capacity: 4}), field, "")
	}
	a := Join("a", "s").At(-2)
	checkInvalid(t, a.check(Rules{}), "seat", "-2")
	a = Join("a", "s").At(MaxSeats)
	checkInvalid(t, a.check(Rules{}), "seat", "MaxSeats")
}

func checkInvalid(t *testing.T, err error, field, input string) {
	t.Helper()
	var invalid *InvalidError
	if !errors.As(err, &invalid) || invalid.Field != field || !errors.Is(err, ErrInvalid) || !strings.HasPrefix(err.Error(), field) {
		t.Errorf("%q: %v, want an error that names %s", input, err, field)
	}
}
