package model

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
)

// notFound marks what no audit can find. The documentation says why.
const notFound Rule = ""

const joinsZ = `{"type":"join","user":"z","seat":3,"session":"s","at":2000000}`

// Ways to tamper with a room, and what is found.
func TestTampering_EachWay(t *testing.T) {
	const last = 30
	noRoom := func(w *world) { w.Users, w.Meta = nil, nil }
	insert := func(text string) damage {
		return func(w *world) { w.commits = slices.Insert(w.commits, 13, text) }
	}
	drop := func(version int) damage {
		return func(w *world) { w.commits = slices.Delete(w.commits, version-1, version) }
	}
	replaced := func(old, replacement string) damage {
		return func(w *world) { w.commits[12] = strings.Replace(w.commits[12], old, replacement, 1) }
	}
	begins := func(epoch string, behind uint64, mark int) damage {
		return func(w *world) {
			if w.epoch, w.version, w.mark = epoch, behind, ""; mark > 0 {
				w.mark = markIn(w.commits[mark-1])
			}
			appended("")(w)
		}
	}
	nodes := edit(5, func(e object, _ []any) { e["node"] = "n3" })
	try(t, func() *world { return worldOf(story) }, []way{
		// Entries.
		{"dropped in the middle", drop(7), RuleGap, 8},
		{"the last dropped", drop(last), RuleGap, last},
		{"the last dropped, and Meta set back", drop(last).and(meta("version", "29")), RulePosition, 29},
		{"doubled", func(w *world) { w.commits = slices.Insert(w.commits, 6, w.commits[6]) }, RuleTwice, 7},
		{"swapped", func(w *world) { w.commits[6], w.commits[7] = w.commits[7], w.commits[6] }, RuleGap, 8},
		{"replaced by one of another room", func(w *world) {
			other := &world{epoch: "f1", version: 12}
			other.commit("n1", "")
			w.commits[12] = other.commits[0]
		}, RuleChain, 0},
		{"replaced by one of the same epoch", field(13, "text", "ho").and(func(w *world) { w.remark(13, 13) }), RuleChain, 14},
		{"inserted", func(w *world) {
			e, _ := marked(object{"epoch": "e1", "version": 13, "prev": markIn(w.commits[11]), "node": "n1", "changes": []object{}})
			insert(e)(w)
		}, RuleTwice, 13},
		{"appended, without Meta", func(w *world) { w.commit("n1", "") }, RulePosition, last + 1},
		{"spaces", func(w *world) { w.commits[12] += " " }, RuleChanged, 13},
		{"a further field", edit(13, func(e object, _ []any) { e["more"] = 1 }), RuleChanged, 13},
		{"no JSON", insert("{"), RuleEntry, 0},
		{"a name twice", replaced(`{`, `{"node":"n1",`), RuleEntry, 0},
		{"changes swapped", edit(10, func(e object, c []any) { e["changes"] = []any{c[1], c[0]} }), RuleChanged, 10},
		{"a receiver of a message dropped", field(13, "to", []string{"b"}), RuleChanged, 13},
		{"data that is overwritten later", field(7, "data", 1), RuleChanged, 7},
		{"trimmed, and the first that is left changed", replaced("hi", "ho").and(func(w *world) { w.trimmed(12) }), RuleChanged, 13},
		{"the epoch of one", edit(7, func(e object, _ []any) { e["epoch"] = "other" }), RuleEpoch, 8},
		{"a new epoch that builds on another version", begins("e2", 15, 14), RuleChain, 16},
		{"a new epoch far ahead", begins("e2", 40, last), RuleEpoch, 41},
		{"a version 1 that builds on another", begins("e2", 0, last), RuleChain, 1},

		// What it says cannot be.
		{"a member joins", extra(5, `{"type":"join","user":"a","seat":3,"session":"s"}`), RuleJoin, 5},
		{"a join on a seat that there is not", field(9, "seat", -1), RuleCapacity, 9},
		{"too many", extra(10, `{"type":"join","user":"x","seat":3,"session":"s"},{"type":"join","user":"y","seat":4,"session":"s"}`), RuleCapacity, 10},
		{"fewer seats than members", field(19, "settings", object{"capacity": 2}), RuleCapacity, 19},
		{"fewer seats than the highest", extra(18, `{"type":"leave","user":"b","seat":1}`).and(field(19, "settings", object{"capacity": 2})), RuleCapacity, 19},
		{"back of nobody", field(4, "user", "nobody"), RuleAbsent, 4},
		{"away twice", extra(3, `{"type":"away","user":"a","seat":0,"session":"~s1","old":"s1"}`), RuleSession, 3},
		{"back without having gone", extra(4, `{"type":"back","user":"a","seat":0,"session":"s9","old":"s4"}`), RuleSession, 4},
		{"another session goes", field(3, "old", "s9"), RuleSession, 3},
		{"replaced while away", field(4, "type", "replace"), RuleSession, 4},
		{"defaults again", extra(11, `{"type":"defaults","settings":{"capacity":9}}`), RuleSettings, 11},
		{"settings that say nonsense", field(19, "settings", object{"capacity": -1}), RuleEntry, 19},
		{"a seat that somebody keeps", appended(`{"type":"seat","user":"a","seat":2}`), RuleSeat, 31},
		{"a seat that nobody has left", appended(`{"type":"seat","user":"a","seat":3}`), RuleSeat, 31},
		{"a seat that somebody has left for another in an earlier commit", appended(`{"type":"seat","user":"a","seat":1},{"type":"seat","user":"b","seat":0}`).and(
			appended(`{"type":"leave","user":"b","seat":0,"reason":"left"}`)).and(appended(`{"type":"seat","user":"c","seat":0}`)), RuleSeat, 33},
		{"a seat for who is not there", appended(`{"type":"seat","user":"z","seat":3}`), RuleAbsent, 31},
		{"a timer fires twice", appended(`{"type":"timer","timer":{"name":"old","was":6000}}`), RuleTimer, 31},
		{"a timer fires that was set anew", appended(`{"type":"timer","timer":{"name":"turn","was":6000}}`), RuleTimer, 31},

		// All marks computed anew, but what it says cannot be, or is not what Redis has.
		{"rewritten: a join on a seat that is taken", rewritten(9, field(9, "seat", 0)), RuleSeat, 9},
		{"rewritten: a join beyond the seats", rewritten(9, field(9, "seat", 9)), RuleCapacity, 9},
		{"rewritten: a leave of a stranger", rewritten(12, field(12, "user", "zoe")), RuleAbsent, 12},
		{"rewritten: a leave from another seat", rewritten(12, field(12, "seat", 1)), RuleMoved, 12},
		{"rewritten: a session that had not spoken", rewritten(5, field(5, "old", "s9")), RuleSession, 5},
		{"rewritten: another session", rewritten(5, field(5, "session", "s9")), RuleMember, last},
		{"rewritten: the node of a session", rewritten(5, nodes), RuleMember, last},
		{"rewritten: when somebody joined", rewritten(2, field(2, "at", 7)), RuleMember, last},
		{"rewritten: who is ready", rewritten(6, field(6, "ready", false)), RuleMember, last},
		{"rewritten: a member's data", rewritten(6, field(6, "data", 1)), RuleMember, last},
		{"rewritten: private data", rewritten(22, field(22, "data", 1)), RuleMember, last},
		{"rewritten: the last data", rewritten(8, field(8, "data", 1)), RuleData, last},
		{"rewritten: the settings", rewritten(19, field(19, "settings", object{"capacity": 4, "closed": true})), RuleSettings, last},
		{"rewritten: why somebody was kicked", rewritten(10, field(10, "text", "for fun")), RuleGone, last},
		{"rewritten: a kick that is a leave", rewritten(10, field(10, "reason", "left")), RuleGone, last},
		{"rewritten: where somebody was moved", rewritten(12, field(12, "target", "44")), RuleGone, last},
		{"rewritten: a ban that is lifted later", rewritten(16, field(16, "until", 9)), RuleBans, last},
		{"rewritten: a join of who is banned", appended(`{"type":"join","user":"d","seat":3,"session":"s","at":1000001}`), RuleBanned, 31},
		{"rewritten: a join into the closed room", appended(joinsZ), RuleClosed, 31},
		{"rewritten: who was kicked is back by a failure", appended(`{"type":"join","user":"e","seat":3,"session":"s","at":2000000,"again":true}`), RuleClosed, 31},
		{"rewritten: no failure", rewritten(20, field(20, "again", nil)), RuleClosed, 20},
		{"rewritten: an entry dropped", rewritten(13, drop(13)), RuleGap, 14},

		// Meta.
		{"Meta: epoch", meta("epoch", "e2"), RulePosition, last},
		{"Meta: no epoch", meta("epoch", ""), RulePosition, last},
		{"Meta: an earlier version", meta("version", "29"), RulePosition, last},
		{"Meta: a later version", meta("version", "31"), RuleGap, 31},
		{"Meta: no version", meta("version", ""), RulePosition, last},
		{"Meta: mark", meta("mark", "ntK55oh9oynnN2y-"), RulePosition, last},
		{"Meta: members", meta("members", "4"), RuleCount, last},
		{"Meta: who may set data", inMeta("settings", "admins", "members"), RuleSettings, last},
		{"Meta: kept", inMeta("settings", "{", `{"keep":true,`), RuleSettings, last},
		{"Meta: no settings", meta("settings", ""), RuleSettings, last},
		{"Meta: settings that are no JSON", meta("settings", "{"), RuleSettings, last},
		{"Meta: data", inMeta("data", "9", "90"), RuleData, last},
		{"Meta: when data was set", inMeta("data", `"version":8`, `"version":7`), RuleData, last},
		{"Meta: no data", meta("data", ""), RuleData, last},
		{"Meta: data that are no JSON", meta("data", "7"), RuleData, last},
		{"Meta: a timer is due at another time", inMeta("timers", "9000", "9001"), RuleTimers, last},
		{"Meta: a timer that has fired", inMeta("timers", `"turn":`, `"over":`), RuleTimers, last},
		{"Meta: timers of another version", inMeta("timers", `"version":26}`, `"version":25}`), RuleTimers, last},
		{"Meta: timers that are no JSON", meta("timers", "{"), RuleTimers, last},
		{"Meta: no timers", meta("timers", ""), RuleTimers, last},
		{"Meta: the end of a ban", inMeta("bans", "2000000", "2000001"), RuleBans, last},
		{"Meta: a ban that was lifted", inMeta("bans", "{", `{"x":1000005,`), RuleBans, last},
		{"Meta: another ban", inMeta("bans", "{", `{"a":7,`), RuleBans, last},
		{"Meta: no bans", meta("bans", ""), RuleBans, last},
		{"Meta: bans that are no JSON", meta("bans", "7"), RuleBans, last},
		{"Meta: why who was taken out", inMeta("gone", "kicked", "moved"), RuleGone, last},
		{"Meta: when", inMeta("gone", `"version":10`, `"version":9`), RuleGone, last},
		{"Meta: what was said", inMeta("gone", "enough", "for fun"), RuleGone, last},
		{"Meta: where to", inMeta("gone", "43", "44"), RuleGone, last},
		{"Meta: by which party", inMeta("gone", `"m"`, `"n"`), RuleGone, last},
		{"Meta: another one taken out", inMeta("gone", "{", `{"a":{"version":3,"reason":"kicked"},`), RuleGone, last},
		{"Meta: closed for good", inMeta("gone", "{", `{"":{"version":19,"reason":"closed"},`), RuleGone, last},
		{"Meta: nobody taken out", meta("gone", ""), RuleGone, last},
		{"Meta: who was taken out is no JSON", meta("gone", "{"), RuleGone, last},
		{"Meta and Users set back to version 13", func(w *world) {
			w.Meta["version"], w.Meta["mark"] = "13", markIn(w.commits[12])
		}, RulePosition, last},
		{"the room deleted", noRoom, RulePosition, last},
		{"Meta deleted", func(w *world) { w.Meta = nil }, RulePosition, last},
		{"Users deleted", func(w *world) { w.Users = nil }, RuleMember, last},

		// Users.
		{"Users: seat", user("a", `"seat":0`, `"seat":3`), RuleMember, last},
		{"Users: session", user("b", `"s6"`, `"s7"`), RuleMember, last},
		{"Users: node", user("b", `"n2"`, `"n1"`), RuleMember, last},
		{"Users: at", user("b", `"at":1000000`, `"at":1000001`), RuleMember, last},
		{"Users: away", user("a", `"session":"`, `"session":"~`), RuleMember, last},
		{"Users: ready", user("b", `"ready":true`, `"ready":false`), RuleMember, last},
		{"Users: data", user("b", `"x":1`, `"x":2`), RuleMember, last},
		{"Users: when data set", user("b", `"version":6`, `"version":5`), RuleMember, last},
		{"Users: private data", user("b", `QUEEN`, `KING`), RuleMember, last},
		{"Users: agreed", user("a", `m-*`, `n-*`), RuleMember, last},
		{"Users: no member", user("b", `{`, `{{`), RuleMember, last},
		{"Users: dropped", func(w *world) { delete(w.Users, "b"); w.Meta["members"] = "2" }, RuleMember, last},
		{"Users: added", added("z", `{"seat":3}`), RuleMember, last},

		{"the journal expires", expires(0, 1000), RuleExpiry, last},
		{"Users expires", expires(1, 1000), RuleExpiry, last},
		{"Meta expires", expires(2, 1000), RuleExpiry, last},

		// What cannot be found.
		{"the beginning trimmed", func(w *world) { w.trimmed(5) }, notFound, 0},
		{"all trimmed but the end", func(w *world) { w.trimmed(last - 1) }, notFound, 0},
		{"rewritten: what was said", rewritten(13, field(13, "text", "ho")), notFound, 0},
		{"rewritten: who heard it", rewritten(13, field(13, "to", []string{"b"})), notFound, 0},
		{"rewritten: data that is overwritten later", rewritten(7, field(7, "data", 1)), notFound, 0},
		{"rewritten: a reason that nothing depends on", rewritten(18, field(18, "reason", "timeout")), notFound, 0},
		{"rewritten: the whole journal", rewritten(1, field(13, "text", "ho")), notFound, 0},
		{"rewritten: of an unknown kind", rewritten(13, field(13, "type", "explode")), notFound, 0},
		{"a commit forged whole", appended(`{"type":"message","user":"a","seat":0,"text":"!"}`), notFound, 0},
		{"a new epoch forged whole", begins("e2", last, last), notFound, 0},
		{"Journal, Users and Meta of version 29 put back", drop(last).and(func(w *world) {
			w.Meta["version"], w.Meta["mark"] = "29", markIn(w.commits[last-2])
		}), notFound, 0},
		{"Meta: by:<node>", meta("by:n1", "x"), notFound, 0},
		{"Meta: a field of nobody's", meta("other", "x"), notFound, 0},
		{"Users: a field of nobody's", user("b", `{`, `{"other":1,`), notFound, 0},
	})
	try(t, func() *world { return worldOf(kept) }, []way{
		{"a kept room: the journal expires", expires(0, 1000), RuleExpiry, 0},
		{"a kept room: deleted", noRoom, RulePosition, 0},
	})
	try(t, func() *world { return worldOf(shut) }, []way{
		{"an empty room: the journal stays", expires(0, -1), RuleExpiry, 0},
		{"an empty room: open again", meta("gone", ""), RuleGone, 0},
		{"an empty room: Meta goes later", expires(2, 1e12), notFound, 0},
		{"an empty room: deleted before then", noRoom, notFound, 0},
	})
}

