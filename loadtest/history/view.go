package history

import (
	"fmt"
	"slices"
)

// View is one connection's picture of one room. Feed it every reply and event about the
// room, in the order of arrival. Make one with [Ledger.View] and use it for as long as
// the connection lasts, through any number of joins and leaves. Only one goroutine may
// use it at a time.
//
// A View reports at once what contradicts the picture. After a version gap it does not
// trust the picture: until the next reply or snapshot it checks version numbers only, so
// that one gap does not count as many faults.
type View struct {
	room     *roomLog
	user     string
	observer observer
	name     string

	roster  roster
	matter  matter
	epoch   string
	version uint64 // the last one in epoch; events build on it
	floor   uint64 // version of the last reply: later requests are committed above it
	synced  bool   // between a join reply or snapshot and a leave reply
	member  bool   // between a join reply and a leave reply
	blind   bool   // roster is out of date since a gap
	tainted bool   // roster is a guess since a fault: the log must not get it
	unsure  int    // joins with an unknown outcome: they may still happen, and bring events
	since   uint64 // version of the list that began the membership
	arrives bool   // the server moves the user into this room: the next snapshot has to say so
	private string // the user's own private data, while synced
	removed string // why an event said that the user was removed; lost has to follow
}

// Joined records a join reply: its seat, and its list, on which later events build. The
// reply acknowledges the join.
func (v *View) Joined(seat int, list List) {
	if list.Epoch == v.epoch {
		// One more join of a member commits nothing. Any other join has its own version.
		if list.Version < v.version || list.Version == v.version && v.version > 0 && !v.member && !v.synced && v.unsure == 0 {
			v.report(VersionGap, list.Version, "%s's join was answered at version %d after version %d", v.user, list.Version, v.version)
		}
	}
	v.room.acknowledge(list.Epoch, ack{version: list.Version, user: v.user, seat: seat, join: true})
	sound := v.adopt(list)
	v.member, v.floor, v.since, v.arrives = true, list.Version, list.Version, false
	switch own, there := v.roster.Of[v.user]; {
	case !there:
		v.room.lost(list.Epoch, list.Version, Change{Type: Join, User: v.user, Seat: seat})
		v.tainted = true
	case own != seat:
		v.room.found(Diverged, list.Epoch, list.Version, v.user,
			"%s was given seat %d, and seat %d in the same reply's list", v.user, seat, own)
		v.tainted = true
	case sound:
		v.room.observe(list.Epoch, list.Version, &v.roster, v.matter.of(&v.roster), v.observer)
	}
}

// Snapshot records a snapshot event, or any list on which later events of this
// connection build, such as the answer to watch. It may skip versions, but not go back.
func (v *View) Snapshot(list List) {
	if list.Epoch == v.epoch && list.Version < v.version {
		v.report(VersionGap, list.Version, "%s was sent a snapshot of version %d after version %d", v.name, list.Version, v.version)
		return
	}
	v.needLost(list.Version)
	sound := v.adopt(list)
	if v.arrives {
		v.arrive(list)
	}
	if sound {
		v.room.observe(list.Epoch, list.Version, &v.roster, v.matter.of(&v.roster), v.observer)
	}
}

// Read records a users reply. Later events build on it if the user is in the room; if the user was taken out while it
// was under way, none follow.
func (v *View) Read(list List) {
	if v.synced || v.arrives {
		v.Snapshot(list)
	} else {
		v.Listed(list)
	}
}

// Listed checks a users reply and compares it with what others saw at its version.
// Events do not build on it: it may be older or newer than the picture.
func (v *View) Listed(list List) {
	for user := range list.Private {
		if user != v.user {
			v.report(Diverged, list.Version, "%s is shown private data of %s", v.name, user)
		}
	}
	spare := newRoster()
	if v.check(&spare, list) {
		about := newMatter(list.Data, list.Settings, list.Timers, list.Host)
		v.room.observe(list.Epoch, list.Version, &spare, about.of(&spare), v.observer)
	}
}

// Changed records a changes event. It keeps no reference to e.
func (v *View) Changed(e Event) {
	switch {
	case !v.synced && v.unsure > 0:
		return
	case !v.synced:
		v.report(VersionGap, e.Version, "%s got an event before any list", v.name)
		return
	case e.Epoch != v.epoch:
		v.report(VersionGap, e.Version, "%s got an event of epoch %s while in epoch %s", v.name, e.Epoch, v.epoch)
		return
	case e.Version <= e.From || e.Version <= v.version:
		v.report(VersionGap, e.Version, "%s got an event from version %d to %d at version %d", v.name, e.From, e.Version, v.version)
		return
	case e.From != v.version && v.unsure > 0:
		v.blind = true // the user may have left and joined again
	case e.From != v.version:
		v.report(VersionGap, e.Version, "%s got an event that builds on version %d at version %d", v.name, e.From, v.version)
		v.blind = true
	}
	v.needLost(e.Version)
	for _, c := range e.Changes {
		switch {
		case c.Type == Private:
			v.hold(c, e.Version)
		case c.User == v.user && (c.Type == Leave || c.Type == Join): // a join may have brought some along, which follow it
			v.private = ""
		}
	}
	private := v.split(&e)
	for _, c := range e.Changes {
		v.apply(c, e)
	}
	faults := v.roster.settled()
	if !v.blind && !v.tainted {
		faults = append(faults, v.matter.governed(&v.roster)...)
	}
	for _, f := range faults {
		v.room.fault(e.Epoch, e.Version, f)
	}
	v.version = e.Version
	v.room.commit(e, private, v, !v.blind && !v.tainted)
}

