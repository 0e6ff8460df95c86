package audit

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// judge has an oracle replay entries and compare the outcome.
func judge(t testing.TB, commits []string, f *final) (findings []Finding) {
	t.Helper()
	return judgeWith(commits, f, func(o *oracle, i int, err error) { t.Fatalf("entry %d: %v: %s", i, err, commits[i]) })
}

func judgeWith(commits []string, f *final, bad func(o *oracle, i int, err error)) (findings []Finding) {
	o := newOracle("42", func(f Finding) { findings = append(findings, f) })
	for i, text := range commits {
		e, err := parseEntry(fmt.Sprintf("%d-0", i+1), text)
		if err != nil {
			bad(o, i, err)
			continue
		}
		o.next(&e)
	}
	(&ending{o, f}).compare()
	return findings
}

func text(findings []Finding) string {
	var b strings.Builder
	for _, f := range findings {
		b.WriteString(f.String())
	}
	return b.String()
}

// A valid history gives no finding, wherever it was trimmed.
func TestOracle_ValidHistories(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := newWorld()
		w.play(t)
		from := rapid.IntRange(0, len(w.commits)-1).Draw(t, "trimmed")
		f := w.final()
		if found := judgeWith(w.commits[from:], f, func(_ *oracle, i int, err error) { t.Fatal(i, err) }); len(found) > 0 {
			t.Fatalf("from entry %d of\n%s\nwith %v %v\n%s", from+1, strings.Join(w.commits, "\n"), f.users, f.meta, text(found))
		}
	})
}

// An entry that is dropped, doubled or swapped with the next is found, if it is not the first of
// what is left: the journal might have been trimmed.
func TestOracle_DamagedJournals(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := newWorld()
		w.play(t)
		if len(w.commits) < 2 {
			t.Skip("no commit to damage but the last one")
		}
		commits, at := slices.Clone(w.commits), rapid.IntRange(1, len(w.commits)-1).Draw(t, "at")
		switch rapid.SampledFrom([]string{"drop", "double", "swap"}).Draw(t, "damage") {
		case "drop":
			commits = slices.Delete(commits, at, at+1)
		case "double":
			commits = slices.Insert(commits, at, commits[at])
		case "swap":
			commits[at-1], commits[at] = commits[at], commits[at-1]
		}
		if found := judgeWith(commits, w.final(), func(_ *oracle, i int, err error) { t.Fatal(i, err) }); len(found) == 0 {
			t.Fatalf("nothing was found in\n%s", strings.Join(commits, "\n"))
		}
	})
}

// scene is a history that has everything: versions 1 to 14.
func scene() *world {
	w := newWorld()
	all := func(lists ...[]object) []object { return slices.Concat(lists...) }
	w.commit("n1", all(w.join("a", "n1", 0, false), w.join("b", "n1", 1, false))...) // 1
	w.commit("n2", w.join("c", "n2", 2, true)...)                                    // 2
	w.commit("n1", w.speak("a", "n1", typeAway)...)                                  // 3
	w.commit("n2", w.speak("a", "n2", typeBack)...)                                  // 4
	w.commit("n2", w.speak("b", "n2", typeReplace)...)                               // 5
	w.commit("n1", w.member("b", true, `{"x":1}`)...)                                // 6
	w.commit("n1", w.setData(`[1,2]`)...)                                            // 7
	w.commit("n1", w.join("d", "n1", 3, false)...)                                   // 8
	w.commit("n1", all(w.leave("d", "kicked"), w.ban("d", w.now+1_000_000))...)      // 9
	w.commit("n1", w.join("e", "n1", 3, false)...)                                   // 10
	w.commit("n1", w.leave("e", "left")...)                                          // 11
	w.commit("n1", w.configure(object{"capacity": 3, "closed": true})...)            // 12
	w.commit("n1", object{"type": typeMessage, "user": "a", "seat": 0, "text": "hi"})
	w.commit("n1") // 14
	return w
}

// edit changes one entry.
func edit(w *world, version int, change func(e object, changes []any)) {
	var e object
	if err := json.Unmarshal([]byte(w.commits[version-1]), &e); err != nil {
		panic(err)
	}
	changes, _ := e["changes"].([]any)
	change(e, changes)
	w.commits[version-1] = encode(e)
}

