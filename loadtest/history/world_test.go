package history

import (
	"fmt"
	"slices"
	"strings"
	"testing"
)

// story is a history in few words, and the violations that must be found in it: "lost, oversold 2".
// Its steps are separated by semicolons:
//
//	two; three; race              see openings
//	a joins 1 a0                  a reply to a's join: version 1, and the list; with the seat: a joins 1 a0 @5
//	a leaves 2/0                  a reply to a leave: version and count
//	a b see 3 +c2                 one event for each; a sees 1-4 …: from 1 to 4; see parseChanges
//	a gets 3 a0, a lists 3 a0     a snapshot, a reply to users; with another count: a lists 3/2 a0
//	a does 4/2 set 7 if 3         a reply to a request, see parseRequest
//	a refused 4=8 set 7 if 3      a conflict at version 4, where the data is 8
//	a unsure set 7, a unsure join   the outcome is unknown
//	a maybe join 4                the same, of a request from after version 4
//	a cut, a arrives              the connection ends; a has been told of the room
//	a lost kicked, a gone         a is told to have lost the seat; a is found to have no seat
//	a lapses 1                    a's reserved seat may lapse after version 1
//	acked 2 c2                    a join on seat 2 is acknowledged at version 2
//	admin 4 kick b                an administrator's request; also refused, conflict 4, unsure
//	epoch e2; data 7; rules 2     what lists have from now on
//	start 1 a0; end 3 a0          the room before and after; end alone: nothing is there
//	capacity 2; loss; now 1000    the options, at the beginning
//
// A list is "a0 b1": user a on seat 0, user b on seat 1; "a0?" is away, "a0!" ready, and "a0=7"
// has the data 7. "r2: " before a step, and "and r2: " in end, is about another room.
type story struct{ name, found, steps string }

// tell plays each story in a world of its own.
func tell(t *testing.T, stories []story) {
	t.Helper()
	for _, s := range stories {
		t.Run(s.name, func(t *testing.T) {
			w := newWorld(t, Options{})
			w.play(s.steps)
			w.expect(parseCounts(t, s.found))
		})
	}
}

// world makes the history of a story.
type world struct {
	t     *testing.T
	l     *Ledger
	epoch string
	data  string // in lists
	rules *Rules // in lists
	views map[string]*View
}

func newWorld(t *testing.T, o Options) *world {
	return &world{t: t, l: NewLedger(o), epoch: "e1", views: make(map[string]*View)}
}

// openings stand for the steps with which many stories begin.
// At the end of two and three, a and b (and c) are in the room and know all.
var openings = map[string]string{
	"two":   "a joins 1 a0; b joins 2 a0 b1; a sees 2 +b1",
	"three": "two; c joins 3 a0 b1 c2; a b see 3 +c2",
	"race":  "two; a does 3/2 set 3 if 2; a b see 3 #a:3", // two may set the data, which are of version 3
}

func (w *world) play(steps string) {
	w.t.Helper()
	for step := range strings.SplitSeq(steps, ";") {
		step = strings.TrimSpace(step)
		if opening := openings[step]; opening != "" {
			w.play(opening)
			continue
		}
		id := "r"
		if other, rest, found := strings.Cut(step, ": "); found && !strings.Contains(other, " ") {
			id, step = other, rest
		}
		if words := strings.Fields(step); !w.setUp(words[0], words[1:]) && !w.ofRoom(id, words[0], words[1:]) {
			w.ofUsers(id, words)
		}
	}
}

// setUp plays a step about the options, or what lists have.
func (w *world) setUp(what string, words []string) bool {
	word := strings.Join(words, "")
	switch what {
	case "capacity":
		w.l = NewLedger(Options{Capacity: number[int](word)})
	case "loss":
		w.l = NewLedger(Options{DataLoss: true})
	case "now":
		w.l = NewLedger(Options{Now: func() int64 { return number[int64](word) }})
	case "epoch":
		w.epoch = word
	case "data":
		w.data = word
	case "rules":
		w.rules = parseRules(word)
	default:
		return false
	}
	return true
}

// ofRoom plays a step that is about no user's connection.
func (w *world) ofRoom(id, what string, words []string) bool {
	switch what {
	case "start":
		w.l.Start(id, w.state(words))
	case "acked":
		m := parseMember(words[1])
		w.l.room(id).acknowledge(w.epoch, ack{number[uint64](words[0]), m.User, m.Seat, true})
	case "end":
		final := make(map[string]RoomState)
		here, other, two := strings.Cut(strings.Join(words, " "), "and r2: ")
		if two {
			final["r2"] = w.state(strings.Fields(other))
		}
		if here != "" {
			final["r"] = w.state(strings.Fields(here))
		}
		w.l.Check(final)
	case "admin":
		switch words[0] {
		case "refused":
			w.l.Refused(id, parseRequest(w.t, words[1:]))
		case "unsure":
			w.l.Unanswered(id, parseRequest(w.t, words[1:]), 0)
		case "conflict":
			w.l.Conflict(id, parseRequest(w.t, words[2:]), Reply{Epoch: w.epoch, Version: number[uint64](words[1])})
		default:
			w.l.Done(id, parseRequest(w.t, words[1:]), Reply{Epoch: w.epoch, Version: number[uint64](words[0])})
		}
	default:
		return false
	}
	return true
}

