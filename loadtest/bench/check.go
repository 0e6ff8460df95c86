package bench

import (
	"context"
	"fmt"
)

// membership is whether a client is in its room, according to its last reply.
type membership int8

const (
	memberOut membership = iota
	memberIn
	memberUnsure // the last action failed, and may have had its effect
)

// maxTexts limits the violations that are described for each measurement.
const maxTexts = 5

// Violations counts the differences between rooms' lists and the replies of their users.
type Violations struct {
	Lost      int `json:"lost"`      // joined, but not in the list
	Phantom   int `json:"phantom"`   // in the list, but left or never joined
	Duplicate int `json:"duplicate"` // in the list a second time

	Shared int `json:"shared,omitempty"` // holds of a lock while another client also held it

	texts []string // the first ones
}

func (v *Violations) total() int { return v.Lost + v.Phantom + v.Duplicate + v.Shared }

// check compares a room's list, in any order, with the replies to its users.
func (v *Violations) check(room string, told map[string]membership, list []string) {
	seen := make(map[string]bool, len(list))
	for _, user := range list {
		switch {
		case seen[user]:
			v.Duplicate++
			v.describe("%s is more than once in %s", user, room)
		case told[user] == memberOut:
			v.Phantom++
			v.describe("%s is in %s and did not join", user, room)
		}
		seen[user] = true
	}
	for user, at := range told {
		if at == memberIn && !seen[user] {
			v.Lost++
			v.describe("%s joined %s and is not in it", user, room)
		}
	}
}

func (v *Violations) describe(format string, args ...any) {
	if len(v.texts) < maxTexts {
		v.texts = append(v.texts, fmt.Sprintf(format, args...))
	}
}

// place is a client's user and room.
type place struct {
	room       int // its number
	id         string
	user       string
	membership membership
}

// newPlaces returns the places of a workload's clients.
func newPlaces(w workload, rooms []string) []*place {
	list := make([]*place, w.clients)
	for i := range list {
		at := w.room(i)
		list[i] = &place{room: at, id: rooms[at], user: user(i)}
	}
	return list
}

// player is a client of a node. It alternates between joining and leaving its room.
type player struct {
	*place
	node node
}

// act leaves the room if the player is certainly in it, and otherwise joins it. A second join does no harm.
func (p *player) act(ctx context.Context) error {
	act, done := p.node.join, memberIn
	if p.membership == memberIn {
		act, done = p.node.leave, memberOut
	}
	p.membership = memberUnsure
	if err := act(ctx, p.id, p.user); err != nil {
		return err
	}
	p.membership = done
	return nil
}

// check compares the list of every room with the replies to its users.
func (c *cell) check(ctx context.Context, rooms []string, places []*place) (v Violations, err error) {
	if c.who.members == nil {
		return v, nil
	}
	ctx, cancel := context.WithTimeout(ctx, checkTimeout)
	defer cancel()
	told := make([]map[string]membership, len(rooms))
	for i := range told {
		told[i] = make(map[string]membership)
		for _, user := range c.load.residents() {
			told[i][user] = memberIn
		}
	}
	for _, p := range places {
		told[p.room][p.user] = p.membership
	}
	for i, room := range rooms {
		list, err := c.who.members(ctx, c.rdb, room)
		if err != nil {
			return v, fmt.Errorf("read the lists: %w", err)
		}
		v.check(room, told[i], list)
	}
	return v, nil
}
