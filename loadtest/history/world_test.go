package history

import (
	"fmt"
	"strings"
	"testing"
)

// world makes histories of one room from few words. A list is "a0 b1": user a on seat 0,
// user b on seat 1; "a0?" is away, "a0!" ready, and "a0=7" has the data 7. Changes are
//
//	+a0 +a0?     join, and on a reserved seat
//	-a -a:kicked leave; -a:moved:x into room x
//	?a0 !a0      away and back
//	*a0! *a0=7   the state of a member
//	#7 #a:7      the room's data, set by a
//	%5 %5c       settings: 5 seats, and closed
//	"a:hi "a:hi>b,c  messages
type world struct {
	t     *testing.T
	l     *Ledger
	epoch string
	views map[string]*View
	data  string // in lists
	rules *Rules // in lists
}

func newWorld(t *testing.T, o Options) *world {
	return &world{t: t, l: NewLedger(o), epoch: "e1", views: make(map[string]*View)}
}

// view returns the view of the user's current connection.
func (w *world) view(user string) *View {
	if w.views[user] == nil {
		w.views[user] = w.l.View("r", user, "conn-"+user)
	}
	return w.views[user]
}

func (w *world) list(version uint64, list string) List {
	users := members(list)
	return List{Epoch: w.epoch, Version: version, Count: len(users), Users: users, Data: w.data, Settings: w.rules}
}

func (w *world) join(user string, version uint64, seat int, list string) {
	w.view(user).Joined(seat, w.list(version, list))
}

func (w *world) leave(user string, version uint64, count int) {
	w.view(user).Left(w.epoch, version, count)
}

// event sends one event to each of the users, "a b c".
func (w *world) event(users string, version uint64, changes string) {
	w.span(users, version-1, version, changes)
}

func (w *world) span(users string, from, version uint64, changes string) {
	for _, user := range strings.Fields(users) {
		w.view(user).Changed(Event{w.epoch, version, from, parseChanges(changes)})
	}
}

func (w *world) snapshot(user string, version uint64, list string) {
	w.view(user).Snapshot(w.list(version, list))
}

func (w *world) listed(user string, version uint64, list string) {
	w.view(user).Listed(w.list(version, list))
}

func (w *world) unknown(user, action string) { w.view(user).Unknown(action) }

// twelveUnknownJoins returns the list that they make if all are committed.
func (w *world) twelveUnknownJoins() (list string) {
	for i, user := range strings.Split("abcdefghijkl", "") {
		w.l.room("r").addUnknown(user, Join, 0)
		list += fmt.Sprintf(" %s%d", user, 10*i)
	}
	return list
}

// cut ends the user's connection. The next message comes on a new one.
func (w *world) cut(user string) {
	w.view(user).Cut()
	delete(w.views, user)
}

func (w *world) check(version uint64, list string) {
	w.l.Check(map[string]RoomState{"r": {Epoch: w.epoch, Version: version, Users: members(list), Data: w.data, Settings: w.rules}})
}

// expect fails the test unless exactly these were found.
func (w *world) expect(want Counts) {
	w.t.Helper()
	if got := w.l.Violations().Counts(); got != want {
		w.t.Errorf("found %+v, want %+v:\n%s", got, want, strings.Join(w.l.Violations().Descriptions(), "\n"))
	}
}

func members(list string) (users []Member) {
	for _, f := range strings.Fields(list) {
		users = append(users, parseMember(f))
	}
	return users
}

func parseMember(s string) (m Member) {
	s, m.Data, _ = strings.Cut(s, "=")
	m.Ready, m.Away = strings.HasSuffix(s, "!"), strings.HasSuffix(s, "?")
	s = strings.TrimRight(s, "!?")
	at := strings.IndexAny(s, "0123456789")
	m.User = s[:at]
	fmt.Sscan(s[at:], &m.Seat)
	return m
}

func parseChanges(s string) (all []Change) {
	for _, f := range strings.Fields(s) {
		rest := f[1:]
		first, then, two := strings.Cut(rest, ":")
		var c Change
		switch f[0] {
		case '-':
			c.Type, c.User = Leave, first
			c.Reason, c.Target, _ = strings.Cut(then, ":")
		case '#':
			c.Type, c.User, c.Data = RoomData, first, then
			if !two {
				c.User, c.Data = "", first
			}
		case '%':
			c.Type = Settings
			c.Settings = *rules(rest)
		case '"':
			c.Type, c.User = Said, first
			text, to, private := strings.Cut(then, ">")
			if c.Text = text; private {
				c.To = strings.Split(to, ",")
			}
		default:
			m := parseMember(rest)
			c = Change{Type: map[byte]string{'+': Join, '?': Away, '!': Back, '*': MemberState}[f[0]], User: m.User, Seat: m.Seat}
			c.Away, c.Ready, c.Data = m.Away, m.Ready, m.Data
		}
		all = append(all, c)
	}
	return all
}

// rules are "5" or, closed, "5c".
func rules(s string) *Rules {
	r := &Rules{Closed: strings.HasSuffix(s, "c")}
	fmt.Sscan(strings.TrimSuffix(s, "c"), &r.Capacity)
	return r
}

// done acknowledges a request of the user.
func (w *world) done(user string, version uint64, count int, q Request) {
	q.By = user
	w.view(user).Done(q, Reply{Epoch: w.epoch, Version: version}, count)
}

// admin acknowledges a request of an administrator.
func (w *world) admin(version uint64, q Request) {
	w.l.Done("r", q, Reply{Epoch: w.epoch, Version: version})
}

// conflict refuses a compare-and-set of the user, with what is there.
func (w *world) conflict(user string, version uint64, there string, q Request) {
	q.By = user
	w.view(user).Refused(q, Reply{w.epoch, version, there})
}

func (w *world) lost(user, reason, target string) { w.view(user).Lost(reason, target) }

func at(version uint64) *uint64 { return &version }
