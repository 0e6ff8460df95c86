package history

// State returns the room as the client must believe it to be now: the zero state
// when the view follows nothing. The members are in no order.
func (v *View) State() RoomState {
	if !v.synced {
		return RoomState{}
	}
	state := RoomState{Epoch: v.epoch, Version: v.version}
	for user, seat := range v.roster.seats {
		state.Users = append(state.Users, Member{user, seat})
	}
	return state
}
