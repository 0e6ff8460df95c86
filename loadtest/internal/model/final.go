package model

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json"
)

// Final is a room in Redis.
type Final struct {
	Users map[string]string // user → member as JSON
	Meta  map[string]string
	Said  []string // the messages that the room keeps, oldest first
	TTLs  []int64  // of the journal, users, meta and said, in ms; -1 without expiry, -2 without the key
}

// ending is the end of a journal, with the room there.
type ending struct {
	*Journal
	*Final
}

// End compares the room in Redis with the journal's.
func (j *Journal) End(f *Final) { (&ending{j, f}).compare() }

// differs reports that Redis has something else than the journal says.
func (o *ending) differs(rule Rule, there Side, format string, args ...any) {
	o.find(rule, o.version, says(theJournal, format, args...), there)
}

func (o *ending) compare() {
	if len(o.Meta) == 0 && len(o.Users) == 0 {
		if len(o.Members) > 0 || o.settings != nil && o.settings.keep {
			o.differs(RulePosition, says(inRedis, "no such room"), "version %d with %d members", o.version,
				len(o.Members))
		}
		return
	}
	if !o.isAt() {
		return
	}
	if n := o.Meta["members"]; n != strconv.Itoa(len(o.Users)) {
		o.find(RuleCount, o.version, says("Meta", "members %s", quoted(n)), says(inRedis, "%d members", len(o.Users)))
	}
	for _, user := range slices.Sorted(maps.Keys(o.Users)) {
		o.compareMember(user, o.Users[user])
	}
	for _, user := range slices.Sorted(maps.Keys(o.Members)) {
		if _, ok := o.Users[user]; !ok {
			o.differs(RuleMember, says(inRedis, "no %s in the room", quoted(user)), "%s", o.sitting(user))
		}
	}
	o.compareSettings()
	o.compareData()
	o.compareTimers()
	o.compareSaid()
	o.compareHost()
	o.compareBans()
	o.compareRemovals()
	o.compareExpiry()
}

// read reads a field of Meta. An unreadable field is a finding.
func read[T any](o *ending, rule Rule, name string) (has T, there Side, ok bool) {
	text := []byte(o.Meta[name])
	there = says(inRedis, "%s %s", name, value(text))
	if len(text) > 0 {
		if err := json.Unmarshal(text, &has); err != nil {
			o.find(rule, o.version, says("this program", "cannot read that: %v", err), there)
			return has, there, false
		}
	}
	return has, there, true
}

// isAt judges the position. It reports whether the rest can be compared.
func (o *ending) isAt() bool {
	here := says(theJournal, "epoch %s, version %d, mark %s", quoted(o.epoch), o.version, quoted(o.mark))
	there := says(inRedis, "epoch %s, version %s, mark %s", quoted(o.Meta["epoch"]), quoted(o.Meta["version"]),
		quoted(o.Meta["mark"]))
	version, _ := strconv.ParseUint(o.Meta["version"], 10, 64)
	switch {
	case o.Meta["epoch"] == o.epoch && version > o.version:
		there.Says += ": " + whyGap
		o.find(RuleGap, version, here, there)
	case o.Meta["epoch"] != o.epoch || version != o.version || o.Meta["mark"] != o.mark:
		o.find(RulePosition, o.version, here, there)
	default:
		return true
	}
	return false
}

func (o *ending) compareMember(user, text string) {
	var r record
	there := says(inRedis, "%s: %s", quoted(user), value([]byte(text)))
	if err := json.Unmarshal([]byte(text), &r); err != nil {
		o.find(RuleMember, o.version, says("this program", "cannot read the member: %v", err), there)
		return
	}
	if r.Private != nil && len(r.Private.Value) > 0 {
		there = says(inRedis, "%s: %s", quoted(user),
			value([]byte(strings.ReplaceAll(text, string(r.Private.Value), `"…"`))))
	}
	m := o.Members[user]
	switch {
	case m == nil && (o.complete || o.gone[user]):
		o.differs(RuleMember, there, "%s is not in the room", quoted(user))
		return
	case m == nil:
		o.infer(user, r.Seat)
		return
	}
	differs := func(format string, args ...any) { o.differs(RuleMember, there, format, args...) }
	switch {
	case o.Seats.Of[user] != r.Seat:
		differs("%s", o.sitting(user))
	case m.session != "" && m.session != r.Session:
		differs("session %s speaks for %s", quoted(m.session), quoted(user))
	case m.node != "" && m.node != cmp.Or(r.Node, noNode) && m.orNode != r.Node && m.orNode != anyNode:
		differs("the session of %s is on node %s", quoted(user), quoted(m.node))
	case m.at != 0 && m.at != r.At:
		differs("%s joined at %d", quoted(user), m.at)
	case m.readyKnown && m.Ready != r.Ready:
		differs("ready of %s is %v", quoted(user), m.Ready)
	case m.Private.differs(r.Private) != "":
		differs("%s has other private data, or has had them from another version on", quoted(user))
	case m.Agreed.known && m.Agreed.Value != string(normal(r.Agreed)):
		differs("%s agreed to %s", quoted(user), value([]byte(m.Agreed.Value)))
	default:
		if problem := m.Data.differs(r.Data); problem != "" {
			differs("%s of %s", problem, quoted(user))
		}
	}
}