// A journal that begins in the middle has to fit one beginning.
func TestTampering_TrimmedJournals(t *testing.T) {
	leaves := func(user string) damage {
		return extra(13, fmt.Sprintf(`{"type":"leave","user":%q,"seat":3}`, user))
	}
	unsaid := edit(19, func(e object, _ []any) { e["changes"] = nil })
	for entries, ways := range map[int][]way{
		2: {{"who was in joins", extra(5, `{"type":"join","user":"a","seat":3,"session":"s"}`), RuleJoin, 0}},
		10: {
			{"a seat was joined that somebody had", leaves("x"), RuleSeat, 0},
			{"Redis has who sat where others came", added("x", `{"seat":3}`), RuleSeat, 0},
			{"two of Redis sit on a seat", added("x", `{"seat":1}`), RuleSeat, 0},
			{"a ban that is older than the journal", meta("bans", `{"e":2000000}`), RuleBanned, 0},
		},
		11: {
			{"two had the seat when it began", leaves("x"), RuleSeat, 0},
			{"Redis has who has left", added("e", `{"seat":3}`), RuleMember, 0},
			{"who has left leaves again", leaves("e"), RuleAbsent, 0},
		},
		16: {
			{"settings that were never closed", unsaid, RuleClosed, 0},
			{"a join behind the last seat that Redis has", unsaid.and(field(17, "seat", 9)).and(field(18, "seat", 9)), RuleCapacity, 0},
		},
		18: {{"a beginning of more than the seats", added("x", `{"seat":9}`).and(added("y", `{"seat":8}`)), RuleCapacity, 0}},
	} {
		try(t, func() *world { return worldOf(story).trimmed(entries) }, ways)
	}
	try(t, func() *world { return worldOf(hosted).trimmed(9) }, []way{
		{"another host who is there", meta("host", `"b"`), notFound, 0},
		{"a host who is not there", meta("host", `"x"`), RuleHost, 0},
		{"no host", meta("host", `""`), RuleHost, 0},
		{"a host in spite of the settings", meta("settings", `{"capacity":4}`), RuleHost, 0},
	})
}

