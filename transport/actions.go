package transport

import (
	"cmp"
	"errors"

	"roomd/room"
	"roomd/transport/auth"
	"roomd/transport/protocol"
)

// act runs a request that is an action of the user and needs nothing else of the session.
func (r *request) act() {
	action, err := r.in.ActionBy(r)
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

// User, Session, Claim, Authority, RequireAuthority and Now say of a request who does what it asks for.
func (r *request) User() string    { return r.session.user }
func (r *request) Session() string { return r.session.id }
func (r *request) Now() int64      { return r.session.server.now() }
func (r *request) Authority() bool { return r.session.viewer(r.in.Room).Authority }

// Claim returns by what right the user does what is for hosts and admins: as the host, unless the token has the role
// admin. Whether the user is the host, the room says when the action is done.
func (r *request) Claim() room.Claim {
	if r.session.isAdmin() {
		return room.Claim{}
	}
	return room.Claim{User: r.session.user, Session: r.session.id}
}

// RequireAuthority returns an error unless the client's token has the role admin, for the room of the request.
func (r *request) RequireAuthority(action string) error {
	switch {
	case r.session.access == nil:
		return room.Forbid("%s is for admins, and a server without a key for tokens has none", action)
	case !r.session.isAdmin():
		return room.Forbid("%s is for admins, and the role of the token is another one", action)
	case !r.Authority():
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
