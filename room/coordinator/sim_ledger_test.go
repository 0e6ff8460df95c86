package coordinator

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"
)

// The model of the simulation: what commits make of rooms. It uses none of the rules of package room. Nor is it the model of loadtest's
// checkers: imports run the other way, and of what Redis loses, and when, the simulation knows more than a journal says.

// simSeats is how many seats each room has.
const simSeats = 4

// simPosition says where a room stands.
type simPosition struct {
	Epoch   string `json:"epoch"`
	Version uint64 `json:"version"`
}

func (p simPosition) String() string { return fmt.Sprintf("%.4s/%d", p.Epoch, p.Version) }

// simCommit is a commit as Redis tells it to all nodes; or, if lost is true, no commit: from there on rooms
// are what they were at the positions of kept, and nothing where there is none.
type simCommit struct {
	simPosition
	Mark, Prev, Node string
	Changes          []simChange

	room string
	at   time.Time
	lost bool
	kept map[string]simPosition

	state *simState // of the room, after it
}

// simChange is one change of a commit.
type simChange struct {
	Type, User, Session, Old, Reason, Text, Target string

	Seat           int
	Data, Settings json.RawMessage

	Timer *simTimer
	Again bool // Redis had lost that
}

// simTimer is what a change says of a timer.
type simTimer struct {
	Name string
	Due  int64 // 0: it has fired
}

// told returns the change as players see it, "" if they do not.
func (c simChange) told() string {
	if c.Type == "replace" || c.Type == "ban" || c.Type == "defaults" || c.Type == "settings" {
		return ""
	}
	if c.Timer != nil {
		return c.Type + " " + c.Timer.Name
	}
	return strings.TrimSpace(fmt.Sprintf("%s %s@%d %s %s%s%s", c.Type, c.User, c.Seat, c.Reason, c.Text, c.Target, c.Data))
}

func (c *simCommit) told() string {
	var list []string
	for _, change := range c.Changes {
		if text := change.told(); text != "" {
			list = append(list, text)
		}
	}
	return strings.Join(list, "; ")
}

// simState is a room at one position.
type simState struct {
	simPosition
	mark    string
	members map[string]simMember
	data    string
	dataAt  uint64
	host    string
	rules   string               // the settings
	timers  map[string]bool      // those that are set, and have not fired
	removed map[string]time.Time // when users were kicked or moved out who have not come back
	most    int                  // members while the actions of its commit were run
	anew    bool                 // commits were lost: the next one begins a new epoch
	at      time.Time            // of its last commit
}

type simMember struct {
	seat    int
	session string // after a ~ if it is away, after ~+ if the seat is reserved
}

// list returns who is in the room, by seat.
func (s *simState) list() string {
	var list []string
	for seat := range simSeats {
		for _, user := range slices.Sorted(maps.Keys(s.members)) {
			if m := s.members[user]; m.seat == seat {
				list = append(list, simOccupant(user, seat, strings.HasPrefix(m.session, "~")))
			}
		}
	}
	return strings.Join(list, " ")
}

func simOccupant(user string, seat int, away bool) string {
	if away {
		return fmt.Sprintf("(%s@%d)", user, seat)
	}
	return fmt.Sprintf("%s@%d", user, seat)
}

// simLedger is all that was committed, in the order in which Redis carried it out.
type simLedger struct {
	mu      sync.Mutex
	commits []*simCommit // guarded by mu
}

func newSimLedger() *simLedger { return new(simLedger) }

// commit is called by Redis while it carries a commit out.
func (l *simLedger) commit(id, event string) {
	c := &simCommit{room: id, at: time.Now()}
	if err := json.Unmarshal([]byte(event), c); err != nil {
		panic(fmt.Sprintf("event %s: %v", event, err))
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.commits = append(l.commits, c)
}

// lost records that Redis has lost all but what is kept.
func (l *simLedger) lost(kept map[string]simPosition) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.commits = append(l.commits, &simCommit{lost: true, kept: kept, at: time.Now()})
}

// all returns the commits until now.
func (l *simLedger) all() []*simCommit {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.commits)
}

// apply returns the room after a commit, and says what the commit has broken. lost are the versions that the room had before in
// other epochs, which nodes may know.
func (s *simState) apply(c *simCommit, idle time.Duration, lost []*simState) (next *simState, faults []string) {
	fault := func(format string, args ...any) {
		faults = append(faults, fmt.Sprintf("room %s, %v at %s: ", c.room, c.simPosition, c.at.Format("4:05.000"))+fmt.Sprintf(format, args...))
	}
	if len(s.members) == 0 && s.Epoch != c.Epoch && c.Version == 1 && c.Prev == "" && c.at.Sub(s.at) >= idle {
		s = new(simState) // Redis has forgotten the empty room
	}
	next = s.clone()
	next.simPosition, next.mark, next.at = c.simPosition, c.Mark, c.at
	switch {
	case c.Version != s.Version+1 && (c.Epoch == s.Epoch || c.Version <= s.Version):
		fault("version %d follows version %d of epoch %.4s", c.Version, s.Version, s.Epoch)
	case c.Prev != s.mark:
		fault("it builds on another commit than the one before")
	case c.Epoch == s.Epoch && s.anew:
		fault("the epoch goes on, although Redis has lost commits")
	case c.Epoch != s.Epoch && s.Epoch != "" && !s.anew && !slices.ContainsFunc(lost, func(was *simState) bool { return was.Version >= s.Version }): // that comes back behind a newcomer
		fault("an epoch begins, and Redis has lost nothing")
	}
	if wrong := s.recalled(c, lost); wrong != "" {
		fault("%s", wrong)
	}
	next.most = len(next.members)
	for _, change := range c.Changes {
		if text := next.change(change, c.Version); text != "" {
			fault("%s %s: %s", change.Type, change.User, text)
		}
		next.most = max(next.most, len(next.members))
	}
	if _, in := next.members[next.host]; strings.Contains(next.rules, `"host":"longest"`) && in != (len(next.members) > 0) {
		fault("the host is %q, and the list is %s", next.host, next.list())
	}
	return next, faults
}