// Who is the host follows from the journal and the settings.
func TestTampering_Host(t *testing.T) {
	host := func(version, change int, user string) damage { return fieldOf(version, change, "user", user) }
	try(t, func() *world { return worldOf(hosted) }, []way{
		{"nobody becomes the host", less(3, 1), RuleHost, 3},
		{"nobody takes over", less(6, 1), RuleHost, 6},
		{"who has sat for less", host(3, 1, "b"), RuleHost, 3},
		{"who is away", host(6, 1, "b"), RuleHost, 6},
		{"who is not there", host(6, 1, "a"), RuleHost, 6},
		{"nobody, although some are there", host(6, 1, ""), RuleHost, 6},
		{"two hosts", extra(7, `{"type":"host","user":"b"}`), RuleHost, 7},
		{"the same once more", extra(7, `{"type":"host","user":"c"}`), RuleHost, 7},
		{"a host without the setting", extra(2, `{"type":"host","user":"a"}`), RuleHost, 2},
		{"a host who stays without the setting", extra(8, `{"type":"settings","settings":{"capacity":4}}`), RuleHost, 8},
		{"a stranger for a moment", host(9, 1, "x"), RuleHost, 9},
		{"another one in Redis", meta("host", `"b"`), RuleHost, 10},
		{"none in Redis", meta("host", ""), RuleHost, 10},
		{"no JSON in Redis", meta("host", "b"), RuleHost, 10},
	})
}

