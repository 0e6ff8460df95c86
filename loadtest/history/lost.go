package history

// ousted is a user who was told that it had lost its seat.
type ousted struct {
	user   string
	reason string
	target string
	epoch  string
	after  uint64 // it was removed above this version
	late   bool   // it was moved into the room, and removed before it knew the room
}

// removes reports whether somebody with that reason left who did not ask for it.
func removes(reason string) bool { return reason == Kicked || reason == Closed || reason == Moved }

// Lost records the server's message that this connection has no seat in the room any
// more, and why: Kicked, Closed, Moved into the room target, or an error. No event of the
// room may follow until the connection joins or watches it again.
func (v *View) Lost(reason, target string) {
	switch {
	case removes(reason):
		v.room.oust(ousted{v.user, reason, target, v.epoch, v.since, v.arrives})
	case v.member:
		v.room.oust(ousted{v.user, reason, target, v.epoch, v.since, v.arrives})
		v.Unknown(Leave) // the client may not know its version
	}
	v.synced, v.member, v.arrives, v.removed = false, false, false, ""
}

// Gone records that a leave was refused because the user is not in the room, which ends the
// membership, too. Lost may follow.
func (v *View) Gone() {
	if v.member {
		v.Unknown(Leave)
	}
	v.synced, v.member = false, false
}

// Arrives records that the server said that it moves the user into this room: by the
// message of another room that the user had lost it. A snapshot with the user has to follow.
func (v *View) Arrives() { v.arrives = true }

// arrive makes the user a member by the snapshot that follows a move.
func (v *View) arrive(list List) {
	v.arrives = false
	if seat, there := v.roster.seats[v.user]; there {
		v.member, v.since = true, list.Version
	} else {
		v.room.lost(list.Epoch, list.Version, Change{Type: Join, User: v.user, Seat: seat})
	}
}

// needLost reports that the server removed the user and goes on without saying so.
func (v *View) needLost(version uint64) {
	if v.removed != "" {
		v.report(Diverged, version, "%s was %s, and goes on without having lost the room", v.user, v.removed)
		v.removed = ""
	}
}

func (r *roomLog) oust(o ousted) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.ousted = append(r.ousted, o)
}
