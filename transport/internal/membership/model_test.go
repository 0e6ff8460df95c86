package membership

import (
	"errors"
	"fmt"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"roomd/room"
)

// world is a real room, of which a session hears late, and which does what the session's membership asks for.
type world struct {
	t      *rapid.T
	room   *room.Room
	told   []*room.Event // not heard of yet
	epochs int
	names  int // that the session's node has had before

	m         Membership
	member    bool // what the client was told
	takenOver bool // a newer session of the user has joined
}

const user, session = "a", "mine"

func newWorld(t *rapid.T) *world {
	w := &world{t: t, m: Of(user, session)}
	w.begin()
	return w
}

// begin begins a new epoch, without members.
func (w *world) begin() {
	w.epochs++
	w.room = room.NewRoom("42", room.Position{Epoch: fmt.Sprint("e", w.epochs), Version: 1}, map[string]room.Member{})
}

// node returns the name of the session's node behind so many others.
func node(names int) string { return fmt.Sprint("n", names) }

// do runs an action, commits it, and tells it to those who listen.
func (w *world) do(a room.Action) (room.Result, error) {
	by := node(w.names)
	seat, err := w.room.Apply(a, room.Rules{}, room.Origin{Node: by, At: 5})
	if err == nil && w.room.Changed() {
		w.told = append(w.told, w.room.Pending(w.room.Epoch, by).Event("42"))
		w.room.Commit(w.room.Epoch, "")
	}
	return room.Result{Seat: seat, Node: by, Snapshot: w.room.Snapshot()}, err
}

// hear hears of the next event.
func (w *world) hear() {
	if len(w.told) == 0 {
		return
	}
	e := w.told[0]
	w.told = w.told[1:]
	w.lost(w.m.Event(e))
}

// cut has a snapshot stand for what was on its way, but for what the session's own node says.
func (w *world) cut(missed []*room.Event) {
	named := slices.DeleteFunc(w.told, func(e *room.Event) bool { return !e.Rejoin })
	w.told = append(named, room.SnapshotEvent(w.room, []string{node(w.names)}, missed))
}

func (w *world) lost(why *Loss) {
	if why == nil {
		return
	}
	if !w.member {
		w.t.Fatal("a loss of what the client did not have")
	}
	if why.Refusal == nil && why.Reason == "" {
		w.t.Fatal("a loss without a reason")
	}
	if why.Reason == ReasonReplaced && !w.takenOver {
		w.t.Fatal("replaced, and there is no newer session")
	}
	w.member = false
}

// act runs the action that the membership asks for, or cannot.
func (w *world) act(inVain bool) {
	a, needed := w.m.Next()
	if needed != w.m.Status.IsPaused() {
		w.t.Fatalf("%v: an action is needed: %v", w.m.Status, needed)
	}
	if !needed {
		return
	}
	if inVain {
		if why, wait := w.m.Answer(room.Result{}, room.ErrUnavailable); why != nil || !wait {
			w.t.Fatalf("what failed for now is not tried again: %v", w.m.Status)
		}
		return
	}
	result, err := w.do(a)
	why, _ := w.m.Answer(result, err)
	w.lost(why)
}

func (w *world) client(name string) {
	switch name {
	case "join":
		result, err := w.do(room.Join{User: user, Session: session})
		w.lost(w.m.JoinReply(result, err))
		if err == nil {
			w.member = true
		}
	case "join without an answer":
		if rapid.Bool().Draw(w.t, "written") {
			_, _ = w.do(room.Join{User: user, Session: session})
		}
		w.lost(w.m.JoinReply(room.Result{}, room.ErrUnknown))
	case "leave":
		result, err := w.do(room.Leave{User: user, Session: session})
		if lost := w.m.LeaveReply(result, err); lost != nil && errors.Is(err, room.ErrNotMember) {
			w.lost(lost)
		}
		w.member = false
	case "leave without an answer":
		if rapid.Bool().Draw(w.t, "written") {
			_, _ = w.do(room.Leave{User: user, Session: session})
		}
		w.lost(w.m.LeaveReply(room.Result{}, room.ErrUnknown))
		w.member = false
	case "moved":
		if w.room.Count() > 0 || w.member { // it is there, or another session is the user's active one
			return
		}
		_, _ = w.do(room.Reserve{Session: "party", Users: []string{user}})
		w.m.Take(Moved)
		w.member = true
	}
}

