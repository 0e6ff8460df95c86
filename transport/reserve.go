package transport

import (
	"errors"
	"time"

	"github.com/google/uuid"

	"roomd/room"
)

// reservation are the graces of users whose seats are reserved under one session, which no client
// has.
type reservation struct {
	graces  *graces
	session string
	members []*grace
}

// reserve begins the graces of users before their seats are reserved: from then on this server
// answers for their session. After stop it fails with room.ErrClosed.
func (g *graces) reserve(id string, users []string) (*reservation, error) {
	r := &reservation{graces: g, session: uuid.NewString()}
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.running == nil {
		return nil, room.ErrClosed
	}
	for _, user := range users[:min(len(users), room.MaxGroup)] { // more are refused
		name, err := room.ParseUser(user)
		if err != nil {
			continue // so is that
		}
		one := &grace{user: name, session: r.session, rooms: []string{id}, reason: room.ReasonTimeout}
		g.running[one] = struct{}{}
		r.members = append(r.members, one)
	}
	return r, nil
}

// withoutGrace is how long a seat is reserved where there is no grace. Sessions that follow a move
// need a moment.
const withoutGrace = placeWait

// settle says what came of the reservation. Without an error the users have the grace from now on.
// If nothing was written there is nothing to give up; if that is not known, the users leave at once.
func (r *reservation) settle(err error) {
	g := r.graces
	length := g.length
	if length < 0 {
		length = withoutGrace
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, one := range r.members {
		switch {
		case g.running == nil: // the lease of the node ends the reservation
		case err == nil:
			one.timer = time.AfterFunc(length, func() {
				g.mu.Lock()
				defer g.mu.Unlock()
				g.endLocked(one)
			})
		case errors.Is(err, room.ErrUnknown):
			g.endLocked(one)
		default:
			delete(g.running, one)
		}
	}
}
