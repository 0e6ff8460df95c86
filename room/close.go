package room

// Close closes a room: everybody leaves, nobody may come in, its timers are cancelled, and Redis forgets the room
// after a while. It needs authority over the room, or a [Claim] of its host; the host cannot close a kept room.
type Close struct {
	As Claim // the host's claim; zero with authority
}

func (Close) kind() Kind              { return kindClose }
func (Close) subject() (string, bool) { return "", true }

func (a Close) check(Rules) (_ Action, err error) {
	a.As, err = a.As.check()
	return a, err
}

func (a Close) apply(r *Room, rules Rules, by Origin) (int, error) {
	if err := a.As.prove(r, by); err != nil {
		return 0, err
	}
	if a.As != (Claim{}) && r.state.settings.Keep {
		return 0, Forbid("room %s is kept, and so only admins may close it", r.ID)
	}
	for _, o := range r.Snapshot().Users() {
		r.update(by.Node, Update{Type: KindLeave, User: o.User, Seat: o.Seat, Reason: reasonClosed})
	}
	for _, name := range r.state.timers.Names() {
		r.endTimer(KindCountdown, "", name)
	}
	s := r.state.settingsBy(rules)
	s.Closed, s.Keep = true, false
	if g, _ := r.state.gone.of(everybody); g.Version == 0 || r.state.settings != s {
		r.updateState(Update{Type: kindSettings, At: by.At, Detail: &Detail{Settings: &s, Shut: true}})
	}
	return 0, nil
}