func (w *world) others(name string) {
	switch name {
	case "node dies":
		_, _ = w.do(room.Leave{User: user, Session: session, Reason: "node"})
	case "away": // other nodes take its node for dead, under the name from before
		_, _ = w.do(room.Upkeep{Stray: node(w.names - 1)})
	case "kick":
		_, _ = w.do(room.Kick{User: user, Text: "loud"})
	case "move away":
		_, _ = w.do(room.Release{Users: []string{user}, Target: "43"})
	case "new name":
		w.names++
		w.told = append(w.told, &room.Event{Epoch: w.room.Epoch, Version: w.room.Version, Rejoin: true})
	case "flushed": // what was on its way of the earlier epoch is gone with it
		w.begin()
		w.cut(nil)
	case "cut": // a snapshot stands for what was told meanwhile
		w.cut(slices.DeleteFunc(slices.Clone(w.told), func(e *room.Event) bool { return e.Rejoin || e.Snapshot != nil }))
	case "rival":
		if _, err := w.do(room.Join{User: user, Session: "newer"}); err == nil {
			w.takenOver = true
		}
	}
}

// Whatever happens, in whatever order the session hears of it: in the end the client takes itself for a
// member exactly if the session is in the room, by its node's present name and not away, has heard of a newer session only if one came, and nothing is left to do.
func TestMembership_Model(t *testing.T) {
	client := []string{"join", "join", "join without an answer", "leave", "leave without an answer", "moved"}
	others := []string{"node dies", "kick", "move away", "new name", "away", "flushed", "cut", "rival"}
	rapid.Check(t, func(t *rapid.T) {
		w := newWorld(t)
		for _, step := range rapid.SliceOfN(rapid.IntRange(0, 39), 1, 40).Draw(t, "steps") {
			switch {
			case step < len(client):
				w.client(client[step])
			case step < len(client)+len(others):
				w.others(others[step-len(client)])
			case step%2 == 0:
				w.hear()
			default:
				w.act(step%4 == 1)
			}
			if w.member != w.m.Status.IsMember() {
				t.Fatalf("the client is a member: %v, and the session is %v", w.member, w.m.Status)
			}
		}
		for range 20 {
			for len(w.told) > 0 {
				w.hear()
			}
			w.act(false)
		}
		in, there := w.room.Member(user)
		mine := there && in.SessionID() == session
		switch {
		case w.m.Status == Member && !mine:
			t.Fatalf("a member, and in the room is %+v, %v", in, there)
		case w.m.Status == Member && (in.Detached() || in.Node != node(w.names)):
			t.Fatalf("a member, by node %v, and in the room is %+v", node(w.names), in)
		case w.m.Status.IsPaused():
			t.Fatalf("%v in the end", w.m.Status)
		case w.m.Status == Outside && mine:
			t.Fatal("outside, and in the room all the same")
		}
	})
}

// The table names each status that an input can meet.
func TestStatus_Table(t *testing.T) {
	for in := nothing + 1; in < inputs; in++ {
		if len(transitions[in]) == 0 {
			t.Errorf("%v changes nothing", in)
		}
		for from, to := range transitions[in] {
			if from == to {
				t.Errorf("%v: from %v to %v", in, from, to)
			}
		}
	}
	for s := range Overtaken + 1 {
		m := &Membership{Status: s}
		if action, found := m.Next(); found != s.IsPaused() {
			t.Errorf("%v is paused: %v, and has to ask %v", s, s.IsPaused(), action)
		}
		if s.NeedsList() && !s.IsPaused() || s.IsPaused() && !s.IsMember() {
			t.Errorf("%v is paused: %v, a member: %v", s, s.IsPaused(), s.IsMember())
		}
	}
}

// Whoever was kicked is out, and does not come back by itself.
func TestMembership_Kicked(t *testing.T) {
	w := newWorld(nil) // nothing of it is drawn
	w.client("join")
	if _, err := w.do(room.Kick{User: user}); err != nil {
		t.Fatal(err)
	}
	for len(w.told) > 0 {
		w.hear()
	}
	if _, needed := w.m.Next(); needed || w.m.Status != Outside || w.member {
		t.Errorf("%v, an action is needed: %v, told to be a member: %v", w.m.Status, needed, w.member)
	}
}

// The node has a new name, and Redis does not take it while others say that the members of the one before are away, or
// a snapshot lists them: the session is not settled before it is there by the new name.
func TestMembership_AwayByTheNameBefore(t *testing.T) {
	for _, then := range []string{"away", "cut"} {
		w := newWorld(nil)
		w.client("join")
		w.hear()
		for _, what := range []string{"new name", then} {
			w.others(what)
			w.act(true)
			w.hear()
		}
		w.act(true)
		w.act(false)
		if in, _ := w.room.Member(user); w.m.Status != Member || in.Detached() || in.Node != node(w.names) {
			t.Errorf("%s: %v, and in the room is %+v", then, w.m.Status, in)
		}
	}
}

func (s Status) String() string {
	return [...]string{
		"outside", "unknown", "member", "doubtful", "missing", "returned", "unsure", "following", "overtaken",
	}[s]
}

func (i Input) String() string {
	return [inputs]string{
		"joined", "join unknown", "left", "leave unknown", "refused", "moved", "seen",
		"questioned", "contradicted", "removed", "ended", "taken over", "taken before",
	}[i]
}
