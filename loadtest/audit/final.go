package audit

import (
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json"
)

// final is a room as Redis has it.
type final struct {
	users map[string]string // user → member as JSON
	meta  map[string]string
	said  []string // the messages that the room keeps, oldest first
	ttls  []int64  // of the journal, users, meta and said, in ms; -1 for a key that stays, -2 for none
}

// compare judges the room by what the journal makes.
func (o *oracle) compare(f *final) {
	if len(f.meta) == 0 && len(f.users) == 0 {
		if len(o.members) > 0 || o.settings != nil && o.settings.keep {
			o.find(RulePosition, o.version, says(theJournal, "version %d with %d members", o.version, len(o.members)), says(inRedis, "no such room"))
		}
		return
	}
	if !o.isAt(f) {
		return
	}
	if n := f.meta["members"]; n != strconv.Itoa(len(f.users)) {
		o.find(RuleCount, o.version, says("Meta", "members %s", quoted(n)), says(inRedis, "%d members", len(f.users)))
	}
	for _, user := range slices.Sorted(maps.Keys(f.users)) {
		o.compareMember(user, f.users[user])
	}
	for _, user := range slices.Sorted(maps.Keys(o.members)) {
		if _, ok := f.users[user]; !ok {
			o.find(RuleMember, o.version, says(theJournal, "%s", o.sitting(user)),
				says(inRedis, "no %s in the room", quoted(user)))
		}
	}
	o.compareSettings(f.meta["settings"])
	o.compareData(f.meta["data"])
	o.compareTimers(f.meta["timers"])
	o.compareSaid(f.said)
	o.compareHost(f)
	o.compareBans(f.meta["bans"])
	o.compareRemovals(f.meta["gone"])
	o.compareExpiry(f)
}

// isAt judges the position. It reports whether the rest can be compared.
func (o *oracle) isAt(f *final) bool {
	meta := f.meta
	here := says(theJournal, "epoch %s, version %d, mark %s", quoted(o.epoch), o.version, quoted(o.mark))
	there := says(inRedis, "epoch %s, version %s, mark %s", quoted(meta["epoch"]), quoted(meta["version"]), quoted(meta["mark"]))
	version, _ := strconv.ParseUint(meta["version"], 10, 64)
	switch {
	case meta["epoch"] == o.epoch && version > o.version:
		there.Says += ": " + whyGap
		o.find(RuleGap, version, here, there)
	case meta["epoch"] != o.epoch || version != o.version || meta["mark"] != o.mark:
		o.find(RulePosition, o.version, here, there)
	default:
		return true
	}
	return false
}

func (o *oracle) compareMember(user, text string) {
	var r record
	there := says(inRedis, "%s: %s", quoted(user), value([]byte(text)))
	if err := json.Unmarshal([]byte(text), &r); err != nil {
		o.find(RuleMember, o.version, says("this program", "cannot read the member: %v", err), there)
		return
	}
	if r.Private != nil && len(r.Private.Value) > 0 {
		there = says(inRedis, "%s: %s", quoted(user), value([]byte(strings.ReplaceAll(text, string(r.Private.Value), `"…"`))))
	}
	m := o.members[user]
	switch {
	case m == nil && (o.complete || o.gone[user]):
		o.find(RuleMember, o.version, says(theJournal, "%s is not in the room", quoted(user)), there)
		return
	case m == nil:
		o.infer(user, r.Seat)
		return
	}
	differs := func(format string, args ...any) {
		o.find(RuleMember, o.version, says(theJournal, format, args...), there)
	}
	switch {
	case o.seats.Of[user] != r.Seat:
		differs("%s", o.sitting(user))
	case m.session != "" && m.session != r.Session:
		differs("session %s speaks for %s", quoted(m.session), quoted(user))
	case m.node != "" && m.node != r.Node && m.orNode != r.Node && m.orNode != anyNode:
		differs("the session of %s is on node %s", quoted(user), quoted(m.node))
	case m.at != 0 && m.at != r.At:
		differs("%s joined at %d", quoted(user), m.at)
	case m.readyKnown && m.ready != r.Ready:
		differs("ready of %s is %v", quoted(user), m.ready)
	case m.private.differs(r.Private) != "":
		differs("%s has other private data, or has had them from another version on", quoted(user))
	default:
		if problem := m.data.differs(r.Data); problem != "" {
			differs("%s of %s", problem, quoted(user))
		}
	}
}

