package history

import (
	"fmt"
	"strings"
	"testing"
)

// world makes histories of one room from few words. A list is "a0 b1": user a on seat 0,
// user b on seat 1. Changes are "+a0 -b", and "?a0" for away, "!a0" for back.
type world struct {
	t     *testing.T
	l     *Ledger
	epoch string
	views map[string]*View
}

func newWorld(t *testing.T, o Options) *world {
	return &world{t, NewLedger(o), "e1", make(map[string]*View)}
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
	return List{w.epoch, version, len(users), users}
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
	w.l.Check(map[string]RoomState{"r": {w.epoch, version, members(list)}})
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

func parseMember(s string) Member {
	at := strings.IndexAny(s, "0123456789")
	m := Member{User: s[:at]}
	fmt.Sscan(s[at:], &m.Seat)
	return m
}

func parseChanges(s string) (all []Change) {
	for _, f := range strings.Fields(s) {
		if f[0] == '-' {
			all = append(all, Change{Leave, f[1:], 0})
			continue
		}
		m := parseMember(f[1:])
		kind := map[byte]string{'+': Join, '?': Away, '!': Back}[f[0]]
		all = append(all, Change{kind, m.User, m.Seat})
	}
	return all
}
