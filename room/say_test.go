package room

import (
	"fmt"
	"testing"
)

// Who joins gets the messages that are for it, up to the version of the join and behind the one expected, and never those
// that come as events.
func TestMissed(t *testing.T) {
	said := func(epoch string, version uint64, to ...string) Said {
		return Said{Epoch: epoch, Version: version, User: "x", To: to}
	}
	one := []Said{said("e", 2), said("e", 4, "a"), said("e", 4, "b"), said("e", 7), said("e", 9)}
	two := []Said{said("d", 8), said("d", 9), said("e", 2), said("e", 5)}
	at := func(epoch string, version uint64) Expect { return ExpectVersion(epoch, version) }
	for _, tt := range []struct {
		what    string
		all     []Said
		read    string // the epoch when they were read
		epoch   string // of the join
		version uint64
		since   Expect
		user    string
		most    int
		want    string
	}{
		{"a new member", one, "e", "e", 8, Expect{}, "a", 100, "e2 e4 e7"},
		{"some", one, "e", "e", 8, Expect{}, "a", 2, "e4 e7"},
		{"none is asked for", one, "e", "e", 8, Expect{}, "a", 0, ""},
		{"who said it", one, "e", "e", 8, Expect{}, "x", 100, "e2 e4 e4 e7"},
		{"nobody", one, "e", "e", 8, Expect{}, "", 100, "e2 e7"},
		{"back", one, "e", "e", 8, at("e", 2), "a", 100, "e4 e7"},
		{"back, in any epoch", one, "e", "e", 8, at("", 4), "a", 100, "e7"},
		{"back, nothing missed", one, "e", "e", 8, at("e", 7), "a", 100, ""},
		{"back after all", one, "e", "e", 9, at("e", 12), "a", 100, ""},
		{"back, another epoch", two, "e", "e", 5, at("d", 8), "a", 100, "d9 e2 e5"},
		{"back, of which nothing is left", two, "e", "e", 5, at("c", 8), "a", 100, "e2 e5"},
		{"back, nothing said before", two, "e", "e", 5, at("e", 1), "a", 100, "e2 e5"},
		{"new, two epochs", two, "e", "e", 4, Expect{}, "a", 100, "d8 d9 e2"},
		{"the room has begun anew since", two, "e", "d", 8, Expect{}, "a", 100, "d8"},
		{"the room has begun anew since, back", two, "e", "d", 9, at("d", 8), "a", 100, "d9"},
		{"the room has begun anew since, unknown", two, "e", "c", 9, Expect{}, "a", 100, ""},
		{"back where nothing was said", nil, "e", "e", 9, at("e", 3), "a", 100, ""},
	} {
		got := ""
		for i, s := range (Kept{tt.read, tt.all}).Missed(Snapshot{Epoch: tt.epoch, Version: tt.version}, tt.since, Viewer{User: tt.user}, tt.most) {
			if i > 0 {
				got += " "
			}
			got += fmt.Sprint(s.Epoch, s.Version)
		}
		if got != tt.want {
			t.Errorf("%s: %q, want %q", tt.what, got, tt.want)
		}
	}
}
