package transport

import (
	"fmt"
	"log/slog"
	"sync"
	"time"

	"roomd/room"
	"roomd/transport/auth"
	"roomd/transport/internal/frames"
	"roomd/transport/protocol"
)

// access is what the token of a connection allows, and until when. A server without a key has
// none for its connections.
type access struct {
	verifier *auth.Verifier
	named    string                      // the user that ?user= names; "" for none
	end      func(code int, text string) // ends the connection
	onLate   func()                      // called when no token came in time

	mu      sync.Mutex
	granted auth.Identity // guarded by mu: of the newest token; zero before the first
	timer   *time.Timer   // guarded by mu: ends the connection when its time is over; nil before start and after stop
}

// verify returns what a token says, or a *protocol.Error. The token must be for the user that
// ?user= names, if it names one.
func (a *access) verify(token string) (auth.Identity, error) {
	identity, err := a.verifier.Verify(token)
	if err != nil {
		return auth.Identity{}, protocol.NewError(protocol.CodeUnauthorized, "%v", err)
	}
	if a.named != "" && a.named != identity.User {
		return auth.Identity{}, protocol.NewError(protocol.CodeUnauthorized, "the token is not for the user that ?user= names")
	}
	return identity, nil
}

// start limits the connection's time: to that of its token, or to timeout if it has none yet.
func (a *access) start(timeout time.Duration) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.granted.User == "" {
		a.timer = time.AfterFunc(timeout, func() {
			a.onLate()
			a.end(protocol.CloseUnauthorized, "no token came in time")
		})
		return
	}
	a.timer = time.AfterFunc(time.Until(a.granted.Expires), a.expire)
}

func (a *access) expire() { a.end(protocol.CloseUnauthorized, "the token has expired") }

// stop ends the limit, when the connection has ended.
func (a *access) stop() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.timer.Stop()
	a.timer = nil
}

// renew replaces what is allowed by what another token says. The token must be for the same user.
func (a *access) renew(token string) (auth.Identity, error) {
	identity, err := a.verify(token)
	if err != nil {
		return auth.Identity{}, err
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if user := a.granted.User; user != "" && user != identity.User {
		return auth.Identity{}, protocol.NewError(protocol.CodeUnauthorized, "the token is for another user than this connection's")
	}
	a.granted = identity
	a.timer.Stop()
	a.timer = time.AfterFunc(time.Until(identity.Expires), a.expire)
	return identity, nil
}

// check returns an error unless the token allows an action in a room: the one place where that is asked.
// A user may always get out of a room, or stop to watch it. A member may go on there, whatever newer tokens say.
func (s *session) check(action, id string, member bool) error {
	use := auth.Enter
	switch {
	case action == protocol.ActionLeave, action == protocol.ActionUnwatch, protocol.ActionNamed(action).Stays && member, room.CheckID(id) != nil:
		return nil // what is wrong with an id is said elsewhere
	case action == protocol.ActionWatch, action == protocol.ActionUsers:
		use = auth.Watch
	}
	granted := s.identity()
	return granted.May(use, id, member)
}

// fresh returns an error if the client has shown no token yet, or an old one.
func (a *access) fresh() error {
	a.mu.Lock()
	granted := a.granted
	a.mu.Unlock()
	switch {
	case granted.User == "":
		return protocol.NewError(protocol.CodeUnauthorized, "the first request must be auth, with a token")
	case !time.Now().Before(granted.Expires): // after a step of the clock, the timer is late
		a.expire()
		return protocol.NewError(protocol.CodeUnauthorized, "the token has expired")
	}
	return nil
}

// permit returns an error unless the client's token allows the request.
func (r *request) permit() error {
	s := r.session
	if s.access == nil {
		return nil
	}
	if err := s.access.fresh(); err != nil || r.in.Action == protocol.ActionPing || r.in.Action == protocol.ActionMatch { // it asks for each room that is found
		return err
	}
	return s.check(r.in.Action, r.in.Room, s.isMember(r.in.Room))
}

// allows reports whether the newest token allows an action to a session that is not in the room.
func (s *session) allows(action, id string) bool {
	return s.check(action, id, false) == nil
}

// identity returns what the newest token says; without tokens, nobody in particular.
func (s *session) identity() auth.Identity {
	if s.access == nil {
		return auth.Identity{}
	}
	s.access.mu.Lock()
	defer s.access.mu.Unlock()
	return s.access.granted
}

// viewer returns as whom the client is shown a room.
func (s *session) viewer(id string) room.Viewer {
	granted := s.identity()
	return granted.Viewer(s.user, id)
}

// authenticate runs an auth request.
func (r *request) authenticate() {
	s := r.session
	if s.access == nil {
		r.refuse(&room.InvalidError{Field: "action", Problem: "auth makes no sense here: this server has no key for tokens"})
		return
	}
	identity, err := s.access.renew(r.in.Token)
	if err != nil {
		r.refuse(err)
		return
	}
	if s.user == "" {
		s.user = identity.User
		s.onUser()
		s.server.debug.write("authenticated", slog.String("user", s.user), slog.String("session", s.id))
	}
	s.out.Push(frames.Reply(&protocol.Reply{ID: &r.in.ID, User: identity.User, Expires: identity.Expires.Unix()}))
	s.judgeRooms()
}

// requireUser ends a connection whose first frame has not said with a valid token who its user is.
func (s *session) requireUser() {
	if s.user == "" {
		s.end(protocol.CloseUnauthorized, fmt.Sprintf("the first request must be %s, with a valid token", protocol.ActionAuth))
	}
}
