package history

import "fmt"

// View is one connection's picture of one room: feed it all that the server says
// there about the room, in the order in which it comes. Make one with
// [Ledger.View] and use it for as long as the connection lasts, through any
// number of joins and leaves. It is for one goroutine at a time.
//
// What contradicts the picture is reported at once. After a version gap the
// picture is not to be trusted: until the next reply or snapshot the view then
// looks at version numbers only, so that one gap does not count as many faults.
type View struct {
	ledger   *Ledger
	room     *roomLog
	user     string
	observer observer
	name     string

	roster  roster
	epoch   string
	version uint64 // the last one told in epoch; events build on it
	floor   uint64 // of the last reply: what is asked after it is committed above
	synced  bool   // between a join reply or snapshot and a leave reply
	member  bool   // between a join reply and a leave reply
	blind   bool   // roster is out of date since a gap
	tainted bool   // roster is a guess since a fault: do not spread it
	unsure  int    // joins with an unknown outcome: they may happen yet, and events come
}

// Joined takes a join reply: the seat it gave and its list, which is the picture
// that later events build on. It counts as the acknowledgement of the join.
func (v *View) Joined(seat int, list List) {
	if list.Epoch == v.epoch {
		// One more join of a member commits nothing; any other is a version of its own.
		if list.Version < v.version || list.Version == v.version && v.version > 0 && !v.member && !v.synced && v.unsure == 0 {
			v.report(VersionGap, list.Version, "%s's join was answered at version %d after version %d", v.user, list.Version, v.version)
		}
	}
	v.ledger.acknowledge(v.room, list.Epoch, ack{version: list.Version, user: v.user, seat: seat, join: true})
	sound := v.adopt(list)
	v.member, v.floor = true, list.Version
	switch own, there := v.roster.seats[v.user]; {
	case !there:
		v.ledger.found(place{Lost, v.room.name, list.Epoch, list.Version, v.user}, list.Version,
			"%s's acknowledged join is missing from the list (seat %d)", v.user, seat)
		v.tainted = true
	case own != seat:
		v.ledger.found(place{Diverged, v.room.name, list.Epoch, list.Version, v.user}, list.Version,
			"%s was given seat %d, and seat %d in the same reply's list", v.user, seat, own)
		v.tainted = true
	case sound:
		v.ledger.observe(v.room, list.Epoch, list.Version, &v.roster, v.observer)
	}
}

// Snapshot takes a snapshot event, or any list that later events of this
// connection build on, such as the answer to watch. It may skip versions, but
// not go back.
func (v *View) Snapshot(list List) {
	if list.Epoch == v.epoch && list.Version < v.version {
		v.report(VersionGap, list.Version, "%s was sent a snapshot of version %d after version %d", v.name, list.Version, v.version)
		return
	}
	if v.adopt(list) {
		v.ledger.observe(v.room, list.Epoch, list.Version, &v.roster, v.observer)
	}
}

// Listed takes a users reply. It is checked, and compared with what others saw
// at its version, but events do not build on it: it may be older or newer than
// the picture.
func (v *View) Listed(list List) {
	spare := newRoster()
	if v.check(&spare, list) {
		v.ledger.observe(v.room, list.Epoch, list.Version, &spare, v.observer)
	}
}

