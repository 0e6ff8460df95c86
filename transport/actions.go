package transport

import (
	"cmp"
	"errors"
	"time"

	"roomd/room"
	"roomd/transport/auth"
	"roomd/transport/protocol"
)

// sayCost is how many requests a message counts as: the server sends it to everybody in the room.
const sayCost = 5

// act runs a request that is an action of the user and needs nothing else of the session.
func (r *request) act() {
	action, err := r.actionOf()
	if err != nil {
		r.refuse(err)
		return
	}
	result, err := r.doWithPlace(r.Room, action)
	switch {
	case errors.Is(err, room.ErrConflict):
		r.refuseConflict(result.Snapshot, err)
	case err != nil:
		r.refuse(err)
	default:
		r.out.push(replyFrame(countReply(&r.Request, result.Snapshot)))
	}
}

// actionOf returns what a request asks for.
func (r *request) actionOf() (a room.Action, err error) {
	switch r.Action {
	case protocol.ActionReady:
		return room.Ready(r.user, r.id, r.Value), nil
	case protocol.ActionSay:
		return room.Say(room.Message{Text: r.Text, Data: string(r.Data), To: r.To}).By(r.user, r.id), nil
	case protocol.ActionSet:
		a = room.SetData(string(r.Data)).By(r.user, r.id)
		if r.Scope == protocol.ScopeMember {
			a = room.SetMemberData(r.user, r.id, string(r.Data))
		}
		if r.isAdmin() {
			a = a.WithAuthority()
		}
		if r.Expect != nil {
			a = a.Unchanged(r.Epoch, *r.Expect)
		}
		return a, nil
	case protocol.ActionKick, protocol.ActionClose, protocol.ActionConfigure:
		if err := r.requireAdmin(r.Action); err != nil {
			return a, err
		}
		return adminActionOf(r.Request), nil
	}
	return a, protocol.UnknownAction(r.Action)
}

// adminActionOf returns what a request of an admin asks for.
func adminActionOf(req protocol.Request) (a room.Action) {
	switch req.Action {
	case protocol.ActionKick:
		a = room.Kick(req.User).Saying(req.Text)
		if req.Ban > 0 {
			a = a.Ban(time.Now().Add(time.Duration(req.Ban) * time.Second).UnixMilli())
		}
		return a
	case protocol.ActionClose:
		return room.Shut()
	}
	to := req.Settings
	a = room.Configure(room.Settings{Capacity: to.Capacity, Closed: to.Closed, Keep: to.Keep, Data: room.DataPolicy(to.Data)})
	if req.Expect != nil {
		a = a.IfVersion(req.Epoch, *req.Expect)
	}
	return a
}

// requireAdmin returns an error unless the client's token has the role admin.
func (r *request) requireAdmin(action string) error {
	switch {
	case r.access == nil:
		return room.Forbid("%s is for admins, and a server without a key for tokens has none", action)
	case !r.isAdmin():
		return room.Forbid("%s is for admins, and the role of the token is another one", action)
	}
	return nil
}

// isAdmin reports whether the client's token has the role admin.
func (r *request) isAdmin() bool { return r.access != nil && r.access.role() == auth.RoleAdmin }

// doWithPlace is do for an action that needs the session's place. While the server is bringing the
// session back, it waits for that: the client does not know that the place was lost.
func (s *session) doWithPlace(id string, action room.Action) (result room.Result, err error) {
	lacking := s.untilPlaced(id, func() (room.Snapshot, bool) {
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
	if r.Scope == protocol.ScopeMember {
		reply.Data = ""
		for _, o := range now.Users() {
			if o.User == r.user {
				reply.Data = protocol.JSON(o.Data)
			}
		}
	}
	r.out.push(replyFrame(reply))
}
