package bench

import "context"

// player is a client of a contender: one user of one room, who is in and out of it
// by turns.
type player struct {
	node node
	room int // its number
	id   string
	user string
	told told
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

// act leaves the room if the player is in for sure, and joins it otherwise: to
// join again does no harm.
func (p *player) act(ctx context.Context) error {
	act, done := p.node.join, toldIn
	if p.told == toldIn {
		act, done = p.node.leave, toldOut
	}
	if err := act(ctx, p.id, p.user); err != nil {
		p.told = toldNothing
		return err
	}
	p.told = done
	return nil
}

// rosters returns who has to be in which of the rooms.
func rosters(w workload, rooms []string, players []*player) []*roster {
	residents := w.residents()
	list := make([]*roster, len(rooms))
	for i, room := range rooms {
		list[i] = newRoster(room, residents)
	}
	for _, p := range players {
		list[p.room].add(p.user, p.told)
	}
	return list
}
