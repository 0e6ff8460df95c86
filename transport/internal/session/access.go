package session

import (
	"sync"
	"time"

	"roomd/room"
	"roomd/transport/auth"
	"roomd/transport/protocol"
)

// Access is what the token of a connection allows, and until when. Nil is that of a server without a key.
type Access struct {
	verifier *auth.Verifier
	named    string // the user that the URL names; "" for none
	conn     Conn
	late     func() // called when no token came in time

	mu      sync.Mutex
	granted auth.Identity // guarded by mu: of the newest token; zero before the first
	timer   *time.Timer   // guarded by mu: ends the connection when its time is over; nil before start and after stop
}

// NewAccess returns the access of a connection that has shown no token yet. named is the user that its URL names, or
// "".
func NewAccess(verifier *auth.Verifier, named string) *Access {
	return &Access{verifier: verifier, named: named}
}

// Show shows the token of the handshake, and returns its user. It returns a *protocol.Error if that is not valid.
func (a *Access) Show(token string) (user string, err error) {
	a.granted, err = a.verify(token)
	return a.granted.User, err
}

// verify returns what a token says, or a *protocol.Error. The token must be for the user that
// ?user= names, if it names one.
func (a *Access) verify(token string) (auth.Identity, error) {
	identity, err := a.verifier.Verify(token)
	if err != nil {
		return auth.Identity{}, protocol.NewError(protocol.CodeUnauthorized, "%v", err)
	}
	if a.named != "" && a.named != identity.User {
		return auth.Identity{}, protocol.NewError(protocol.CodeUnauthorized,
			"the token is not for the user that ?user= names")
	}
	return identity, nil
}

// start limits the connection's time: to that of its token, or to timeout if it has none yet.
func (a *Access) start(timeout time.Duration) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.granted.User == "" {
		a.timer = time.AfterFunc(timeout, func() {
			a.late()
			a.conn.End(protocol.CloseUnauthorized, "no token came in time")
		})
		return
	}
	a.timer = time.AfterFunc(time.Until(a.granted.Expires), a.expire)
}

func (a *Access) expire() { a.conn.End(protocol.CloseUnauthorized, "the token has expired") }

// stop ends the limit, when the connection has ended.
func (a *Access) stop() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.timer.Stop()
	a.timer = nil
}

// renew replaces what is allowed by what another token says. The token must be for the same user.
func (a *Access) renew(token string) (auth.Identity, error) {
	identity, err := a.verify(token)
	if err != nil {
		return auth.Identity{}, err
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if user := a.granted.User; user != "" && user != identity.User {
		return auth.Identity{}, protocol.NewError(protocol.CodeUnauthorized,
			"the token is for another user than this connection's")
	}
	a.granted = identity
	a.timer.Stop()
	a.timer = time.AfterFunc(time.Until(identity.Expires), a.expire)
	return identity, nil
}

// fresh returns an error if the client has shown no token yet, or an old one.
func (a *Access) fresh() error {
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

// check returns an error unless the token allows an action in a room: the one place where that is asked.
// A user may always get out of a room, or stop to watch it. A member may go on there, whatever newer tokens say.
func (a *Access) check(action, id string, member bool) error {
	use := auth.Enter
	switch {
	case action == protocol.ActionLeave, action == protocol.ActionUnwatch, protocol.ActionNamed(action).Stays && member,
		room.CheckID(id) != nil: // which is said elsewhere
		return nil
	case action == protocol.ActionWatch, action == protocol.ActionUsers:
		use = auth.Watch
	}
	granted := a.identity()
	return granted.May(use, id, member)
}

// allows reports whether the newest token allows an action to a session that is not in the room.
func (a *Access) allows(action, id string) bool {
	return a.check(action, id, false) == nil
}

// identity returns what the newest token says; without tokens, nobody in particular.
func (a *Access) identity() auth.Identity {
	if a == nil {
		return auth.Identity{}
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.granted
}

// isAdmin reports whether the client's token has the role admin.
func (a *Access) isAdmin() bool { return a.identity().Role == auth.RoleAdmin }

// viewer returns as whom the client is shown a room.
func (s *Session) viewer(id string) room.Viewer {
	granted := s.access.identity()
	return granted.Viewer(s.User, id)
}
