package transport

import (
	"fmt"
	"log/slog"
	"sync"
	"time"

	"roomd/room"
	"roomd/transport/auth"
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

// permit returns an error unless the token allows a request. A user may always get out of a room;
// inside says that the session is a member there, or watches. (For others, unwatch tells how many
// members the room has.)
func (a *access) permit(req protocol.Request, inside bool) error {
	a.mu.Lock()
	granted := a.granted
	a.mu.Unlock()
	switch {
	case granted.User == "":
		return protocol.NewError(protocol.CodeUnauthorized, "the first request must be auth, with a token")
	case !time.Now().Before(granted.Expires): // after a step of the clock, the timer is late
		a.expire()
		return protocol.NewError(protocol.CodeUnauthorized, "the token has expired")
	case req.Action == protocol.ActionLeave, staysAllowed(req.Action) && inside, room.CheckID(req.Room) != nil, granted.Allows(req.Room):
		return nil
	}
	return room.Forbid("the token does not allow room %s", req.Room)
}

// staysAllowed reports whether a session may do that in a room that it is in, whatever newer tokens
// say of the room.
func staysAllowed(action string) bool {
	switch action {
	case protocol.ActionUnwatch, protocol.ActionReady, protocol.ActionSet, protocol.ActionSay:
		return true
	}
	return false
}

// role returns what the token's user may do besides playing.
func (a *access) role() auth.Role {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.granted.Role
}

// authenticate runs an auth request.
func (r *request) authenticate() {
	if r.access == nil {
		r.refuse(&room.InvalidError{Field: "action", Problem: "auth makes no sense here: this server has no key for tokens"})
		return
	}
	identity, err := r.access.renew(r.Token)
	if err != nil {
		r.refuse(err)
		return
	}
	if r.user == "" {
		r.user = identity.User
		r.onUser()
		r.server.debug.write("authenticated", slog.String("user", r.user), slog.String("session", r.id))
	}
	r.out.push(replyFrame(&protocol.Reply{ID: &r.ID, User: identity.User, Expires: identity.Expires.Unix()}))
}

// requireUser ends a connection whose first frame has not said with a valid token who its user is.
func (s *session) requireUser() {
	if s.user == "" {
		s.end(protocol.CloseUnauthorized, fmt.Sprintf("the first request must be %s, with a valid token", protocol.ActionAuth))
	}
}