// What Redis has lost comes back in an epoch that goes on behind what a node knew.
func TestTampering_WhatComesBack(t *testing.T) {
	for room, want := range map[string]Rule{emptied: RuleChain, older: RuleEpoch, old: RuleEpoch, fewer: RuleEpoch} {
		try(t, func() *world { return worldOf(room) }, []way{{"nothing says that it comes back", func(w *world) {
			last := &w.commits[len(w.commits)-1]
			*last = strings.ReplaceAll(*last, `,"again":true`, "")
		}, want, 4}})
	}
}

// The messages that a room keeps are the last of its journal.
func TestTampering_KeptMessages(t *testing.T) {
	try(t, func() *world { return worldOf(talked) }, []way{
		{"one is missing", said(func(s []string) []string { return s[1:] }), RuleSaid, 0},
		{"the last is missing", said(func(s []string) []string { return s[:1] }), RuleSaid, 0},
		{"none is there", said(func([]string) []string { return nil }), RuleSaid, 0},
		{"one is another", said(func(s []string) []string { return []string{strings.Replace(s[0], "two", "2", 1), s[1]} }), RuleSaid, 0},
		{"they are out of turn", said(func(s []string) []string { return []string{s[1], s[0]} }), RuleSaid, 0},
		{"one is no JSON", said(func(s []string) []string { return []string{"{", s[1]} }), RuleSaid, 0},
	})
	try(t, func() *world { return worldOf(silent) }, []way{
		{"what is kept without the setting", said(func([]string) []string { return worldOf(talked).Said }), RuleSaid, 0},
	})
}

