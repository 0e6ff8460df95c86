package room

import (
	"maps"
	"slices"
)

// Undo takes back what one half of a move has done to the room to which users were to come, because its other half could not be
// written. Only what is still as the half has left it counts: who has come, or gone, by himself meanwhile is where he wants
// to be. It is of nodes alone.
type Undo struct {
	Session string   // under which seats are reserved; see Reserve
	In      []string // whose seats are given up

	// Out are members who left in exchange. Their seats are reserved under the session: the same ones as far as
	// they are free, with the time of the join, and with data. From is the room to which they were moved, Since the version of the room before
	// that; Host is whoever was the host then, and Heir became it in place of one who left.
	Out        map[string]Member
	From       string
	Since      uint64
	Host, Heir string
}

func (Undo) kind() Kind                  { return kindUndo }
func (Undo) subject() (string, bool)     { return "", true }
func (Undo) check(Rules) (Action, error) { return nil, errOfNodes }

func (a Undo) apply(r *Room, rules Rules, by Origin) (int, error) {
	for _, user := range a.In {
		if m, ok := r.Member(user); ok && m.Reserved() && m.SessionID() == a.Session {
			r.update(by.Node, Update{Type: KindLeave, User: user, Seat: m.Seat, Reason: ReasonLeft})
		}
	}
	for _, user := range slices.Sorted(maps.Keys(a.Out)) {
		if a.tookOut(r, user) && r.state.checkBan(r.ID, user, by.At) == nil {
			a.giveBack(r, rules, by, user)
		}
	}
	if host := r.Host(); host != a.Host && host == a.Heir && r.isMember(a.Host) {
		r.updateState(Update{Type: KindHost, User: a.Host})
	}
	return 0, nil
}

// tookOut reports whether a user is not in the room because of this half, and nothing else.
func (a Undo) tookOut(r *Room, user string) bool {
	g := r.Gone()[user]
	_, shut := r.Gone()[everybody]
	return !shut && !r.isMember(user) && g.Reason == ReasonMoved && g.Target == a.From && g.Version > a.Since
}

// giveBack reserves a seat for a user, as it was, or another one. In a room that is full by now there is none.
func (a Undo) giveBack(r *Room, rules Rules, by Origin, user string) {
	was := a.Out[user]
	seat, err := rules.seat(r, user, was.Seat, true)
	if err != nil {
		seat, err = rules.seat(r, user, AnySeat, true)
	}
	if err != nil {
		return
	}
	back := Update{Type: KindJoin, User: user, Seat: seat, Session: reserved + a.Session, At: was.At}
	if r.state.settings.Closed {
		back.Detail = broughtBack
	}
	r.update(by.Node, back)
	if had := (Detail{Data: jsonOf(was.Data.String())}); was.Ready || was.Data != nil {
		if was.Ready {
			had.Ready = &was.Ready
		}
		r.update(by.Node, Update{Type: KindMember, User: user, Seat: seat, Detail: &had})
	}
	if was.Private != nil {
		r.update(by.Node, Update{Type: KindPrivate, User: user, Seat: seat, Detail: &Detail{Data: jsonOf(was.Private.String())}})
	}
}
