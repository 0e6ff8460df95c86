// Package model has the rules of a room. It replays commits ([Room]) and a journal with its hashes ([Journal]),
// and compares the result with Redis ([Final]). A change that the state before does not allow is a finding, and
// so is each difference between the last state and Redis. Each entry has a hash of its own text, and the hash
// of the entry before; so a changed entry is a finding, whatever it says.
//
// A trimmed journal lacks its first entries. State that it has not mentioned yet is unknown, and contradicts nothing.
// But all later entries, and Redis in the end, must fit one possible first state. The same holds after a gap, which is
// a finding, and at a new epoch, which is none, because Redis had lost data there. The witness of histories has no
// unknown state: its rooms start empty, or with a complete list. It gets changes in the clients' form, and so knows no
// sessions ([Room.Told]). The order of entries is judged elsewhere: a journal's by its hashes, a history's by the
// faults that may have lost entries.
//
// A correct node's journal has no findings. Some defects show neither in the journal nor in Redis: a commit
// that is missing in both, deleted first entries, or hashes that somebody has recomputed up to the end, for
// which no key is needed.
//
// It imports nothing of ours, so that a mistake in the server's rules cannot hide in the proof.
package model

import (
	"fmt"
	"maps"
	"slices"

	"github.com/go-json-experiment/json"
)

// Room is the part of a room's state that its changes have shown. Other state is unknown, and contradicts nothing. But
// all later changes must fit one possible first state.
type Room struct {
	Members map[string]*Member // known members by user
	Seats   Seats              // their seats
	Data    Datum

	// Told says that changes come in the clients' form: without sessions, and without the due times of timers.
	Told bool

	// Strange has the unknown kinds of changes so far. They are ignored.
	Strange []string

	// Lost counts how often the room was lost with all its state.
	Lost int

	report  func(rule Rule, version uint64, one, other Side)
	epoch   string
	version uint64 // of the last changes
	state
}

// state is the rest of the room's state.
type state struct {
	// complete says that the room started empty: users who were not mentioned are not in it.
	complete bool
	anew     bool   // an earlier room of the same name was lost
	since    uint64 // the first version whose changes are known
	renewed  bool   // the last commit began an epoch, or is the first known

	gone map[string]bool // users who left

	// Unless complete, a user first mentioned with a seat had it from the beginning.
	began int                 // number of such members
	taken map[int]uint64      // seats of joins, with the version of the last join
	came  map[string]sighting // first join by user, while it is unknown who was banned

	more int // number of joins minus leaves
	rush rush

	settings *settings // nil if unknown
	early    early     // joins while they are unknown

	host   hostState
	speech speech
	timers map[string]setTimer // by name: timers that were mentioned
	bans   map[string]int64    // end in ms since 1970; 0 if the user is certainly not banned

	removals removals
	reopened bool // no removal by closing the room counts any more
}

// sighting is the time of a join.
type sighting struct {
	version uint64
	at      int64
}

// rush is the moment with the most members relative to the capacity.
type rush struct {
	over    int // members minus seats, without the first members
	version uint64
	told    bool
}

// early collects joins, to be judged at the end if the journal never mentions the settings.
type early struct {
	joins  uint64 // version of the last join, or 0
	more   int    // maximum of joins minus leaves
	moreAt uint64
	seat   int // the highest seat of a join
	seatAt uint64
}

// NewRoom returns an empty room if complete, otherwise one with unknown state. It calls report for each
// impossible change.
func NewRoom(complete bool, report func(rule Rule, version uint64, one, other Side)) *Room {
	r := &Room{report: report}
	r.begin(complete)
	return r
}

func (r *Room) begin(complete bool) {
	r.Members, r.Seats, r.Data = make(map[string]*Member), NewSeats(), Datum{known: complete}
	r.state = state{
		complete: complete, gone: make(map[string]bool), taken: make(map[int]uint64), came: make(map[string]sighting),
		bans:   make(map[string]int64),
		timers: make(map[string]setTimer), removals: make(removals), early: early{seat: -1},
		host: hostState{known: complete},
	}
}

// Member is the known state of a member.
type Member struct {
	Away    bool
	Ready   bool // false may mean unknown
	Data    Datum
	Private Datum // findings do not show it
	Agreed  Datum // to be moved to which tables

	since      uint64 // version that first mentioned the member
	session    string // "" if unknown
	node       string // "" if unknown
	orNode     string // the other node that Redis may have, or anyNode; "" for none
	at         int64  // 0 if unknown
	readyKnown bool
}

// Datum is the data of a member or a room.
type Datum struct {
	Value string // normal JSON; "" for none or unknown

	known       bool
	since, last uint64 // first and last version that may have set it
}

func (d *Datum) set(value string, version uint64) {
	switch {
	case !d.known: // an earlier version may have set the same value
		d.since = 0
	case d.Value != value:
		d.since = version
	}
	d.known, d.Value, d.last = true, value, version
}

// Timers returns the sorted names of the timers that are set.
func (r *Room) Timers() (names []string) {
	for _, name := range slices.Sorted(maps.Keys(r.timers)) {
		if r.timers[name].Due != 0 {
			names = append(names, name)
		}
	}
	return names
}

