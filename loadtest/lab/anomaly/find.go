// Package anomaly finds anomalies of a lock in a history: the replies to callers, and the contents of Redis.
//
// A [History] is the events of one room in order of time. Callers record their requests, reads, writes and replies.
// An observer may also record who held the lock's key and what the list contained. [Find] returns the anomalies:
//
//   - lost: a caller's join or leave was acknowledged, and a later list does not show it;
//   - phantom: a user is in the list after an acknowledged leave or a refused join;
//   - duplicate: a user is in the list more than once;
//   - two holders: the holds of two callers overlap. A hold lasts from its acquisition to its last write;
//     without a write it harms nobody and does not count. Without a lock it starts with the read: such an
//     overlap is a dirty read;
//   - deleted: a caller's command removed another caller's lock;
//   - kept: a caller released the lock, by its own account, and still has it;
//   - stuck: callers waited and gave up, and nobody made progress for at least two TTLs; or for any time, if
//     the lock is still there at the end, does not expire, and nobody can free it.
//
// A request with an unknown outcome (its caller crashed, or got an error after it sent its write) may have been
// carried out or not; neither is an anomaly. The package imports nothing of ours, so that a mistake in the
// locks cannot hide in the proof.
package anomaly

import (
	"cmp"
	"maps"
	"slices"
	"strings"
	"time"
)

// Kinds of anomalies.
const (
	Lost       = "lost"
	Phantom    = "phantom"
	Duplicate  = "duplicate"
	TwoHolders = "two_holders"
	Deleted    = "deleted"
	Kept       = "kept"
	Stuck      = "stuck"
)

// Anomalies has the kinds with a letter and a description each, in the order of a report. A sentence describes
// a finding about SUBJECT, caused by BY.
var Anomalies = []struct{ Name, Letter, About, sentence string }{
	{Lost, "L", "an acknowledged join or leave is lost", "SUBJECT's acknowledged request is not in the list"},
	{Phantom, "P", "a phantom: in the list after a leave or a refused join",
		"SUBJECT is in the list after a leave or a refused join"},
	{Duplicate, "T", "a user is in the list twice", "SUBJECT is in the list more than once"},
	{TwoHolders, "2", "two hold the lock at once, and write; without a lock: a dirty read",
		"BY took the lock and wrote while SUBJECT held it and wrote"},
	{Deleted, "D", "somebody else's lock is deleted", "BY deleted SUBJECT's lock"},
	{Kept, "K", "the holder releases its lock, and the lock stays", "SUBJECT released the lock, and it is still there"},
	{Stuck, "S", "the room is stuck until all waiters give up", "SUBJECT gave up, and the room was still stuck"},
}

// Finding is one anomaly.
type Finding struct {
	What    string        // a kind, such as Lost
	At      time.Duration // when it appeared
	Subject string        // the user concerned
	By      string        // the caller that caused it, or ""
}

// String describes the finding in a line.
func (f Finding) String() string {
	for _, a := range Anomalies {
		if a.Name == f.What {
			return strings.NewReplacer("SUBJECT", f.Subject, "BY", f.By).Replace(a.sentence)
		}
	}
	return f.What
}

// Find returns the anomalies in a history, in order of time, and their numbers.
func Find(h History) (found []Finding, c Counts) {
	longest, stuck := stuck(h)
	found = slices.Concat(members(h), overlaps(holds(h.Events)), releases(h.Events), stuck)
	slices.SortStableFunc(found, func(a, b Finding) int { return cmp.Compare(a.At, b.At) })
	for _, f := range found {
		*c.Of(f.What)++
	}
	c.StuckMS, c.Forever = float64(longest.Microseconds())/1000, h.Forever && c.Stuck+c.Kept > 0
	return found, c
}

// Counts has the numbers of a report.
type Counts struct {
	Lost       int `json:"lost"`
	Phantom    int `json:"phantom"`
	Duplicate  int `json:"duplicate"` // users who are in the list more than once
	TwoHolders int `json:"two_holders"`
	Deleted    int `json:"deleted"` // locks deleted by other callers
	Kept       int `json:"kept"`    // locks that stayed after a release
	Stuck      int `json:"stuck"`   // 1 if the room stayed locked

	// The longest wait without progress, which alone is no anomaly; and whether a stuck room or a released lock
	// stays so for ever, because the lock does not expire.
	StuckMS float64 `json:"stuck_ms"`
	Forever bool    `json:"stuck_forever"`
}

