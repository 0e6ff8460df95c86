package audit

import (
	"fmt"

	"github.com/go-json-experiment/json"

	"roomd/loadtest/internal/model"
)

// oracle replays the journal of one room by rules of its own.
type oracle struct {
	chain
	state
}

func newOracle(room string, report func(Finding)) *oracle {
	return &oracle{chain{room: room, report: report, epochs: make(map[string]bool)}, newState(false)}
}

// state is what the journal has said of a room since it began, or since a gap.
type state struct {
	// complete says that the room had nothing when it began: who was not mentioned is not in it.
	complete bool
	anew     bool   // although before that there had been another room, which was lost
	since    uint64 // the first version of which it is known what it did

	members map[string]*member
	seats   model.Seats     // of the members, as far as it is known
	gone    map[string]bool // who is known to have left

	// Unless complete: who is mentioned first with a seat had it from the beginning.
	began int                 // how many such members there are
	taken map[int]uint64      // seats that were joined, and the last version that did
	came  map[string]sighting // by user: the first join, while it is not known who was banned

	more int // joins less leaves
	rush rush

	settings *settings // nil: not known
	early    early     // what happened while they are not

	host   hostState
	data   dataState
	speech speech
	timers map[string]setTimer // by name: those that were mentioned
	bans   map[string]int64    // until when, in ms since 1970; 0 if it is known that there is none

	removals map[string]removal // by user
	reopened bool               // nobody is removed by the room's having been closed before
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

func newState(complete bool) state {
	return state{
		complete: complete, members: make(map[string]*member), seats: model.NewSeats(), gone: make(map[string]bool),
		taken: make(map[int]uint64), came: make(map[string]sighting), bans: make(map[string]int64), timers: make(map[string]setTimer), removals: make(map[string]removal),
		early: early{seat: -1}, data: dataState{known: complete}, host: hostState{known: complete},
	}
}

// member is what is known of a member.
type member struct {
	since   uint64 // the version that mentioned the member first
	session string // empty: not known
	node    string // the same
	orNode  string // another node that may be recorded instead; empty: none
	at      int64  // 0: not known
	ready   bool   // valid if readyKnown
	data    dataState
	private dataState // which no finding shows

	readyKnown bool
}

// dataState is the data of a member or a room, and the versions between which it was set.
type dataState struct {
	known       bool
	value       string // normal JSON; empty: none
	since, last uint64
}

func (d *dataState) set(value string, version uint64) {
	switch {
	case !d.known: // the same value may have been set before
		d.since = 0
	case d.value != value:
		d.since = version
	}
	d.known, d.value, d.last = true, value, version
}

// lose forgets what was known of the room: something is missing.
func (o *oracle) lose() { o.state = newState(false) }

// next replays one entry. Where it does not fit, the oracle goes on as the entry says.
func (o *oracle) next(e *entry) {
	o.at = e.id
	defer func() { o.at = "" }()
	o.checkText(e)
	if !o.follows(e) {
		return
	}
	o.begun, o.epoch, o.version, o.mark = true, e.Epoch, e.Version, e.Mark
	o.marks.put(e.Version, e.Mark)
	if o.since == 0 {
		o.since = e.Version
	}
	adopted := o.adoptDefaults(e)
	for i := range e.Changes {
		if i != adopted {
			o.apply(e, &e.Changes[i])
		}
	}
	o.checkDisplaced(e)
	o.checkHost(e)
}

// follows judges the entry's position. It reports whether the entry is to be applied.
func (o *oracle) follows(e *entry) bool {
	switch {
	case !o.begun:
		if e.Prev == "" { // with what comes back, if Redis had forgotten the room
			o.state = newState(true)
		}
		o.checkPrev(e, "", false)
	case e.Epoch != o.epoch:
		o.renew(e)
		o.lose()
	case e.Version == o.version+1:
		o.checkPrev(e, o.mark, true)
	case e.Version <= o.version:
		o.find(RuleTwice, e.Version, says(theEntry, "version %d, mark %s", e.Version, quoted(e.Mark)),
			says(before, "version %d, mark %s", o.version, quoted(o.mark)))
		return false
	default:
		o.find(RuleGap, e.Version, says(theEntry, "version %d", e.Version), says(before, "version %d: %s", o.version, whyGap))
		o.lose()
	}
	return true
}

// whyGap says what a gap can come from.
const whyGap = "did nodes with another --journal work, or were entries deleted?"

// adoptDefaults takes over the settings that a room without any gets with an entry: they
// counted for all of its changes. It returns which change that is, -1 if there is none.
func (o *oracle) adoptDefaults(e *entry) int {
	for i := range e.Changes {
		if c := &e.Changes[i]; o.settings == nil && c.Type == typeDefaults {
			o.configure(e, c)
			return i
		}
	}
	return -1
}

func (o *oracle) apply(e *entry, c *change) {
	switch c.Type {
	case typeJoin:
		o.join(e, c)
	case typeLeave:
		o.leave(e, c)
	case typeReplace, typeAway, typeBack:
		o.speak(e, c)
	case typeSeat:
		o.reseat(e, c)
	case typeMember:
		if m := o.present(c); m != nil {
			if c.Ready != nil {
				m.ready, m.readyKnown = *c.Ready, true
			}
			if c.Data != nil {
				m.data.set(string(normal(c.Data)), e.Version)
			}
		}
	case typePrivate:
		if m := o.present(c); m != nil && c.Data != nil {
			m.private.set(string(normal(c.Data)), e.Version)
		}
	case typeDefaults:
		if o.settings != nil {
			o.find(RuleSettings, e.Version, says(theEntry, "the room gets the default settings %s", value(c.Settings)),
				says(before, "it has %s", value(o.settings.text)))
		}
		o.configure(e, c)
	case typeSettings:
		o.configure(e, c)
		o.reopen(e, c)
	case typeData: // it is there only if the data changed
		o.data = dataState{true, string(normal(c.Data)), e.Version, e.Version}
	case typeBan:
		o.bans[c.User] = c.Until
	case typeTimer, typeCountdown:
		o.countdown(e, c)
	case typeHost:
		o.appoint(e, c)
	case typeMessage:
		o.say(e, c)
	default:
		o.find(RuleEntry, e.Version, says(theEntry, "a change of type %s", quoted(c.Type)), says("this program", "knows no such type: is it older than the nodes?"))
	}
}

func (o *oracle) configure(e *entry, c *change) {
	var s settings
	if err := json.Unmarshal(c.Settings, &s); err != nil {
		o.find(RuleEntry, e.Version, says(theEntry, "settings %s", value(c.Settings)), says("this program", "cannot read them: %v", err))
		return
	}
	if o.settings == nil || o.settings.history != s.history {
		o.keep(s.history)
	}
	o.settings = &s
	o.rush = rush{over: s.Over(o.more), version: e.Version}
	o.checkRush()
	for seat, user := range o.seats.At {
		if s.Beyond(seat) {
			o.find(RuleCapacity, e.Version, says(theEntry, "%d seats", s.Capacity), says(before, "%s sits on seat %d", quoted(user), seat))
			return
		}
	}
}

// checkRush reports that there were more members than seats.
func (o *oracle) checkRush() {
	if n := o.rush.over + o.began; n > 0 && !o.rush.told && o.settings != nil {
		o.rush.told = true
		o.find(RuleCapacity, o.rush.version, says(theJournal, "%d members at version %d", n+o.settings.Capacity, o.rush.version),
			says("the settings", "%d seats", o.settings.Capacity))
	}
}

// sitting says where a member sits.
func (s *state) sitting(user string) string {
	return fmt.Sprintf("%s sits on seat %d, which version %d mentions first", quoted(user), s.seats.Of[user], s.members[user].since)
}