// Host returns the host; "" for nobody or unknown.
func (r *Room) Host() string { return r.host.user }

// See replays a client's view of a room apart from its members: the data, the host, and the timers that are set.
func (r *Room) See(data, host string, timers []string) {
	r.Data.set(data, r.version)
	r.host = hostState{known: true, user: host}
	for _, name := range timers {
		r.timers[name] = setTimer{Due: 1}
	}
}

// Commit replays a commit. After a contradiction, the room has the commit's state.
func (r *Room) Commit(e *Entry) {
	r.renewed = r.since == 0 || e.Epoch != r.epoch
	r.epoch, r.version = e.Epoch, e.Version
	if r.since == 0 {
		r.since = e.Version
	}
	adopted := r.adoptDefaults(e)
	for i := range e.Changes {
		if i != adopted {
			r.apply(e, &e.Changes[i])
		}
	}
	for _, other := range r.Seats.Settle() { // members on a seat that another member got
		seat := r.Seats.Of[other]
		r.report(RuleSeat, e.Version, says(theEntry, "%s gets seat %d", quoted(r.Seats.At[seat]), seat),
			says(before, "%s", r.sitting(other)))
	}
	if r.renewed && e.recalls() && r.settings != nil {
		r.checkSeats(e)
	}
	r.checkHost(e)
}

// adoptDefaults applies the default settings that an entry gives to a room without settings: they hold for all
// changes of the entry. It returns the index of that change, or -1.
func (r *Room) adoptDefaults(e *Entry) int {
	for i := range e.Changes {
		if c := &e.Changes[i]; r.settings == nil && c.Type == "defaults" {
			r.configure(e, c)
			return i
		}
	}
	return -1
}

func (r *Room) apply(e *Entry, c *Change) {
	switch c.Type {
	case "join":
		r.join(e, c)
	case "leave":
		r.leave(e, c)
	case "replace", "away", "back":
		r.speak(e, c)
	case "seat":
		r.reseat(e, c)
	case "member":
		if m := r.present(c); m != nil {
			if c.Ready != nil {
				m.Ready, m.readyKnown = *c.Ready, true
			}
			if c.Data != nil {
				m.Data.set(string(normal(c.Data)), e.Version)
			}
		}
	case "private":
		if m := r.present(c); m != nil && c.Data != nil {
			m.Private.set(string(normal(c.Data)), e.Version)
		}
	case "agree":
		if m := r.present(c); m != nil {
			m.Agreed.set(string(normal(c.Agreed)), e.Version)
		}
	case "defaults":
		if r.settings != nil {
			r.report(RuleSettings, e.Version, says(theEntry, "the room gets the default settings %s",
				value(c.Settings)),
				says(before, "it has %s", value(r.settings.text)))
		}
		r.configure(e, c)
	case "settings":
		r.configure(e, c)
		r.reopen(e, c)
	case "data": // the field exists only if the data changed
		r.Data = Datum{string(normal(c.Data)), true, e.Version, e.Version}
	case "ban":
		r.bans[c.User] = c.Until
	case "timer", "countdown":
		r.countdown(e, c)
	case "host":
		r.appoint(e, c)
	case "message":
		r.speech.say(e, c, r.settings != nil)
	default: // ignored; add a case for a new kind only if it changes this state
		if !slices.Contains(r.Strange, c.Type) {
			r.Strange = append(r.Strange, c.Type)
		}
	}
}

func (r *Room) configure(e *Entry, c *Change) {
	var s settings
	if err := json.Unmarshal(c.Settings, &s); err != nil {
		r.report(RuleEntry, e.Version, says(theEntry, "settings %s", value(c.Settings)),
			says("this program", "cannot read them: %v", err))
		return
	}
	if r.settings == nil || r.settings.history != s.history {
		r.speech.keep(s.history)
	}
	r.settings, r.rush = &s, rush{told: true} // judged by checkSeats
	if !c.Again || !r.renewed {               // members who do not come back leave after the settings
		r.checkSeats(e)
	}
}

// checkSeats judges whether all members have a seat by the settings of an entry.
func (r *Room) checkSeats(e *Entry) {
	s := r.settings
	r.rush = rush{over: s.Over(r.more), version: e.Version}
	r.checkRush()
	for seat, user := range r.Seats.At {
		if s.Beyond(seat) {
			r.report(RuleCapacity, e.Version, says(theEntry, "%d seats", s.Capacity),
				says(before, "%s sits on seat %d", quoted(user), seat))
			return
		}
	}
}

// checkRush reports more members than seats.
func (r *Room) checkRush() {
	if n := r.rush.over + r.began; n > 0 && !r.rush.told && r.settings != nil {
		r.rush.told = true
		r.report(RuleCapacity, r.rush.version, says(theJournal, "%d members at version %d", n+r.settings.Capacity,
			r.rush.version),
			says("the settings", "%d seats", r.settings.Capacity))
	}
}

// sitting describes a member's seat.
func (r *Room) sitting(user string) string {
	return fmt.Sprintf("%s sits on seat %d, which version %d mentions first", quoted(user), r.Seats.Of[user],
		r.Members[user].since)
}