// Of returns the number of anomalies of a kind.
func (c *Counts) Of(what string) *int {
	return map[string]*int{
		Lost: &c.Lost, Phantom: &c.Phantom, Duplicate: &c.Duplicate, TwoHolders: &c.TwoHolders,
		Deleted: &c.Deleted, Kept: &c.Kept, Stuck: &c.Stuck,
	}[what]
}

// Total is the number of anomalies.
func (c Counts) Total() (n int) {
	for _, a := range Anomalies {
		n += *c.Of(a.Name)
	}
	return n
}

// belief is a user's membership according to the replies so far.
type belief int

const (
	out belief = iota // left, or never joined
	in
	open // unknown
)

// members compares the replies to users with the list that they read for their next request, and with the last
// list. It finds each wrong outcome once: afterwards the user believes the list.
func members(h History) (found []Finding) {
	believed := make(map[string]belief)
	twice := make(map[string]bool)  // users found more than once in a list who have not left since
	leaves := make(map[string]bool) // requests without a reply yet, by user
	look := func(user string, list []string, at time.Duration) {
		first := slices.Index(list, user)
		switch b := believed[user]; {
		case b == in && first < 0:
			found, believed[user] = append(found, Finding{What: Lost, At: at, Subject: user}), out
		case b == out && first >= 0:
			found, believed[user] = append(found, Finding{What: Phantom, At: at, Subject: user}), in
		}
		again := first >= 0 && slices.Contains(list[first+1:], user)
		if again && !twice[user] {
			found = append(found, Finding{What: Duplicate, At: at, Subject: user})
		}
		twice[user] = again
	}
	for _, user := range h.Initial {
		believed[user] = in
	}
	var end time.Duration
	for _, e := range h.Events {
		end = e.At
		switch e.Kind {
		case Asked:
			leaves[e.Caller] = e.Leave
			continue
		case Read:
			look(e.Caller, e.Users, e.At)
			continue
		case ToldOK:
			believed[e.Caller] = in
			if leaves[e.Caller] {
				believed[e.Caller] = out
			}
		case ToldUnknown, Crashed:
			believed[e.Caller] = open
		case ToldFailed:
		default:
			continue
		}
		delete(leaves, e.Caller)
	}
	for user := range leaves { // the history ends before their reply
		believed[user] = open
	}
	users := slices.AppendSeq(slices.Clone(h.Final), maps.Keys(believed))
	slices.Sort(users)
	for _, user := range slices.Compact(users) {
		look(user, h.Final, end)
	}
	return found
}

// hold is the time from a caller's acquisition of the lock to its last write under it.
type hold struct {
	caller   string
	from, to time.Duration
	wrote    bool
}

// holds returns all holds with a write, in the order of their starts.
func holds(events []Event) (all []hold) {
	current := make(map[string]*hold)
	end := func(caller string) {
		if h := current[caller]; h != nil && h.wrote {
			all = append(all, *h)
		}
		delete(current, caller)
	}
	begin := func(caller string, at time.Duration) {
		end(caller)
		current[caller] = &hold{caller: caller, from: at}
	}
	for _, e := range events {
		h := current[e.Caller]
		switch e.Kind {
		case Acquired:
			begin(e.Caller, e.At)
		case Locked:
			begin(e.Owner, e.At)
		case Read:
			if h == nil { // the discipline has no lock
				begin(e.Caller, e.At)
			}
		case Wrote, Stored:
			if h != nil {
				h.to, h.wrote = e.At, true
			}
		case ToldOK, ToldFailed, ToldUnknown, Crashed:
			end(e.Caller)
		}
	}
	for caller := range current {
		end(caller)
	}
	slices.SortFunc(all, func(a, b hold) int {
		return cmp.Or(cmp.Compare(a.from, b.from), cmp.Compare(a.caller, b.caller))
	})
	return all
}

// overlaps returns a finding for each hold that started within one of another caller. holds is sorted by start.
func overlaps(holds []hold) (found []Finding) {
	var last hold // of the holds so far, the one with the latest end
	for i, h := range holds {
		if i > 0 && h.from < last.to && h.caller != last.caller {
			found = append(found, Finding{What: TwoHolders, At: h.from, Subject: last.caller, By: h.caller})
		}
		if i == 0 || h.to > last.to {
			last = h
		}
	}
	return found
}