// verbs are what a user's connection can tell.
var verbs = map[string]func(w *world, v *View, words []string){
	"joins": func(w *world, v *View, words []string) {
		seat := -1
		if last := words[len(words)-1]; last[0] == '@' {
			seat, words = number[int](last[1:]), words[:len(words)-1]
		}
		list := w.list(words)
		for _, m := range list.Users {
			if m.User == v.user && seat < 0 {
				seat = m.Seat
			}
		}
		v.Joined(seat, list)
	},
	"leaves": func(w *world, v *View, words []string) {
		version, count, _ := strings.Cut(words[0], "/")
		v.Left(w.epoch, number[uint64](version), number[int](count))
	},
	"see": see, "sees": see,
	"gets":    func(w *world, v *View, words []string) { v.Snapshot(w.list(words)) },
	"lists":   func(w *world, v *View, words []string) { v.Listed(w.list(words)) },
	"gone":    func(_ *world, v *View, _ []string) { v.Gone() },
	"arrives": func(_ *world, v *View, _ []string) { v.Arrives() },
	"lost": func(_ *world, v *View, words []string) {
		words = append(words, "", "")
		v.Lost(words[0], words[1])
	},
	"cut": func(w *world, v *View, _ []string) { // the next message comes on another connection
		v.Cut()
		delete(w.views, "r "+v.user)
	},
	"does": func(w *world, v *View, words []string) {
		version, count, _ := strings.Cut(words[0], "/")
		v.Done(w.requestOf(v, words[1:]), Reply{Epoch: w.epoch, Version: number[uint64](version)}, number[int](count))
	},
	"refused": func(w *world, v *View, words []string) {
		version, there, _ := strings.Cut(words[0], "=")
		v.Refused(w.requestOf(v, words[1:]), Reply{w.epoch, number[uint64](version), there})
	},
	"unsure": func(w *world, v *View, words []string) {
		if words[0] == Join || words[0] == Leave || words[0] == Away {
			v.Unknown(words[0])
		} else {
			v.Unanswered(w.requestOf(v, words))
		}
	},
	"maybe": func(_ *world, v *View, words []string) {
		v.room.addUnknown(v.user, words[0], number[uint64](strings.Join(words[1:], "")))
	},
	"lapses": func(w *world, v *View, words []string) { w.l.MayLeave(v.room.name, v.user, number[uint64](words[0])) },
}

func see(w *world, v *View, words []string) {
	from, version, span := strings.Cut(words[0], "-")
	e := Event{w.epoch, number[uint64](from), number[uint64](from) - 1, parseChanges(words[1:])}
	if span {
		e.From, e.Version = e.Version, number[uint64](version)
	}
	v.Changed(e)
}

// ofUsers plays a step of one or more users: "a b see 3 +c2".
func (w *world) ofUsers(id string, words []string) {
	w.t.Helper()
	at := slices.IndexFunc(words, func(word string) bool { return verbs[word] != nil })
	if at < 0 {
		w.t.Fatalf("no verb in %q", words)
	}
	for _, user := range words[:at] {
		verbs[words[at]](w, w.view(id, user), words[at+1:])
	}
}

// view returns the view of the user's current connection.
func (w *world) view(id, user string) *View {
	key := id + " " + user
	if w.views[key] == nil {
		w.views[key] = w.l.View(id, user, "conn-"+user)
	}
	return w.views[key]
}

// list is "3 a0 b1", or with its count "3/2 a0 b1".
func (w *world) list(words []string) List {
	s := w.state(words)
	l := List{Epoch: s.Epoch, Version: s.Version, Count: len(s.Users), Users: s.Users, Data: s.Data, Settings: s.Settings}
	if _, count, other := strings.Cut(words[0], "/"); other {
		l.Count = number[int](count)
	}
	return l
}

func (w *world) state(words []string) RoomState {
	version, _, _ := strings.Cut(words[0], "/")
	return RoomState{Epoch: w.epoch, Version: number[uint64](version), Users: parseMembers(words[1:]), Data: w.data, Settings: w.rules}
}

func (w *world) requestOf(v *View, words []string) Request {
	q := parseRequest(w.t, words)
	q.By = v.user
	return q
}

// expect fails the test unless exactly these were found.
func (w *world) expect(want Counts) {
	w.t.Helper()
	v := w.l.Violations()
	if got := v.Counts(); got != want || v.Verdict() != want.Verdict() {
		w.t.Errorf("found %+v, %s, want %+v:\n%s", got, v.Verdict(), want, strings.Join(v.Descriptions(), "\n"))
	}
}

// number returns the number at the beginning of s, 0 if there is none.
func number[T int | int64 | uint64](s string) (n T) {
	fmt.Sscan(s, &n)
	return n
}