// apply applies one change to the picture, if that can be trusted.
func (v *View) apply(c Change, e Event) {
	if c.User == v.user && c.Type == Leave && v.member && removes(c.Reason) {
		v.removed = c.Reason
	}
	if v.blind {
		return
	}
	faults := append(v.matter.apply(c), v.roster.apply(c, v.matter.capacity(v.room.ledger.options.Capacity))...)
	if c.Type == Settings {
		faults = append(faults, v.matter.holds(&v.roster)...)
	}
	for _, f := range faults {
		v.room.fault(e.Epoch, e.Version, f)
		v.tainted = v.tainted || f.blurs()
	}
}

// split takes the messages that are not for everybody, and private data, out of the event, and returns them.
func (v *View) split(e *Event) (private []Change) {
	limited := func(c Change) bool { return c.Type == Said && c.To != nil || c.Type == Private }
	if slices.ContainsFunc(e.Changes, limited) {
		all := e.Changes
		e.Changes = nil
		for _, c := range all {
			if limited(c) {
				private = append(private, c)
			} else {
				e.Changes = append(e.Changes, c)
			}
		}
	}
	return private
}

// Left records a leave reply, which acknowledges the leave. No event of the room may
// follow until the connection joins or watches it again.
func (v *View) Left(epoch string, version uint64, count int) {
	if epoch == v.epoch {
		// The event of the leave may overtake its reply.
		_, there := v.roster.Of[v.user]
		switch {
		case version < v.version:
			v.report(VersionGap, version, "%s's leave was answered at version %d after version %d", v.user, version, v.version)
		case version == v.version && v.synced && !v.blind && there:
			v.room.lost(epoch, version, Change{Type: Leave, User: v.user, Seat: 0})
		}
	}
	v.room.acknowledge(epoch, ack{version: version, user: v.user})
	v.room.observeCount(epoch, version, count, v.observer)
	if epoch != v.epoch || version > v.version {
		v.epoch, v.version = epoch, version
	}
	v.floor = version
	v.synced, v.member, v.removed = false, false, ""
}

// Unknown records a request, Join or Leave, that may or may not be committed: its reply
// never came, or said so. After a Leave the client is no member, and hears no more of the room.
func (v *View) Unknown(action string) {
	v.room.addUnknown(v.user, action, v.floor)
	switch action {
	case Join:
		v.unsure++
	case Leave:
		v.synced, v.member, v.removed = false, false, ""
	}
}

// Cut ends the view because its connection is gone. If the user was in the room, the
// server may show the user away, and remove the user later: an unknown leave. A request under way needs its own
// call of [View.Unknown] before.
func (v *View) Cut() {
	leaves := v.unsure // the server may commit each of those joins late, and undo it
	if v.member {
		leaves++
	}
	for range leaves {
		v.Unknown(Away) // which nobody may have seen
		v.Unknown(Leave)
	}
	v.synced, v.member, v.arrives, v.removed = false, false, false, ""
}

// State returns the room as the client must now believe it to be, with the members in
// no order. It is the zero state while the view follows no list.
func (v *View) State() RoomState {
	if !v.synced {
		return RoomState{}
	}
	state := RoomState{Epoch: v.epoch, Version: v.version, Data: v.matter.data, Settings: v.matter.rules, Timers: v.matter.timers, Host: v.matter.host}
	if _, there := v.roster.Of[v.user]; there {
		state.Private = map[string]string{v.user: v.private}
	}
	for user, seat := range v.roster.Of {
		said := v.roster.states[user]
		state.Users = append(state.Users, Member{user, seat, v.roster.away[user], said.ready, said.data})
	}
	return state
}

// adopt makes the list the picture, and reports whether the list is sound.
func (v *View) adopt(list List) bool {
	v.holdList(list)
	sound := v.check(&v.roster, list)
	v.matter = newMatter(list.Data, list.Settings, list.Timers, list.Host)
	if list.Epoch != v.epoch {
		v.floor = 0
	}
	v.epoch, v.version = list.Epoch, list.Version
	v.synced, v.blind = true, false
	v.tainted = !sound
	return sound
}

// check fills r from the list and reports what is wrong with the list in itself. It
// returns false if r is now a guess.
func (v *View) check(r *roster, list List) bool {
	about := newMatter(list.Data, list.Settings, list.Timers, list.Host)
	limit := about.capacity(v.room.ledger.options.Capacity)
	faults := append(r.set(list.Users, limit), about.holds(r)...)
	for _, f := range about.governed(r) {
		v.room.fault(list.Epoch, list.Version, f)
	}
	if list.Count != len(list.Users) {
		faults = append(faults, fault{Diverged, "count", false,
			fmt.Sprintf("%s got a count of %d and a list of %d", v.name, list.Count, len(list.Users))})
	}
	if len(list.Users) <= limit {
		faults = append(faults, overCapacity(list.Count, limit)...)
	}
	sound := true
	for _, f := range faults {
		v.room.fault(list.Epoch, list.Version, f)
		sound = sound && !f.blurs()
	}
	return sound
}

// report reports what went wrong on this connection. Another connection with the same
// fault counts, too.
func (v *View) report(kind Kind, version uint64, format string, args ...any) {
	v.room.found(kind, v.epoch, version, v.name, format, args...)
}