// releases returns a finding for each lock that another caller's command removed, and for each caller whose own
// lock stayed after its release.
func releases(events []Event) (found []Finding) {
	owner := ""
	for _, e := range events {
		switch e.Kind {
		case Locked:
			owner = e.Owner
		case Unlocked, Expired, Forgotten:
			owner = ""
			if e.Kind == Unlocked && e.Owner != e.Caller {
				found = append(found, Finding{What: Deleted, At: e.At, Subject: e.Owner, By: e.Caller})
			}
		case Released:
			if owner == e.Caller {
				found = append(found, Finding{What: Kept, At: e.At, Subject: e.Caller})
			}
		}
	}
	return found
}

// stuckTTLs is the number of TTLs without progress after which a room counts as stuck. A dead holder's lock
// expires after one.
const stuckTTLs = 2

// stuck returns the longest wait without progress, and a finding if that wait ended because all callers gave up.
func stuck(h History) (longest time.Duration, found []Finding) {
	var since time.Duration // the last progress
	var last Finding        // of the longest time
	waiting := make(map[string]bool)
	paused := make(map[string]bool) // paused callers that still ask
	gaveUp := false
	look := func(e Event, ends bool) {
		if d := e.At - since; len(waiting) > 0 && d > longest {
			longest, last, gaveUp = d, Finding{What: Stuck, At: e.At, Subject: e.Caller}, ends
		}
	}
	for _, e := range h.Events {
		switch e.Kind {
		case Asked, Resumed:
			if e.Kind == Resumed && !paused[e.Caller] {
				continue
			}
			if len(waiting) == 0 {
				since = e.At
			}
			waiting[e.Caller] = true
			delete(paused, e.Caller)
		case Acquired, Locked, Wrote, Stored, ToldOK:
			look(e, false)
			since = e.At
			if e.Kind == ToldOK {
				delete(waiting, e.Caller)
			}
		case ToldFailed, ToldUnknown, Crashed, Paused:
			look(e, len(waiting) == 1 && (e.Kind == ToldFailed || e.Kind == ToldUnknown))
			paused[e.Caller] = waiting[e.Caller] && e.Kind == Paused
			delete(waiting, e.Caller)
		}
	}
	if gaveUp && (longest >= stuckTTLs*h.TTL || h.Forever) {
		found = append(found, last)
	}
	return longest, found
}

// Kind is the kind of an [Event].
type Kind string

// Events of callers. The time is the cautious one: when the reply to a request came, and when a write was sent.
const (
	Asked       Kind = "asked"        // to join, or to leave if Leave is set
	Refused     Kind = "refused"      // found the lock held, for the first time
	Acquired    Kind = "acquired"     // got the lock, according to its reply
	Read        Kind = "read"         // the list, as in Users
	Wrote       Kind = "wrote"        // the list, as in Users
	Released    Kind = "released"     // released the lock, by its own account
	ToldOK      Kind = "told ok"      // acknowledged
	ToldFailed  Kind = "told failed"  // nothing was written
	ToldUnknown Kind = "told unknown" // it may have been written
	Paused      Kind = "paused"       // stopped by the fault
	Resumed     Kind = "resumed"
	Crashed     Kind = "crashed"    // does nothing more, and gets no reply
	ReplyLost   Kind = "reply lost" // Redis executed the command
)

// Events of an observer of Redis. Caller is the sender of the command.
const (
	Locked    Kind = "locked"    // the key is now Owner's
	Unlocked  Kind = "unlocked"  // Owner's key is gone
	Expired   Kind = "expired"   // Owner's lock expired, without a command
	Forgotten Kind = "forgotten" // a failover of Redis lost Owner's lock
	Stored    Kind = "stored"    // the list, as in Users
)

// Event is an event of the history.
type Event struct {
	At     time.Duration // since the history began
	Caller string
	Kind   Kind
	Leave  bool
	Owner  string
	Users  []string
}

// History is the history of one room. A caller acts for the user with its name, one request at a time.
type History struct {
	Events  []Event  // in order of time
	Initial []string // the list at the start
	Final   []string // the list at the end
	TTL     time.Duration
	Forever bool // at the end the lock's key still exists, and does not expire
}
