package bench

import "context"

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