// field returns an edit that sets a field of an entry's first change.
func field(version int, name string, value any) func(*world, *final) {
	return func(w *world, _ *final) {
		edit(w, version, func(_ object, changes []any) { changes[0].(object)[name] = value })
	}
}

// extra returns an edit that adds a change to an entry.
func extra(version int, change object) func(*world, *final) {
	return func(w *world, _ *final) {
		edit(w, version, func(e object, changes []any) { e["changes"] = append(changes, change) })
	}
}

func meta(name, value string) func(*world, *final) {
	return func(_ *world, f *final) { f.meta[name] = value }
}

func user(name, old, replacement string) func(*world, *final) {
	return func(_ *world, f *final) {
		was := f.users[name]
		if f.users[name] = strings.Replace(was, old, replacement, 1); f.users[name] == was {
			panic(was)
		}
	}
}

// Each rule finds what it is for.
func TestOracle_EachRule(t *testing.T) {
	w := scene()
	if found := judge(t, w.commits, w.final()); len(found) > 0 || strings.Join(w.users(), " ") != "a b c" {
		t.Fatalf("of %v\n%s", w.users(), text(found))
	}
	entry := func(version int, name string, value any) func(*world, *final) {
		return func(w *world, _ *final) { edit(w, version, func(e object, _ []any) { e[name] = value }) }
	}
	for name, test := range map[string]struct {
		damage func(*world, *final)
		want   Rule
		at     uint64 // the version that the finding has to name
	}{
		"an entry dropped":       {func(w *world, _ *final) { w.commits = slices.Delete(w.commits, 6, 7) }, RuleGap, 8},
		"an entry doubled":       {func(w *world, _ *final) { w.commits = slices.Insert(w.commits, 6, w.commits[6]) }, RuleTwice, 7},
		"the last entry dropped": {func(w *world, _ *final) { w.commits = w.commits[:13] }, RuleGap, 14},
		"an unknown type":        {extra(13, object{"type": "explode"}), RuleEntry, 13},
		"another epoch":          {entry(7, "epoch", "other"), RuleEpoch, 8},
		"an epoch at 20": {func(w *world, _ *final) {
			edit(w, 14, func(e object, _ []any) { e["epoch"], e["version"] = "other", 20 })
		}, RuleEpoch, 20},
		"an epoch at 5 that builds on 13": {func(w *world, _ *final) {
			edit(w, 14, func(e object, _ []any) { e["epoch"], e["version"] = "other", 5 })
		}, RuleChain, 5},
		"a member joins":               {extra(5, object{"type": typeJoin, "user": "a", "seat": 3, "session": "s"}), RuleJoin, 5},
		"a join on a seat that is had": {field(8, "seat", 1), RuleSeat, 8},
		"a join behind the last seat":  {field(10, "seat", 5), RuleCapacity, 10},
		"data that are no JSON":        {meta("data", `7`), RuleData, 14},
		"fewer seats than the highest": {func(w *world, f *final) {
			extra(11, object{"type": typeLeave, "user": "b", "seat": 1})(w, f)
			field(12, "settings", object{"capacity": 2})(w, f)
		}, RuleCapacity, 12},
		"a join on a seat that there is not": {field(8, "seat", -1), RuleCapacity, 8},
		"a leave by nobody":                  {field(11, "user", "nobody"), RuleAbsent, 11},
		"back of nobody":                     {field(4, "user", "nobody"), RuleAbsent, 4},
		"a leave from another seat":          {field(11, "seat", 1), RuleMoved, 11},
		"away twice":                         {extra(3, object{"type": typeAway, "user": "a", "seat": 0, "session": "~s1", "old": "s1"}), RuleSession, 3},
		"back without having gone":           {extra(4, object{"type": typeBack, "user": "a", "seat": 0, "session": "s9", "old": "s4"}), RuleSession, 4},
		"another session goes":               {field(3, "old", "s9"), RuleSession, 3},
		"replaced while away":                {field(4, "type", typeReplace), RuleSession, 4},
		"too many": {func(w *world, f *final) {
			extra(9, object{"type": typeJoin, "user": "x", "seat": 3, "session": "s"})(w, f)
			extra(9, object{"type": typeJoin, "user": "y", "seat": 4, "session": "s"})(w, f)
		}, RuleCapacity, 9},
		"fewer seats than members":   {field(12, "settings", object{"capacity": 2}), RuleCapacity, 12},
		"a join into a closed room":  {extra(13, object{"type": typeJoin, "user": "x", "seat": 1, "session": "s"}), RuleClosed, 13},
		"a join of who is banned":    {extra(10, object{"type": typeJoin, "user": "d", "seat": 3, "at": 1_000_001, "session": "s"}), RuleBanned, 10},
		"defaults again":             {extra(11, object{"type": typeDefaults, "settings": object{"capacity": 9}}), RuleSettings, 11},
		"settings in Redis":          {meta("settings", `{"capacity":3}`), RuleSettings, 14},
		"settings that are no JSON":  {meta("settings", `{`), RuleSettings, 14},
		"no settings":                {func(_ *world, f *final) { delete(f.meta, "settings") }, RuleSettings, 14},
		"the version in Redis":       {meta("version", "13"), RulePosition, 14},
		"a later version in Redis":   {meta("version", "15"), RuleGap, 15},
		"the mark in Redis":          {meta("mark", "mark13"), RulePosition, 14},
		"the epoch in Redis":         {meta("epoch", "e2"), RulePosition, 14},
		"no room":                    {func(_ *world, f *final) { clear(f.users); clear(f.meta) }, RulePosition, 14},
		"the count":                  {meta("members", "4"), RuleCount, 14},
		"a member removed":           {func(_ *world, f *final) { delete(f.users, "b"); f.meta["members"] = "2" }, RuleMember, 14},
		"a member added":             {func(_ *world, f *final) { f.users["x"] = f.users["b"]; f.meta["members"] = "4" }, RuleMember, 14},
		"a member that is no JSON":   {func(_ *world, f *final) { f.users["b"] = "{" }, RuleMember, 14},
		"the seat of a member":       {user("b", `"seat":1`, `"seat":3`), RuleMember, 14},
		"the session of a member":    {user("c", `"session":"~`, `"session":"`), RuleMember, 14},
		"the node of a member":       {user("b", `"node":"n2"`, `"node":"n1"`), RuleMember, 14},
		"when a member joined":       {user("b", `"at":1000000`, `"at":1000001`), RuleMember, 14},
		"ready":                      {user("b", `"ready":true,`, ``), RuleMember, 14},
		"the data of a member":       {user("b", `{"x":1}`, `{"x":2}`), RuleMember, 14},
		"the data's version":         {user("b", `"version":6`, `"version":7`), RuleMember, 14},
		"private data":               {user("b", `"ready"`, `"private":{"version":6,"value":"AS"},"ready"`), RuleMember, 14},
		"the room's data":            {meta("data", `{"version":7,"value":[2,1]}`), RuleData, 14},
		"the room's data's version":  {meta("data", `{"version":6,"value":[1,2]}`), RuleData, 14},
		"no data":                    {func(_ *world, f *final) { delete(f.meta, "data") }, RuleData, 14},
		"a ban that is missing":      {func(_ *world, f *final) { delete(f.meta, "bans") }, RuleBans, 14},
		"a ban of somebody else":     {meta("bans", `{"d":2000000,"x":5}`), RuleBans, 14},
		"a ban that was lifted":      {extra(14, object{"type": typeBan, "user": "d", "until": 0}), RuleBans, 14},
		"bans that are no JSON":      {meta("bans", `7`), RuleBans, 14},
		"data in another entry":      {field(7, "data", []int{1}), RuleData, 14},
		"settings that say nonsense": {field(12, "settings", object{"capacity": -1}), RuleEntry, 12},
	} {
		t.Run(name, func(t *testing.T) {
			w := scene()
			f := w.final()
			test.damage(w, f)
			found := judge(t, w.commits, f)
			if !slices.ContainsFunc(found, func(f Finding) bool { return f.Rule == test.want && f.Version == test.at }) {
				t.Errorf("no %q at version %d:\n%s", test.want, test.at, text(found))
			}
		})
	}
}

