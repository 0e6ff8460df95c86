package session

import (
	"sync"
	"time"

	"roomd/room"
	"roomd/transport/auth"
	"roomd/transport/protocol"
)

// Access is what a connection's token allows, and until when. Nil belongs to a server without a key for tokens.
type Access struct {
	verifier *auth.Verifier
	named    string // the user that the URL names; "" for none
	conn     Conn
	late     func() // called when no token came in time

	mu      sync.Mutex
	granted auth.Identity // guarded by mu: by the newest token; zero before the first
	timer   *time.Timer   // guarded by mu: ends the connection at its deadline; nil before start and after stop
}

// NewAccess returns the access of a connection without a token so far. named is the user in its URL, or "".
func NewAccess(verifier *auth.Verifier, named string) *Access {
	return &Access{verifier: verifier, named: named}
}

// Show verifies the token of the handshake, and returns its user, or a *protocol.Error.
func (a *Access) Show(token string) (user string, err error) {
	a.granted, err = a.verify(token)
	return a.granted.User, err
}

// verify returns the identity in a token, or a *protocol.Error. A user in ?user= must be the token's.
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

// start limits the connection's time: to its token's, or to timeout if it has none yet.
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

// stop ends the time limit of a connection that has ended.
func (a *Access) stop() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.timer.Stop()
	a.timer = nil
}

// renew replaces the granted identity by a newer token's, for the same user.
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

// fresh returns an error if the client has no token yet, or an expired one.
func (a *Access) fresh() error {
	a.mu.Lock()
	granted := a.granted
	a.mu.Unlock()
	switch {
	case granted.User == "":
		return protocol.NewError(protocol.CodeUnauthorized, "the first request must be auth, with a token")
	case !time.Now().Before(granted.Expires): // after a step of the clock the timer is late
		a.expire()
		return protocol.NewError(protocol.CodeUnauthorized, "the token has expired")
	}
	return nil
}

// check returns an error unless the token allows a request that names a room. A user may always leave a room, or stop
// watching it. A member may go on acting there, whatever a newer token says. Reads of the room are also checked by
// mayWatch; a match names no room.
func (a *Access) check(action, id string, member bool) error {
	use := auth.Enter
	switch {
	case action == protocol.ActionLeave, action == protocol.ActionUnwatch, protocol.ActionNamed(action).Stays && member,
		room.CheckID(id) != nil: // refused elsewhere
		return nil
	case action == protocol.ActionWatch, action == protocol.ActionUsers:
		use = auth.Watch
	}
	granted := a.identity()
	return granted.May(use, id, member)
}

func (a *Access) allows(action, id string) bool {
	return a.check(action, id, false) == nil
}

// identity returns the identity in the newest token; zero without tokens.
func (a *Access) identity() auth.Identity {
	if a == nil {
		return auth.Identity{}
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.granted
}

func (a *Access) isAdmin() bool { return a.identity().Role == auth.RoleAdmin }

// viewer returns the client's rights to see a room.
func (s *Session) viewer(id string) room.Viewer {
	granted := s.access.identity()
	return granted.Viewer(s.User, id)
}
