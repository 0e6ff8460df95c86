package history

// Matched records the reply to a match, which looked for a room with the labels of wanted, or began one with these settings.
// It is a join; see [View.Joined].
func (v *View) Matched(seat int, list List, wanted Rules) {
	v.Joined(seat, list)
	if got := list.Settings; got != nil && (got.Labels != wanted.Labels || list.Version == 1 && *got != wanted) {
		v.report(Diverged, list.Version, "%s looked for a room with %+v, and came into one with %+v", v.name, wanted, *got)
	}
}

// Unmatched records that a match was refused for want of a seat: a room of its own would have done.
func (l *Ledger) Unmatched(user, reason string) {
	l.violations.report(place{Conflict, "", "", 0, user}, 0, "%s looked for a room, and was refused: %s", user, reason)
}

// MayBeForgotten declares that the store forgets the room when it is empty.
func (l *Ledger) MayBeForgotten(room string) {
	r := l.room(room)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.forgets = true
}
