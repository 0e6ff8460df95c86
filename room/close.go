package room

// Close closes a room: everybody leaves, nobody comes in, its timers are cancelled, and Redis forgets the
// room after a while. It needs authority over the room.
type Close struct{}

func (Close) kind() Kind                  { return KindClose }
func (Close) subject() (string, bool)     { return "", true }
func (Close) check(Rules) (Action, error) { return nil, nil }

func (Close) apply(r *Room, rules Rules, by Origin) (int, error) {
	for _, o := range r.Snapshot().Users() {
		r.update(by.Node, Update{Type: KindLeave, User: o.User, Seat: o.Seat, Reason: ReasonClosed})
	}
	for _, name := range r.Timers().Names() {
		r.endTimer(KindCountdown, "", name)
	}
	s := r.state.settingsBy(rules)
	s.Closed, s.Keep = true, false
	if g, _ := r.state.gone.of(everybody); g.Version == 0 || r.state.settings != s {
		r.updateState(Update{Type: KindSettings, Detail: &Detail{Settings: &s, Shut: true}})
	}
	return 0, nil
}
