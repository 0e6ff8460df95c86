package transport

import (
	"cmp"
	"errors"
	"math/rand/v2"

	"roomd/room"
	"roomd/transport/auth"
	"roomd/transport/protocol"
)

// act runs a request that is an action of the user and needs nothing else of the session.
func (r *request) act() {
	action, err := r.actionOf()
	if err != nil {
		r.refuse(err)
		return
	}
	result, err := r.session.doAsMember(r.in.Room, action)
	switch {
	case errors.Is(err, room.ErrConflict):
		r.refuseConflict(result.Snapshot, err)
	case err != nil:
		r.refuse(err)
	default:
		r.replyCount(result.Snapshot)
	}
}

// actionOf returns what a request asks for.
func (r *request) actionOf() (room.Action, error) {
	s, in := r.session, &r.in
	switch in.Action {
	case protocol.ActionReady:
		return room.Ready{User: s.user, Session: s.id, Value: in.Value}, nil
	case protocol.ActionSay:
		return room.Say{User: s.user, Session: s.id, Text: in.Text, Data: string(in.Data), To: in.To, Authority: s.viewer(in.Room).Authority}, nil
	case protocol.ActionSet:
		switch in.Scope {
		case protocol.ScopeMember:
			return room.SetMemberData{User: s.user, Session: s.id, Data: string(in.Data), Expect: r.expect()}, nil
		case protocol.ScopePrivate:
			return r.deal()
		}
		return room.SetData{User: s.user, Session: s.id, Data: string(in.Data), Authority: s.viewer(in.Room).Authority, Expect: r.expect()}, nil
	case protocol.ActionTimer:
		set := room.SetTimer{User: s.user, Session: s.id, Authority: s.viewer(in.Room).Authority, Name: in.Name, Stop: in.In == nil, Expect: r.expect()}
		if in.In != nil {
			set.In = *in.In
		}
		if in.Then != nil {
			set.Then = *in.Then
		}
		return set, nil
	case protocol.ActionTxn:
		return r.txn()
	case protocol.ActionKick:
		kick := room.Kick{User: in.User, Text: in.Text, As: r.claim()}
		if in.Ban > 0 {
			kick.Until = s.server.now() + int64(in.Ban)*1000
		}
		return kick, nil
	case protocol.ActionSwap:
		return room.Swap{Users: in.Users, As: r.claim()}, nil
	case protocol.ActionShuffle:
		return room.Shuffle{Seed: rand.Uint64(), As: r.claim()}, nil
	case protocol.ActionClose:
		return room.Close{As: r.claim()}, nil
	case protocol.ActionConfigure:
		return room.Configure{Settings: *in.Settings, Expect: r.expect(), As: r.claim()}, nil
	}
	return nil, protocol.UnknownAction(in.Action)
}

// claim returns by what right the user does what is for hosts and admins: as the host, unless the token has the role
// admin. Whether the user is the host, the room says when the action is done.
func (r *request) claim() room.Claim {
	if r.session.isAdmin() {
		return room.Claim{}
	}
	return room.Claim{User: r.session.user, Session: r.session.id}
}

// txn returns what does several things with authority over the room.
func (r *request) txn() (room.Action, error) {
	if err := r.requireAuthority("a txn"); err != nil {
		return nil, err
	}
	txn := room.Txn{Expect: r.expect()}
	for _, part := range r.in.Actions {
		part.Room = r.in.Room
		action, err := (&request{session: r.session, in: part}).actionOf()
		if err != nil {
			return nil, err
		}
		txn.Actions = append(txn.Actions, action)
	}
	return txn, nil
}

// deal returns what sets the private data of the user or, by an admin, of another one.
func (r *request) deal() (room.Action, error) {
	s, in := r.session, &r.in
	hand := room.Hand{User: cmp.Or(in.User, s.user), Data: string(in.Data)}
	if in.User == "" {
		return room.Deal{User: s.user, Session: s.id, Hands: []room.Hand{hand}, Expect: r.expect()}, nil
	}
	if err := r.requireAuthority("setting the private data of others"); err != nil {
		return nil, err
	}
	return room.Deal{Hands: []room.Hand{hand}, Expect: r.expect()}, nil
}

// expect returns the version that a request builds on, if it does on one.
func (r *request) expect() room.Expect {
	if r.in.Expect == nil {
		return room.Expect{}
	}
	return room.ExpectVersion(r.in.Epoch, *r.in.Expect)
}

// requireAuthority returns an error unless the client's token has the role admin, for the room of the request.
func (r *request) requireAuthority(action string) error {
	switch {
	case r.session.access == nil:
		return room.Forbid("%s is for admins, and a server without a key for tokens has none", action)
	case !r.session.isAdmin():
		return room.Forbid("%s is for admins, and the role of the token is another one", action)
	case !r.session.viewer(r.in.Room).Authority:
		return room.Forbid("the token does not allow room %s", r.in.Room)
	}
	return nil
}

// isAdmin reports whether the client's token has the role admin.
func (s *session) isAdmin() bool { return s.identity().Role == auth.RoleAdmin }

// doAsMember is do for an action that needs the session's place. While the server is bringing the
// session back, it waits for that: the client does not know that the place was lost.
func (s *session) doAsMember(id string, action room.Action) (result room.Result, err error) {
	lacking := s.retryUntilMember(id, func() (room.Snapshot, bool) {
		result, err = s.do(id, action)
		return result.Snapshot, errors.Is(err, room.ErrNotMember)
	})
	return result, cmp.Or(lacking, err)
}

// refuseConflict refuses a request with what is there in place of what it expected.
func (r *request) refuseConflict(now room.Snapshot, err error) {
	reply := r.refusal(err)
	reply.Epoch, reply.Version, reply.Data = now.Epoch, now.Version, protocol.JSON(now.Data)
	if gone, is := errors.AsType[*room.GoneError](err); is {
		reply.Data, reply.Reason, reply.Text, reply.To = "", string(gone.Reason), gone.Text, gone.Target
	}
	switch user := r.session.user; r.in.Scope {
	case protocol.ScopeMember:
		reply.Data = ""
		for _, o := range now.Users() {
			if o.User == user {
				reply.Data = protocol.JSON(o.Data)
			}
		}
	case protocol.ScopePrivate:
		target, _ := room.ParseUser(cmp.Or(r.in.User, user)) // it was checked
		reply.Data = protocol.JSON(now.Private(r.session.viewer(r.in.Room))[target])
	}
	r.push(now.Epoch, now.Version, reply)
}