// A journal that begins in the middle has to fit one beginning.
func TestOracle_TrimmedJournals(t *testing.T) {
	for name, test := range map[string]struct {
		from   int // the first version that is left
		damage func(*world, *final)
		want   Rule
	}{
		"two had the seat when it began":      {11, extra(13, object{"type": typeLeave, "user": "x", "seat": 3}), RuleSeat},
		"a seat was joined that somebody had": {10, extra(13, object{"type": typeLeave, "user": "x", "seat": 3}), RuleSeat},
		"Redis has who sat where others came": {10, func(_ *world, f *final) { f.users["x"] = `{"seat":3}`; f.meta["members"] = "4" }, RuleSeat},
		"two of Redis sit on a seat":          {10, func(_ *world, f *final) { f.users["x"] = `{"seat":1}`; f.meta["members"] = "4" }, RuleSeat},
		"Redis has who has left":              {11, func(_ *world, f *final) { f.users["e"] = `{"seat":3}`; f.meta["members"] = "4" }, RuleMember},
		"who has left leaves again":           {11, extra(13, object{"type": typeLeave, "user": "e", "seat": 3}), RuleAbsent},
		"who was in joins":                    {3, extra(5, object{"type": typeJoin, "user": "a", "seat": 3, "session": "s"}), RuleJoin},
		"a beginning of more than the seats":  {12, func(_ *world, f *final) { f.users["x"] = `{"seat":9}`; f.meta["members"] = "4" }, RuleCapacity},
		"settings that were never closed": {10, func(w *world, f *final) {
			w.commits[11] = w.commits[13]
			edit(w, 12, func(e object, _ []any) { e["version"] = 12 })
		}, RuleClosed},
		"a join behind the last seat that Redis has": {10, func(w *world, f *final) {
			w.commits[11] = w.commits[13]
			edit(w, 12, func(e object, _ []any) { e["version"] = 12 })
			field(10, "seat", 9)(w, f)
			field(11, "seat", 9)(w, f)
			f.meta["settings"] = `{"capacity":4}`
		}, RuleCapacity},
		"a ban that is older than the journal": {10, meta("bans", `{"e":2000000}`), RuleBanned},
	} {
		t.Run(name, func(t *testing.T) {
			w := scene()
			f := w.final()
			if found := judge(t, w.commits[test.from-1:], f); len(found) > 0 {
				t.Fatalf("before the damage:\n%s", text(found))
			}
			test.damage(w, f)
			found := judge(t, w.commits[test.from-1:], f)
			if !slices.ContainsFunc(found, func(f Finding) bool { return f.Rule == test.want }) {
				t.Errorf("no %q:\n%s", test.want, text(found))
			}
		})
	}
}