func (s *simState) clone() *simState {
	next := &simState{simPosition: s.simPosition, data: s.data, dataAt: s.dataAt, host: s.host, rules: s.rules, at: s.at,
		members: make(map[string]simMember), timers: make(map[string]bool), removed: make(map[string]time.Time)}
	maps.Copy(next.members, s.members)
	maps.Copy(next.timers, s.timers)
	maps.Copy(next.removed, s.removed)
	return next
}

// recalled says why the room is not as it was at one of the versions that were lost, behind the changes of a commit that say they bring
// that back, and if versions are left out, as it was at the last of them.
func (s *simState) recalled(c *simCommit, lost []*simState) (wrong string) {
	last := -1
	for i, change := range c.Changes {
		if change.Again {
			last = i
		}
	}
	if last < 0 && (c.Version == s.Version+1 || c.Epoch == s.Epoch) { // that is another fault
		return ""
	}
	next := s.clone()
	for _, change := range c.Changes[:last+1] {
		next.change(change, c.Version)
	}
	wrong = "nobody has seen what it goes on with"
	for _, was := range lost {
		if was.Version < c.Version && (c.Version == s.Version+1 || was.Version == c.Version-1) {
			if wrong = next.differs(was, s); wrong == "" {
				return ""
			}
		}
	}
	return "it is to be as it was: " + wrong
}

// differs says in what the room is not what it was. Of a room that others have begun meanwhile, now, everything stays, also that
// users were kicked or moved out of it.
func (s *simState) differs(was, now *simState) string {
	whole := was.Epoch == now.Epoch
	for user, m := range s.members {
		before, in := was.members[user]
		if there, stays := now.members[user]; whole && m != before || !in && !stays || stays && !whole && m != there {
			return fmt.Sprintf("%s is %v, and was %v, %v", user, m, before, in)
		}
	}
	for user, m := range was.members {
		_, in := s.members[user]
		taken := len(s.members) == simSeats || strings.Contains(s.list(), fmt.Sprintf("@%d", m.seat))
		if !in && (whole || !taken && !now.removed[user].After(was.at)) {
			return fmt.Sprintf("%s is missing on seat %d", user, m.seat)
		}
	}
	_, in := s.members[was.host]
	_, began := now.members[was.host]
	switch {
	case s.data != was.data && (whole || s.data != now.data || now.data == ""):
		return fmt.Sprintf("the data are %q, and were %q", s.data, was.data)
	case s.rules != was.rules && (whole || s.rules != now.rules):
		return fmt.Sprintf("the settings are %s, and were %s", s.rules, was.rules)
	case s.host != was.host && in && !began:
		return fmt.Sprintf("the host is %s, and was %s", s.host, was.host)
	}
	return ""
}

// change applies one change, and says what it has broken.
func (s *simState) change(c simChange, version uint64) (fault string) {
	m, in := s.members[c.User]
	switch c.Type {
	case "join":
		for user, other := range s.members {
			if other.seat == c.Seat {
				fault = fmt.Sprintf("seat %d is %s's", c.Seat, user)
			}
		}
		if in {
			fault = "a member already"
		} else if c.Seat < 0 || c.Seat >= simSeats {
			fault = fmt.Sprintf("there is no seat %d", c.Seat)
		}
		s.members[c.User] = simMember{c.Seat, c.Session}
		delete(s.removed, c.User)
	case "leave":
		if !in || m.seat != c.Seat {
			fault = fmt.Sprintf("no member on seat %d", c.Seat)
		}
		delete(s.members, c.User)
		if c.Reason == "kicked" || c.Reason == "moved" {
			s.removed[c.User] = s.at
		}
	case "replace", "back", "away":
		if !in || m.seat != c.Seat || m.session != c.Old {
			fault = fmt.Sprintf("no member with session %s on seat %d", c.Old, c.Seat)
		}
		s.members[c.User] = simMember{c.Seat, c.Session}
	case "host":
		s.host = c.User
	case "settings", "defaults":
		s.rules = string(c.Settings)
	case "data":
		s.data, s.dataAt = string(c.Data), version
	case "countdown":
		if s.timers[c.Timer.Name] {
			fault = "it is set already"
		}
		s.timers[c.Timer.Name] = true
	case "timer":
		if !s.timers[c.Timer.Name] {
			fault = c.Timer.Name + " fires, and is not set"
		}
		delete(s.timers, c.Timer.Name)
	case "message":
	default:
		fault = "unexpected"
	}
	return fault
}