// differs describes the journal's data if Redis has other data.
func (d *Datum) differs(there *datum) string {
	if there == nil {
		there = new(datum)
	}
	got := string(normal(there.Value))
	switch {
	case !d.known:
	case got != d.Value:
		return "data " + value([]byte(d.Value))
	case there.Version < d.since || there.Version > d.last:
		return fmt.Sprintf("data that was set from version %d to %d", d.since, d.last)
	}
	return ""
}

func (o *ending) compareSettings() {
	s, there, ok := read[settings](o, RuleSettings, "settings")
	switch {
	case !ok:
		return
	case o.settings != nil && string(s.text) != string(o.settings.text):
		o.differs(RuleSettings, there, "settings %s", value(o.settings.text))
	case o.settings == nil && s.text != nil:
		o.judgeEarly(&s, there)
	}
	o.checkRush() // all first members are known now
}

// judgeEarly judges joins by settings that the journal does not mention: the room had them from the beginning.
func (o *ending) judgeEarly(s *settings, there Side) {
	o.settings = s
	o.rush = rush{over: s.Over(o.early.more), version: o.early.moreAt}
	if o.early.joins != 0 && s.Closed {
		o.find(RuleClosed, o.early.joins, says(theJournal, "a join at version %d", o.early.joins), there)
	}
	if o.early.seat >= 0 && s.Beyond(o.early.seat) {
		o.find(RuleCapacity, o.early.seatAt, says(theJournal, "a join on seat %d at version %d", o.early.seat,
			o.early.seatAt), there)
	}
}

func (o *ending) compareData() {
	has, there, ok := read[*datum](o, RuleData, "data")
	if problem := o.Data.differs(has); ok && problem != "" {
		o.differs(RuleData, there, "%s", problem)
	}
}

func (o *ending) compareBans() {
	bans, there, ok := read[map[string]int64](o, RuleBans, "bans")
	if !ok {
		return
	}
	for _, user := range slices.Sorted(maps.Keys(o.bans)) {
		if until := o.bans[user]; bans[user] != until {
			o.differs(RuleBans, there, "the ban of %s is until %d (0: none)", quoted(user), until)
		}
	}
	for _, user := range slices.Sorted(maps.Keys(bans)) {
		_, mentioned := o.bans[user]
		join, came := o.came[user]
		switch {
		case mentioned:
		case o.complete:
			o.differs(RuleBans, there, "%s was never banned", quoted(user))
		case came: // the ban may be older than the journal
			o.checkBan(user, join, bans[user])
		}
	}
}

// keyNames are the room's keys, in the order of Final.TTLs.
var keyNames = []string{"Log", "Users", "Meta", "Said"}

// compareExpiry judges the expiry of the room's keys. With members, or if the settings say so, no key expires;
// otherwise each does.
func (o *ending) compareExpiry() {
	stays := len(o.Users) > 0 || o.settings != nil && o.settings.keep
	for i, ttl := range o.TTLs {
		switch {
		case stays && ttl >= 0:
			o.differs(RuleExpiry, says(inRedis, "%s, which expires in %d ms", keyNames[i], ttl), "a room that stays")
		case !stays && ttl == -1:
			o.differs(RuleExpiry, says(inRedis, "%s, which does not expire", keyNames[i]),
				"an empty room that is not kept")
		}
	}
}

// removal is the reason why somebody removed a user. Meta keeps it for the last removed users, until they come back.
type removal struct {
	Version uint64 `json:"version"`
	Reason  string `json:"reason"`
	Text    string `json:"text"`
	Target  string `json:"target"`
	Labels  string `json:"labels"`
}

// maxRemovals is how many users Meta keeps. everybody is the user for a removal of all.
const (
	maxRemovals = 128
	everybody   = ""
)

// removals are by user.
type removals map[string]removal

// add replays a removal. If there are too many, it drops the oldest one, and of several oldest the first by name.
func (all removals) add(user string, why removal) {
	all[user] = why
	if len(all) <= maxRemovals {
		return
	}
	oldest := user
	for other, is := range all {
		if first := all[oldest].Version; is.Version < first || is.Version == first && other < oldest {
			oldest = other
		}
	}
	delete(all, oldest)
}

// reopen replays that a room was closed for good, which removes everybody, or opened.
func (r *Room) reopen(e *Entry, c *Change) {
	switch {
	case c.Shut:
		r.removals.add(everybody, removal{Version: e.Version, Reason: "closed"})
	case r.settings != nil && !r.settings.Closed:
		delete(r.removals, everybody)
		r.reopened = true
	}
}

// compareRemovals judges the removals in Meta. Those from before the journal are unknown, but users who joined
// since have none.
func (o *ending) compareRemovals() {
	there, _, ok := read[map[string]removal](o, RuleGone, "gone")
	if !ok {
		return
	}
	for _, user := range slices.Sorted(maps.Keys(there)) {
		is, now := there[user], says(inRedis, "%+v", there[user])
		was, known := o.removals[user]
		_, came := o.came[user]
		came = came || user == everybody && o.reopened || o.Members[user] != nil
		switch {
		case known && was != is:
			o.differs(RuleGone, now, "%s was taken out: %+v", quoted(user), was)
		case !known && (came || o.complete || is.Version >= o.since):
			o.differs(RuleGone, now, "nobody has taken %s out, or the user has come back", quoted(user))
		}
	}
	for _, user := range slices.Sorted(maps.Keys(o.removals)) {
		if _, ok := there[user]; !ok {
			o.differs(RuleGone, says(inRedis, "nothing of that"), "%s was taken out: %+v", quoted(user),
				o.removals[user])
		}
	}
}
