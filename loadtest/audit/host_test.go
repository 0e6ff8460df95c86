package audit

import (
	"slices"
	"testing"
)

// Who is the host follows from the journal and the settings.
func TestOracle_Host(t *testing.T) {
	w := hosted()
	if found := judge(t, w.commits, w.final()); len(found) > 0 || w.host != "a" {
		t.Fatalf("the host is %q\n%s", w.host, text(found))
	}
	host := func(version, change int, user string) func(*world, *final) {
		return func(w *world, _ *final) {
			edit(w, version, func(_ object, changes []any) {
				if c := changes[change].(object); c["type"] == typeHost {
					c["user"] = user
				} else {
					panic(c)
				}
			})
		}
	}
	drop := func(version, change int) func(*world, *final) {
		return func(w *world, _ *final) {
			edit(w, version, func(e object, changes []any) { e["changes"] = slices.Delete(changes, change, change+1) })
		}
	}
	for name, test := range map[string]struct {
		damage func(*world, *final)
		at     uint64 // the version that the finding has to name
	}{
		"nobody becomes the host":              {drop(3, 1), 3},
		"nobody takes over":                    {drop(6, 1), 6},
		"who has sat for less":                 {host(3, 1, "b"), 3},
		"who is away":                          {host(6, 1, "b"), 6},
		"who is not there":                     {host(6, 1, "a"), 6},
		"a stranger":                           {host(6, 1, "x"), 6},
		"nobody, although some are there":      {host(6, 1, ""), 6},
		"two hosts":                            {extra(7, object{"type": typeHost, "user": "b"}), 7},
		"the same once more":                   {extra(7, object{"type": typeHost, "user": "c"}), 7},
		"a host without the setting":           {extra(2, object{"type": typeHost, "user": "a"}), 2},
		"a host who stays without the setting": {extra(8, object{"type": typeSettings, "settings": object{"capacity": 4}}), 8},
		"a stranger for a moment":              {host(9, 1, "x"), 9},
		"another one in Redis":                 {meta("host", `"b"`), 10},
		"none in Redis":                        {func(_ *world, f *final) { delete(f.meta, "host") }, 10},
		"an empty one in Redis":                {meta("host", `""`), 10},
		"no JSON in Redis":                     {meta("host", `b`), 10},
	} {
		t.Run(name, func(t *testing.T) {
			w := hosted()
			f := w.final()
			test.damage(w, f)
			found := judge(t, w.commits, f)
			if !slices.ContainsFunc(found, func(f Finding) bool { return f.Rule == RuleHost && f.Version == test.at }) {
				t.Errorf("no %q at version %d:\n%s", RuleHost, test.at, text(found))
			}
		})
	}
}

// Where the journal does not say who the host is, Redis must have one that can be.
func TestOracle_HostOfTrimmedJournal(t *testing.T) {
	for name, test := range map[string]struct {
		damage func(*world, *final)
		wrong  bool
	}{
		"who is there":                 {func(*world, *final) {}, false},
		"another one who is there":     {meta("host", `"b"`), false},
		"one who is not there":         {meta("host", `"x"`), true},
		"none":                         {meta("host", `""`), true},
		"one in spite of the settings": {meta("settings", `{"capacity":4}`), true},
	} {
		w := hosted()
		f := w.final()
		test.damage(w, f)
		if found := judge(t, w.commits[9:], f); (len(found) > 0) != test.wrong || test.wrong && found[0].Rule != RuleHost {
			t.Errorf("%s:\n%s", name, text(found))
		}
	}
}
