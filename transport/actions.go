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
func (s *session) act(req protocol.Request) {
	action, err := s.actionOf(req)
	if err != nil {
		s.refuse(req, err)
		return
	}
	result, err := s.doWithPlace(req.Room, action)
	switch {
	case errors.Is(err, room.ErrConflict):
		s.refuseConflict(req, result.Snapshot, err)
	case err != nil:
		s.refuse(req, err)
	default:
		s.out.push(replyFrame(countReply(req, result.Snapshot)))
	}
}

// actionOf returns what a request asks for.
func (s *session) actionOf(req protocol.Request) (a room.Action, err error) {
	switch req.Action {
	case protocol.ActionReady:
		return room.Ready(s.user, s.id, req.Value), nil
	case protocol.ActionSay:
		return room.Say(room.Message{Text: req.Text, Data: string(req.Data), To: req.To}).By(s.user, s.id), nil
	case protocol.ActionSet:
		a = room.SetData(string(req.Data)).By(s.user, s.id)
		if req.Scope == protocol.ScopeMember {
			a = room.SetMemberData(s.user, s.id, string(req.Data))
		}
		if s.isAdmin() {
			a = a.WithAuthority()
		}
		if req.Expect != nil {
			a = a.Unchanged(req.Epoch, *req.Expect)
		}
		return a, nil
	case protocol.ActionKick, protocol.ActionClose, protocol.ActionConfigure:
		if err := s.requireAdmin(req.Action); err != nil {
			return a, err
		}
		return adminActionOf(req), nil
	}
	return a, protocol.UnknownAction(req.Action)
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
func (s *session) requireAdmin(action string) error {
	switch {
	case s.access == nil:
		return room.Forbid("%s is for admins, and a server without a key for tokens has none", action)
	case !s.isAdmin():
		return room.Forbid("%s is for admins, and the role of the token is another one", action)
	}
	return nil
}

// isAdmin reports whether the client's token has the role admin.
func (s *session) isAdmin() bool { return s.access != nil && s.access.role() == auth.RoleAdmin }

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
func (s *session) refuseConflict(req protocol.Request, now room.Snapshot, err error) {
	reply := s.refusal(req, err)
	reply.Epoch, reply.Version, reply.Data = now.Epoch, now.Version, protocol.JSON(now.Data)
	if req.Scope == protocol.ScopeMember {
		reply.Data = ""
		for _, o := range now.Users() {
			if o.User == s.user {
				reply.Data = protocol.JSON(o.Data)
			}
		}
	}
	s.out.push(replyFrame(reply))
}
