package coordinator

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"
)

// simAction is one thing that somebody asked for, and what became of it.
type simAction struct {
	kind, room, user, session string
	value                     string // data, message or reason: unlike any other
	to                        string // of a move
	expect                    simPosition
	expects                   bool
	node                      int

	begun, ended time.Time
	outcome      string // done, refused or unknown
	why          string // of the refusal
	view, other  simView
	commits      []int // which have it
}

const (
	simDone    = "done"
	simRefused = "refused"
	simUnknown = "unknown"
)

func (a *simAction) String() string {
	return fmt.Sprintf("%s %s %s %s%s in room %s by node %d from %s to %s: %s %s", a.kind, a.user, a.session, a.value, a.to, a.room, a.node,
		a.begun.Format("4:05.000"), a.ended.Format("05.000"), a.outcome, a.why)
}

// simView is a room as an answer or an event shows it.
type simView struct {
	simPosition
	seat       int
	list, data string
}

// simEvent is what a watcher on a node was told.
type simEvent struct {
	simView
	from    uint64
	changes string
	whole   bool // it is a snapshot
}

// simRecord is all that was asked for and seen. It is safe for concurrent use.
type simRecord struct {
	mu         sync.Mutex
	actions    []*simAction                  // guarded by mu
	events     map[int]map[string][]simEvent // guarded by mu: by node and room
	unanswered map[string]bool               // guarded by mu: sessions that a node was told to be gone
	excused    time.Time                     // guarded by mu: since when leases may have ended; zero: never
	held       map[string][]simHold          // guarded by mu: by room
	stepped    bool                          // guarded by mu: Redis' clock was not like that of others
}

// simHold is when a client that knows only the lock had it for certain.
type simHold struct{ from, until time.Time }

// judge compares what was asked for and seen with what was committed, and returns what is wrong.
type simJudge struct {
	record  *simRecord
	idle    time.Duration // for how long Redis keeps an empty room at least
	faults  []string
	rooms   map[string]*simState
	at      map[string]map[simPosition]int // the number of a commit, by room
	commits []*simCommit
	losses  []int // the numbers of losses
	bySign  map[string][]*simAction
}

func (j *simJudge) fault(format string, args ...any) {
	if len(j.faults) < 20 {
		j.faults = append(j.faults, fmt.Sprintf(format, args...))
	}
}

// judge says what is wrong, and returns the rooms as they are in the end.
func (r *simRecord) judge(commits []*simCommit, idle time.Duration) (rooms map[string]*simState, faults []string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	j := &simJudge{record: r, idle: idle, commits: commits, rooms: make(map[string]*simState), at: make(map[string]map[simPosition]int), bySign: make(map[string][]*simAction)}
	for _, a := range r.actions {
		j.bySign[a.sign()] = append(j.bySign[a.sign()], a)
	}
	for n, c := range commits {
		if c.lost {
			j.losses = append(j.losses, n)
		}
	}
	for n, c := range commits {
		if c.lost {
			j.lose(c)
		} else {
			j.commit(n, c)
		}
	}
	for _, a := range r.actions {
		j.action(a)
	}
	j.order()
	for node, watched := range r.events {
		for id, events := range watched {
			j.watcher(node, id, events)
		}
	}
	return j.rooms, j.faults
}

// sign returns what names the action in a commit.
func (a *simAction) sign() string {
	switch a.kind {
	case "join", "keep":
		return a.kind + " " + a.session
	case "leave":
		return a.kind + " " + a.room + " " + a.session
	case "move":
		return a.kind + " " + a.session
	}
	return a.kind + " " + a.value
}

// lose makes the rooms what Redis has kept of them.
func (j *simJudge) lose(c *simCommit) {
	for id := range j.rooms {
		kept, ok := c.kept[id]
		state := new(simState)
		if i, known := j.at[id][kept]; ok && known {
			copied := *j.commits[i].state
			state = &copied
		} else if ok && kept.Version > 0 {
			j.fault("room %s: Redis kept %v, which nobody has committed", id, kept)
		}
		state.anew = state.Epoch != ""
		j.rooms[id] = state
	}
}

// commit adds a commit to its room, and looks who has asked for each change.
func (j *simJudge) commit(n int, c *simCommit) {
	before := j.rooms[c.room]
	if before == nil {
		before = new(simState)
	}
	if j.at[c.room] == nil {
		j.at[c.room] = make(map[simPosition]int)
	}
	for _, at := range j.epochsOf(c.room) {
		if at == c.Epoch && before.Epoch != c.Epoch {
			j.fault("room %s: epoch %.4s, which was over, comes again at version %d", c.room, c.Epoch, c.Version)
		}
	}
	if _, twice := j.at[c.room][c.simPosition]; twice {
		j.fault("room %s: %v is committed twice", c.room, c.simPosition)
	}
	for _, h := range j.record.held[c.room] {
		if c.at.After(h.from) && c.at.Before(h.until) && !j.lockLost(h.from, c.at) {
			j.fault("room %s: %v is written at %s, while another client has the lock", c.room, c.simPosition, c.at.Format("4:05.000"))
		}
	}
	state, faults := before.apply(c, j.idle, j.lostOf(c))
	j.faults = append(j.faults, faults...)
	at := before.clone()
	for _, change := range c.Changes {
		j.explain(n, c, change, at)
		at.change(change, c.Version)
	}
	c.state = state
	j.rooms[c.room], j.at[c.room][c.simPosition] = state, n
}