// Behind a gap, and in a new epoch, nothing is known of what was before, so that one fault is
// one finding.
func TestOracle_OneFaultOneFinding(t *testing.T) {
	w := scene()
	f := w.final()
	w.commits = slices.Delete(w.commits, 3, 10)
	if found := judge(t, w.commits, f); len(found) != 1 || found[0].Rule != RuleGap {
		t.Errorf("a gap:\n%s", text(found))
	}
	w = scene()
	w.begin("e2", 14)
	delete(w.members, "b") // lost
	w.commit("n1", w.leave("c", "left")...)
	if found := judge(t, w.commits, w.final()); len(found) != 0 {
		t.Errorf("a new epoch after a loss:\n%s", text(found))
	}
	w.begin("e3", 0)
	w.gone, w.data, w.bans = map[string]removal{}, nil, map[string]int64{}
	delete(w.members, "a")
	w.settings = nil
	w.commit("n1", w.join("c", "n1", 2, false)...)
	if found := judge(t, w.commits, w.final()); len(found) != 0 {
		t.Errorf("a new epoch from 1:\n%s", text(found))
	}
}

// What the journal holds cannot write to a terminal.
func TestOracle_FindingsAreSafeToShow(t *testing.T) {
	f := Finding{One: says(theEntry, "%s", quoted("\x1b[31m"+strings.Repeat("长", 300))), Other: says(inRedis, "%s", value([]byte("\x1b\"\n")))}
	if s := f.String(); strings.ContainsAny(s, "\x1b") || strings.Count(s, "\n") != 3 || len(s) > 2000 {
		t.Errorf("%q", s)
	}
}

// What is wrong with private data is found, and not shown.
func TestPrivateData_IsNotShown(t *testing.T) {
	w := story()
	w.commit("n1", w.deal("b", `"QUEEN"`)...)
	f := w.final()
	f.users["b"] = strings.Replace(f.users["b"], `"QUEEN"`, `"KING"`, 1)
	found := judge(t, w.commits, f)
	if said := text(found); len(found) != 1 || found[0].Rule != RuleMember || strings.Contains(said, "QUEEN") || strings.Contains(said, "KING") {
		t.Errorf("found:\n%s", said)
	}
}
