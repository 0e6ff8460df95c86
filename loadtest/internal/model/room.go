// Package model says what a room allows. It replays what commits did ([Room]), a journal with its hashes ([Journal]),
// and compares that with what Redis has ([Final]). What a change cannot do by what came before is a finding, and so
// is each difference between the last state and Redis. Each entry has a hash of its own text, which names the one
// before; so an entry that was changed is a finding, whatever it says.
//
// A journal that was trimmed begins in the middle. What it has not said yet is unknown, and nothing contradicts that;
// but all that it says later, and what Redis has in the end, must fit one state in which it can have begun. The same
// holds behind a gap, which is a finding, and where an epoch begins, which is not: there Redis had lost something. To
// the witness of histories nothing is unknown: its rooms begin empty, or with a list of all that is there. It is told
// of changes as clients are, and so knows no sessions ([Room.Told]). Where entries stand is judged apart: a journal's
// by their hashes, and those of a history by the faults that may have lost some, of which a journal says nothing.
//
// A journal that a correct node can write gives no finding. What neither the journal nor Redis shows is not seen: a
// commit that is missing in both, entries that were deleted from the beginning, or hashes that somebody has computed
// anew to the end, for which no key is needed.
//
// It imports nothing of ours. A mistake in the server's rules must not hide in the proof.
package model

import (
	"fmt"
	"maps"
	"slices"

	"github.com/go-json-experiment/json"
)

// Room is what changes have said of a room since it began, or since it is not known what was before. What they have
// not said yet is unknown, and nothing contradicts that; but all that they say later must fit one state in which the
// room can have been.
type Room struct {
	Members map[string]*Member // by user, as far as they are known
	Seats   Seats              // of them
	Data    Datum

	// Told says that changes come as clients are told of them: without sessions, and of timers without when they are
	// due.
	Told bool

	// Strange are the kinds of changes that came and are not known. They change nothing for all that is known.
	Strange []string

	// Lost is how often the room was another one before, which was lost with all that was said of it.
	Lost int

	report  func(rule Rule, version uint64, one, other Side)
	epoch   string
	version uint64 // of the last changes
	state
}

// state is the rest of what is known.
type state struct {
	// complete says that the room had nothing when it began: who was not mentioned is not in it.
	complete bool
	anew     bool   // although before that there had been another room, which was lost
	since    uint64 // the first version of which it is known what it did

	gone map[string]bool // who is known to have left

	// Unless complete: who is mentioned first with a seat had it from the beginning.
	began int                 // how many such members there are
	taken map[int]uint64      // seats that were joined, and the last version that did
	came  map[string]sighting // by user: the first join, while it is not known who was banned

	more int // joins less leaves
	rush rush

	settings *settings // nil: not known
	early    early     // what happened while they are not

	host   hostState
	speech speech
	timers map[string]setTimer // by name: those that were mentioned
	bans   map[string]int64    // until when, in ms since 1970; 0 if it is known that there is none

	removals removals
	reopened bool // nobody is removed by the room's having been closed before
}

// sighting is when somebody joined.
type sighting struct {
	version uint64
	at      int64
}

// rush is when the members were nearest to the capacity, or farthest above it.
type rush struct {
	over    int // members less seats, without those of the beginning
	version uint64
	told    bool
}

// early is what is judged at the end, if the journal never says what the settings are.
type early struct {
	joins  uint64 // the version of the last join, 0 if there was none
	more   int    // the most joins less leaves
	moreAt uint64
	seat   int // the highest that was joined
	seatAt uint64
}

// NewRoom returns a room that has nothing if it is complete. Else nothing is known of it. report is told what cannot
// be.
func NewRoom(complete bool, report func(rule Rule, version uint64, one, other Side)) *Room {
	r := &Room{report: report}
	r.begin(complete)
	return r
}

// begin forgets what was known of the room.
func (r *Room) begin(complete bool) {
	r.Members, r.Seats, r.Data = make(map[string]*Member), NewSeats(), Datum{known: complete}
	r.state = state{
		complete: complete, gone: make(map[string]bool), taken: make(map[int]uint64), came: make(map[string]sighting),
		bans:   make(map[string]int64),
		timers: make(map[string]setTimer), removals: make(removals), early: early{seat: -1},
		host: hostState{known: complete},
	}
}

