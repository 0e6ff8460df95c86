package bench

import (
	"context"
	"fmt"
)

// membership is where a client is, by the last reply that it got.
type membership int8

const (
	memberOut membership = iota
	memberIn
	memberUnsure // the last action failed, and may have happened or not
)

// maxTexts is how many violations of a measurement are described.
const maxTexts = 5

// Violations counts the differences between rooms' lists and the replies of their users.
type Violations struct {
	Lost      int `json:"lost"`      // joined, and not in the list
	Phantom   int `json:"phantom"`   // in the list, and left or never joined
	Duplicate int `json:"duplicate"` // in the list once more

	Shared int `json:"shared,omitempty"` // holds of a lock that somebody else held, too

	texts []string // the first of them
}

func (v *Violations) total() int { return v.Lost + v.Phantom + v.Duplicate + v.Shared }

// add adds those of another pass.
func (v *Violations) add(more Violations) { v.Shared += more.Shared }

// roster is who must be in a room at the end, and who may be.
type roster struct {
	room string
	must map[string]bool
	may  map[string]bool
}

func newRoster(room string, residents []string) *roster {
	r := &roster{room, make(map[string]bool), make(map[string]bool)}
	for _, user := range residents {
		r.must[user] = true
	}
	return r
}

// add adds a client's user.
func (r *roster) add(user string, m membership) {
	switch m {
	case memberIn:
		r.must[user] = true
	case memberUnsure:
		r.may[user] = true
	}
}

// check compares a room's list, in any order, with its roster.
func (v *Violations) check(r *roster, list []string) {
	seen := make(map[string]bool, len(list))
	for _, user := range list {
		switch {
		case seen[user]:
			v.Duplicate++
			v.describe("%s is more than once in %s", user, r.room)
		case !r.must[user] && !r.may[user]:
			v.Phantom++
			v.describe("%s is in %s and did not join", user, r.room)
		}
		seen[user] = true
	}
	for user := range r.must {
		if !seen[user] {
			v.Lost++
			v.describe("%s joined %s and is not in it", user, r.room)
		}
	}
}

func (v *Violations) describe(format string, args ...any) {
	if len(v.texts) < maxTexts {
		v.texts = append(v.texts, fmt.Sprintf(format, args...))
	}
}

// player is a client of a contender: one user, who joins and leaves one room by turns.
type player struct {
	node       node
	room       int // its number
	id         string
	user       string
	membership membership
}

// newPlayers returns the workload's clients.
func newPlayers(w workload, rooms []string, nodes []node) []*player {
	list := make([]*player, w.clients)
	for i := range list {
		at := w.room(i)
		list[i] = &player{node: nodes[w.node(i)], room: at, id: rooms[at], user: user(i)}
	}
	return list
}

// act leaves the room if the player is certainly in it, and otherwise joins it. Joining
// again does no harm.
func (p *player) act(ctx context.Context) error {
	act, done := p.node.join, memberIn
	if p.membership == memberIn {
		act, done = p.node.leave, memberOut
	}
	if err := act(ctx, p.id, p.user); err != nil {
		p.membership = memberUnsure
		return err
	}
	p.membership = done
	return nil
}

// rosters returns who must be, and may be, in each room.
func rosters(w workload, rooms []string, players []*player) []*roster {
	residents := w.residents()
	list := make([]*roster, len(rooms))
	for i, room := range rooms {
		list[i] = newRoster(room, residents)
	}
	for _, p := range players {
		list[p.room].add(p.user, p.membership)
	}
	return list
}