// Changed takes a changes event. It keeps no part of it.
func (v *View) Changed(e Event) {
	switch {
	case !v.synced && v.unsure > 0:
		return
	case !v.synced:
		v.report(VersionGap, e.Version, "%s got an event without being told a list before", v.name)
		return
	case e.Epoch != v.epoch:
		v.report(VersionGap, e.Version, "%s got an event of epoch %s while in epoch %s", v.name, e.Epoch, v.epoch)
		return
	case e.Version <= e.From || e.Version <= v.version:
		v.report(VersionGap, e.Version, "%s got an event from version %d to %d at version %d", v.name, e.From, e.Version, v.version)
		return
	case e.From != v.version && v.unsure > 0:
		v.blind = true // left and joined again, for all anyone knows
	case e.From != v.version:
		v.report(VersionGap, e.Version, "%s got an event that builds on version %d at version %d", v.name, e.From, v.version)
		v.blind = true
	}
	if !v.blind {
		for _, c := range e.Changes {
			for _, f := range v.roster.apply(c, v.ledger.capacity) {
				v.ledger.fault(v.room.name, e.Epoch, e.Version, f)
				v.tainted = v.tainted || f.blurs()
			}
		}
	}
	v.version = e.Version
	v.ledger.committed(v.room, e, &v.roster, !v.blind && !v.tainted, v.observer)
}

// Left takes a leave reply; it counts as the acknowledgement of the leave. No
// event of the room may follow until it is joined or watched again.
func (v *View) Left(epoch string, version uint64, count int) {
	if epoch == v.epoch {
		// The event of the leave itself may overtake its reply.
		_, there := v.roster.seats[v.user]
		switch {
		case version < v.version:
			v.report(VersionGap, version, "%s's leave was answered at version %d after version %d", v.user, version, v.version)
		case version == v.version && v.synced && !v.blind && there:
			v.ledger.found(place{Lost, v.room.name, epoch, version, v.user}, version,
				"%s's acknowledged leave is missing from the list", v.user)
		}
	}
	v.ledger.acknowledge(v.room, epoch, ack{version: version, user: v.user})
	v.ledger.count(v.room, epoch, version, count, v.observer)
	if epoch != v.epoch || version > v.version {
		v.epoch, v.version = epoch, version
	}
	v.floor = version
	v.synced, v.member = false, false
}

// Unknown takes a request, Join or Leave, that may or may not be committed: its
// reply never came, or said so.
func (v *View) Unknown(action string) {
	v.ledger.unknown(v.room, v.user, action, v.floor)
	if action == Join {
		v.unsure++
	}
}

// Lost takes that the server says of the connection that it has no seat in the room any
// more: the user was taken out, and no event of the room may follow until it is joined or
// watched again.
func (v *View) Lost() {
	if v.member {
		v.Unknown(Leave) // the client may not have been told its version
	}
	v.synced, v.member = false, false
}

// Cut ends the view because its connection is gone. If the user was in the room
// then, the server may take it out later on its own account: an unknown leave. A
// request under way needs its own [View.Unknown], before.
func (v *View) Cut() {
	leaves := v.unsure // each of those joins may come late, and be undone again
	if v.member {
		leaves++
	}
	for range leaves {
		v.Unknown(Leave)
	}
	v.synced, v.member = false, false
}

// adopt makes the list the picture, and says whether that is sound.
func (v *View) adopt(list List) bool {
	sound := v.check(&v.roster, list)
	v.epoch, v.version = list.Epoch, list.Version
	v.synced, v.blind = true, false
	v.tainted = !sound
	return sound
}

// check fills r from the list and reports what is wrong with the list in itself.
// It returns false if r is then a guess.
func (v *View) check(r *roster, list List) bool {
	faults := r.set(list.Users, v.ledger.capacity)
	if list.Count != len(list.Users) {
		faults = append(faults, fault{Diverged, "count", false,
			fmt.Sprintf("%s was told a count of %d and a list of %d", v.name, list.Count, len(list.Users))})
	}
	if limit := v.ledger.capacity; limit > 0 && list.Count > limit && len(list.Users) <= limit {
		faults = append(faults, oversold(list.Count, limit))
	}
	sound := true
	for _, f := range faults {
		v.ledger.fault(v.room.name, list.Epoch, list.Version, f)
		sound = sound && !f.blurs()
	}
	return sound
}

// report is for what went wrong on this connection, however many others share it.
func (v *View) report(kind Kind, version uint64, format string, args ...any) {
	v.ledger.found(place{kind, v.room.name, v.epoch, version, v.name}, version, format, args...)
}