// Member is what is known of a member.
type Member struct {
	Away    bool
	Ready   bool // not known, if it is false
	Data    Datum
	Private Datum // which no finding shows

	since      uint64 // the version that mentioned the member first
	session    string // empty: not known
	node       string // the same
	orNode     string // another node that may be recorded instead; empty: none
	at         int64  // 0: not known
	readyKnown bool
}

// Datum is the data of a member or a room.
type Datum struct {
	Value string // normal JSON; empty: none, or not known

	known       bool
	since, last uint64 // the versions between which it was set
}

func (d *Datum) set(value string, version uint64) {
	switch {
	case !d.known: // the same value may have been set before
		d.since = 0
	case d.Value != value:
		d.since = version
	}
	d.known, d.Value, d.last = true, value, version
}

// Timers returns the names of those that are set, in order.
func (r *Room) Timers() (names []string) {
	for _, name := range slices.Sorted(maps.Keys(r.timers)) {
		if r.timers[name].Due != 0 {
			names = append(names, name)
		}
	}
	return names
}

// Host returns who is it, "" if nobody is, or it is not known.
func (r *Room) Host() string { return r.host.user }

// See replays what somebody was shown of a room besides its members: the data, who is the host, and the timers that
// are set.
func (r *Room) See(data, host string, timers []string) {
	r.Data.set(data, r.version)
	r.host = hostState{known: true, user: host}
	for _, name := range timers {
		r.timers[name] = setTimer{Due: 1}
	}
}

// Commit replays what a commit did. Where that does not fit, the room goes on as it says.
func (r *Room) Commit(e *Entry) {
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
	for _, other := range r.Seats.Settle() { // who has still the seat that another one has got
		seat := r.Seats.Of[other]
		r.report(RuleSeat, e.Version, says(theEntry, "%s gets seat %d", quoted(r.Seats.At[seat]), seat),
			says(before, "%s", r.sitting(other)))
	}
	r.checkHost(e)
}

// adoptDefaults takes over the settings that a room without any gets with an entry: they
// counted for all of its changes. It returns which change that is, -1 if there is none.
func (r *Room) adoptDefaults(e *Entry) int {
	for i := range e.Changes {
		if c := &e.Changes[i]; r.settings == nil && c.Type == typeDefaults {
			r.configure(e, c)
			return i
		}
	}
	return -1
}

func (r *Room) apply(e *Entry, c *Change) {
	switch c.Type {
	case typeJoin:
		r.join(e, c)
	case typeLeave:
		r.leave(e, c)
	case typeReplace, typeAway, typeBack:
		r.speak(e, c)
	case typeSeat:
		r.reseat(e, c)
	case typeMember:
		if m := r.present(c); m != nil {
			if c.Ready != nil {
				m.Ready, m.readyKnown = *c.Ready, true
			}
			if c.Data != nil {
				m.Data.set(string(normal(c.Data)), e.Version)
			}
		}
	case typePrivate:
		if m := r.present(c); m != nil && c.Data != nil {
			m.Private.set(string(normal(c.Data)), e.Version)
		}
	case typeDefaults:
		if r.settings != nil {
			r.report(RuleSettings, e.Version, says(theEntry, "the room gets the default settings %s",
				value(c.Settings)),
				says(before, "it has %s", value(r.settings.text)))
		}
		r.configure(e, c)
	case typeSettings:
		r.configure(e, c)
		r.reopen(e, c)
	case typeData: // it is there only if the data changed
		r.Data = Datum{string(normal(c.Data)), true, e.Version, e.Version}
	case typeBan:
		r.bans[c.User] = c.Until
	case typeTimer, typeCountdown:
		r.countdown(e, c)
	case typeHost:
		r.appoint(e, c)
	case typeMessage:
		r.speech.say(e, c, r.settings != nil)
	default: // who adds a kind that leaves the room as it was adds nothing here
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
	r.settings = &s
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

// checkRush reports that there were more members than seats.
func (r *Room) checkRush() {
	if n := r.rush.over + r.began; n > 0 && !r.rush.told && r.settings != nil {
		r.rush.told = true
		r.report(RuleCapacity, r.rush.version, says(theJournal, "%d members at version %d", n+r.settings.Capacity,
			r.rush.version),
			says("the settings", "%d seats", r.settings.Capacity))
	}
}

// sitting says where a member sits.
func (r *Room) sitting(user string) string {
	return fmt.Sprintf("%s sits on seat %d, which version %d mentions first", quoted(user), r.Seats.Of[user],
		r.Members[user].since)
}
