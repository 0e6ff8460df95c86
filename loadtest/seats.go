package loadtest

import (
	"fmt"
	"net/http"

	"roomd/loadtest/check"
)

// seats exchanges the seats of two members, or permutes all.
func (a *administrator) seats(room string) {
	one, other := a.someone(room), a.someone(room)
	if one == other || a.random.IntN(2) == 0 {
		a.call(room, check.Op{Action: check.Shuffle}, http.MethodPost, "/shuffle", nil)
		return
	}
	users := []string{one, other}
	a.call(room, check.Op{Action: check.Swap, Users: users}, http.MethodPost, "/swap", map[string]any{"users": users})
}

// match reserves seats for guests in one room, which it finds or creates.
func (a *administrator) match() {
	wanted, guests := a.game.wanted(a.random.IntN(kindsOfTables)), a.invite()
	op := &check.Op{Action: check.Reserve, Users: guests, Settings: wanted}
	api := a.begin(op)
	var at position
	code, err := a.send(api, http.MethodPost, "/api/match", map[string]any{
		"users": guests, "labels": wanted.Labels, "settings": map[string]any{"capacity": wanted.Capacity,
			"host": wanted.Host},
	}, &at)
	if err == nil && code == "" {
		a.game.matchedIn(at.Room, wanted)
	}
	a.end(op, code, err, at)
}

// invite returns new guests.
func (a *administrator) invite() (guests []string) {
	for range 2 + a.random.IntN(2) {
		a.number++
		guests = append(guests, fmt.Sprintf("guest %d", a.number))
	}
	return guests
}

// move moves a member to another room. That is two operations, one in each room.
func (a *administrator) move(from string) {
	to := a.game.rooms[a.random.IntN(len(a.game.rooms))]
	user := a.someone(from)
	if to == from || user == "" {
		return
	}
	left := &check.Op{Action: check.MoveOut, Room: from, Users: []string{user}}
	joined := &check.Op{Action: check.MoveIn, Room: to, Users: []string{user}, Part: true}
	api := a.begin(left, joined)
	if !a.game.cfg.Mixed {
		joined.Left = left.ID
	}
	var said struct{ From, To position }
	code, err := a.send(api, http.MethodPost, pathOf(from, "/move"),
		map[string]any{"users": []string{user}, "to": to}, &said)
	a.end(left, code, err, said.From)
	a.end(joined, code, err, said.To)
}