// differs says what the journal makes of data, if Redis has something else.
func (d *dataState) differs(there *datum) string {
	if there == nil {
		there = new(datum)
	}
	got := string(normal(there.Value))
	switch {
	case !d.known:
	case got != d.value:
		return "data " + value([]byte(d.value))
	case there.Version < d.since || there.Version > d.last:
		return "data that was set from version " + strconv.FormatUint(d.since, 10) + " to " + strconv.FormatUint(d.last, 10)
	}
	return ""
}

func (o *oracle) compareSettings(text string) {
	there := says(inRedis, "settings %s", value([]byte(text)))
	var s settings
	if text != "" {
		var err error
		if s, err = parseSettings([]byte(text)); err != nil {
			o.find(RuleSettings, o.version, says("this program", "cannot read the settings: %v", err), there)
			return
		}
	}
	switch {
	case o.settings != nil && string(s.text) != string(o.settings.text):
		o.find(RuleSettings, o.version, says(theJournal, "settings %s", value(o.settings.text)), there)
	case o.settings == nil && text != "":
		o.judgeEarly(&s, there)
	}
	o.checkRush() // all who were there from the beginning are known now
}

// judgeEarly judges joins by settings which the journal does not mention: the room had them
// from the beginning.
func (o *oracle) judgeEarly(s *settings, there Side) {
	o.settings = s
	o.rush = rush{over: s.Over(o.early.more), version: o.early.moreAt}
	if o.early.joins != 0 && s.Closed {
		o.find(RuleClosed, o.early.joins, says(theJournal, "a join at version %d", o.early.joins), there)
	}
	if o.early.seat >= 0 && s.Beyond(o.early.seat) {
		o.find(RuleCapacity, o.early.seatAt, says(theJournal, "a join on seat %d at version %d", o.early.seat, o.early.seatAt), there)
	}
}

func (o *oracle) compareData(text string) {
	var there *datum
	if text != "" {
		there = new(datum)
		if err := json.Unmarshal([]byte(text), there); err != nil {
			o.find(RuleData, o.version, says("this program", "cannot read the data: %v", err), says(inRedis, "data %s", value([]byte(text))))
			return
		}
	}
	if problem := o.data.differs(there); problem != "" {
		o.find(RuleData, o.version, says(theJournal, "%s", problem), says(inRedis, "data %s", value([]byte(text))))
	}
}

func (o *oracle) compareBans(text string) {
	there := says(inRedis, "bans %s", value([]byte(text)))
	bans := make(map[string]int64)
	if text != "" {
		if err := json.Unmarshal([]byte(text), &bans); err != nil {
			o.find(RuleBans, o.version, says("this program", "cannot read the bans: %v", err), there)
			return
		}
	}
	for _, user := range slices.Sorted(maps.Keys(o.bans)) {
		until := o.bans[user]
		if bans[user] != until {
			o.find(RuleBans, o.version, says(theJournal, "the ban of %s is until %d (0: none)", quoted(user), until), there)
		}
	}
	for _, user := range slices.Sorted(maps.Keys(bans)) {
		if _, mentioned := o.bans[user]; mentioned {
			continue
		}
		if o.complete {
			o.find(RuleBans, o.version, says(theJournal, "%s was never banned", quoted(user)), there)
		} else if join, came := o.came[user]; came { // the ban is as old as the journal
			o.checkBan(user, join, bans[user])
		}
	}
}

// keyNames are the room's keys, in the order of final.ttls.
var keyNames = []string{"Log", "Users", "Meta", "Said"}

// compareExpiry judges whether Redis keeps the room: with members, or if the settings say so, no key
// expires; else each does.
func (o *oracle) compareExpiry(f *final) {
	stays := len(f.users) > 0 || o.settings != nil && o.settings.keep
	for i, ttl := range f.ttls {
		switch {
		case stays && ttl >= 0:
			o.find(RuleExpiry, o.version, says(theJournal, "a room that stays"), says(inRedis, "%s, which expires in %d ms", keyNames[i], ttl))
		case !stays && ttl == -1:
			o.find(RuleExpiry, o.version, says(theJournal, "an empty room that is not kept"), says(inRedis, "%s, which does not expire", keyNames[i]))
		}
	}
}