// Each field of each entry, changed or removed, is found, whether the entry gets the mark that fits or
// not.
func TestTampering_EachField(t *testing.T) {
	edits := 0
	for _, room := range []string{story, hosted} {
		for i, entry := range worldOf(room).commits {
			var e any
			if err := json.Unmarshal([]byte(entry), &e); err != nil {
				t.Fatal(err)
			}
			for path, edited := range variants(e) {
				for _, fits := range []bool{false, true} {
					w := worldOf(room)
					w.commits[i] = encode(edited)
					want := []Rule{RuleChanged, RuleEntry}
					if fits {
						w.remark(i+1, i+1)
						want = []Rule{RuleChain, RuleGap, RuleEpoch, RulePosition, RuleEntry}
					}
					found := w.judge()
					isMark := fits && strings.HasPrefix(path, ".mark")
					if !isMark && !slices.ContainsFunc(found, func(f Finding) bool { return slices.Contains(want, f.Rule) }) {
						t.Errorf("version %d, %s, with a mark that fits: %v:\n%s", i+1, path, fits, text(found))
					}
					edits++
				}
			}
		}
	}
	if edits < 800 {
		t.Errorf("only %d edits", edits)
	}
}

// Behind a gap, and in a new epoch, nothing is known of what was before, so that one fault is
// one finding.
func TestOracle_OneFaultOneFinding(t *testing.T) {
	w := worldOf(story)
	w.commits = slices.Delete(w.commits, 3, 15)
	if found := w.judge(); len(found) != 1 || found[0].Rule != RuleGap {
		t.Errorf("a gap:\n%s", text(found))
	}
	lost := story + `
epoch e2 30 30
n1 {"type":"leave","user":"c","seat":2,"reason":"left"}`
	w = worldOf(lost)
	delete(w.Users, "b")
	delete(w.Users, "c")
	w.Meta["members"] = "1"
	if found := w.judge(); len(found) != 0 {
		t.Errorf("a new epoch after a loss:\n%s", text(found))
	}
	w.read(`
epoch e3 0 0
n1 {"type":"join","user":"c","seat":2,"session":"s","at":1},{"type":"defaults","settings":{"capacity":4}}
Meta settings {"capacity":4}
Users c {"seat":2,"session":"s","node":"n1","at":1}`)
	if found := w.judge(); len(found) != 0 {
		t.Errorf("a new epoch from 1:\n%s", text(found))
	}
	// The second loss goes on behind a version that the first one has taken from the first epoch.
	w = worldOf(begun + joined + strings.Repeat("\nn1", 3) + "\nepoch e2 2 2\nn1\nepoch e3 6 4\nn3 " + back)
	if found := w.judge(); len(found) != 0 {
		t.Errorf("a second loss:\n%s", text(found))
	}
}

// What the journal holds cannot write to a terminal.
func TestFindings_AreSafeToShow(t *testing.T) {
	f := Finding{One: says(theEntry, "%s", quoted("\x1b[31m"+strings.Repeat("长", 300))), Other: says(inRedis, "%s", value([]byte("\x1b\"\n")))}
	if s := f.String(); strings.ContainsAny(s, "\x1b") || strings.Count(s, "\n") != 3 || len(s) > 2000 {
		t.Errorf("%q", s)
	}
}

// What is wrong with private data is found, and not shown.
func TestFindings_HidePrivateData(t *testing.T) {
	w := worldOf(story)
	user("b", `"QUEEN"`, `"KING"`)(w)
	found := w.judge()
	if shown := text(found); len(found) != 1 || found[0].Rule != RuleMember || strings.Contains(shown, "QUEEN") || strings.Contains(shown, "KING") {
		t.Errorf("found:\n%s", shown)
	}
}