// lockLost reports whether Redis may have lost a lock between these times.
func (j *simJudge) lockLost(from, until time.Time) bool {
	return j.record.stepped || slices.ContainsFunc(j.losses, func(n int) bool {
		return !j.commits[n].at.Before(from) && !j.commits[n].at.After(until)
	})
}

// lostOf returns the room at all versions of other epochs than that of a commit.
func (j *simJudge) lostOf(c *simCommit) (lost []*simState) {
	for at, n := range j.at[c.room] {
		if at.Epoch != c.Epoch {
			lost = append(lost, j.commits[n].state)
		}
	}
	return lost
}

func (j *simJudge) epochsOf(id string) []string {
	var epochs []string
	for at := range j.at[id] {
		if !slices.Contains(epochs, at.Epoch) {
			epochs = append(epochs, at.Epoch)
		}
	}
	return epochs
}

// explain finds who asked for a change in commit number n.
func (j *simJudge) explain(n int, c *simCommit, change simChange, before *simState) {
	session := strings.TrimLeft(change.Session, "~+")
	was := strings.TrimLeft(before.members[change.User].session, "~+")
	sign := ""
	switch {
	case change.Again, change.Type == "defaults", change.Type == "settings", change.Type == "host": // the room says whether that may be
		return
	case change.Type == "away", change.Type == "leave" && change.Reason == "node":
		if since := j.record.excused; since.IsZero() || c.at.Before(since) {
			j.fault("room %s, %v: %s is %s at %s, and no node's lease may have ended", c.room, c.simPosition, change.User, change.Type, c.at.Format("4:05.000"))
		}
		return
	case change.Type == "leave" && change.Reason == "timeout":
		if !j.record.unanswered[c.room+" "+was] {
			j.fault("room %s, %v: %s leaves (timeout), and session %s was live", c.room, c.simPosition, change.User, was)
		}
		return
	case strings.HasPrefix(change.Session, "~+") && change.Type != "away":
		sign = "move " + session
	case change.Type == "join", change.Type == "replace" && session != was, change.Type == "back" && session != was:
		sign = "join " + session
	case change.Type == "replace", change.Type == "back": // under another name of the node
		return
	case change.Type == "leave" && change.Reason == "moved":
		if _, arrived := j.rooms[change.Target].memberOf(change.User); !arrived {
			j.fault("room %s, %v: %s is moved to room %s, and is not there", c.room, c.simPosition, change.User, change.Target)
		}
		return
	case change.Type == "leave" && change.Reason == "kicked":
		sign = "kick " + change.Text
	case change.Type == "leave":
		sign = "leave " + c.room + " " + was
	case change.Type == "data":
		sign = "data " + string(change.Data)
	case change.Type == "timer":
		return // the room says whether it may fire
	case change.Type == "countdown":
		sign = "timer " + change.Timer.Name
	case change.Type == "message":
		sign = "say " + change.Text
	}
	asked := j.bySign[sign]
	if len(asked) == 0 {
		j.fault("room %s, %v: nobody has asked for %q", c.room, c.simPosition, change.told()+" "+change.Session)
		return
	}
	wrong := ""
	for _, a := range asked { // of leaves there may be some with one session
		if wrong = j.mayCause(a, n, c); wrong == "" {
			a.commits = append(a.commits, n)
			return
		}
	}
	j.fault("room %s, %v has %q at %s, %s: %v", c.room, c.simPosition, change.told(), c.at.Format("4:05.000"), wrong, asked[len(asked)-1])
}

// mayCause says why an action may not have made commit number n. What Redis has lost while an action waited may
// have happened before that, and again.
func (j *simJudge) mayCause(a *simAction, n int, c *simCommit) (why string) {
	lost := func(since int, until time.Time) bool {
		return slices.ContainsFunc(j.losses, func(loss int) bool { return loss > since && !j.commits[loss].at.After(until) })
	}
	switch {
	case a.begun.After(c.at):
		return "before somebody asks for it"
	case a.outcome == simRefused && !lost(n, a.ended):
		return "and it was refused"
	case a.outcome == simDone && (c.room != a.room || c.simPosition != a.view.simPosition) && a.kind != "move" && !lost(n, a.ended):
		return "and it was acknowledged elsewhere"
	}
	if last := len(a.commits) - 1; last >= 0 && a.kind != "move" && !lost(a.commits[last], c.at) {
		return "once more"
	}
	return ""
}

func (s *simState) memberOf(user string) (simMember, bool) {
	if s == nil {
		return simMember{}, false
	}
	m, in := s.members[user]
	return m, in
}

// commitAt returns the commit at a position.
func (j *simJudge) commitAt(id string, at simPosition) *simCommit {
	n, ok := j.at[id][at]
	if !ok {
		return nil
	}
	return j.commits[n]
}
