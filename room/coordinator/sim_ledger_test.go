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

// The model of the simulation: what commits make of rooms. It uses none of the rules of package room.

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

	Seat  int
	Data  json.RawMessage
	Timer *simTimer
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
	timers  map[string]bool // those that are set, and have not fired
	most    int             // members while the actions of its commit were run
	anew    bool            // commits were lost: the next one begins a new epoch
	at      time.Time       // of its last commit
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

// apply returns the room after a commit, and says what the commit has broken.
func (s *simState) apply(c *simCommit, idle time.Duration) (next *simState, faults []string) {
	fault := func(format string, args ...any) {
		faults = append(faults, fmt.Sprintf("room %s, %v at %s: ", c.room, c.simPosition, c.at.Format("4:05.000"))+fmt.Sprintf(format, args...))
	}
	if len(s.members) == 0 && s.Epoch != c.Epoch && c.Version == 1 && c.Prev == "" && c.at.Sub(s.at) >= idle {
		s = new(simState) // Redis has forgotten the empty room
	}
	next = &simState{simPosition: c.simPosition, mark: c.Mark, members: maps.Clone(s.members), data: s.data, dataAt: s.dataAt, timers: maps.Clone(s.timers), at: c.at}
	if next.members == nil {
		next.members = make(map[string]simMember)
	}
	if next.timers == nil {
		next.timers = make(map[string]bool)
	}
	switch {
	case c.Version != s.Version+1:
		fault("version %d follows version %d of epoch %.4s", c.Version, s.Version, s.Epoch)
	case c.Prev != s.mark:
		fault("it builds on another commit than the one before")
	case c.Epoch == s.Epoch && s.anew:
		fault("the epoch goes on, although Redis has lost commits")
	case c.Epoch != s.Epoch && s.Epoch != "" && !s.anew && !slices.ContainsFunc(c.Changes, func(c simChange) bool { return c.Type == "settings" }): // those come back behind a newcomer
		fault("an epoch begins, and Redis has lost nothing")
	}
	next.most = len(next.members)
	for _, change := range c.Changes {
		if text := next.change(change, c.Version); text != "" {
			fault("%s %s: %s", change.Type, change.User, text)
		}
		next.most = max(next.most, len(next.members))
	}
	return next, faults
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
	case "leave":
		if !in || m.seat != c.Seat {
			fault = fmt.Sprintf("no member on seat %d", c.Seat)
		}
		delete(s.members, c.User)
	case "replace", "back", "away":
		if !in || m.seat != c.Seat || m.session != c.Old {
			fault = fmt.Sprintf("no member with session %s on seat %d", c.Old, c.Seat)
		}
		s.members[c.User] = simMember{c.Seat, c.Session}
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
	case "message", "defaults", "settings":
	default:
		fault = "unexpected"
	}
	return fault
}
