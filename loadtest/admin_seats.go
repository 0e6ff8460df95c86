package loadtest

import (
	"context"
	"fmt"
	"slices"

	"github.com/google/uuid"

	"roomd/loadtest/history"
	"roomd/room"
	"roomd/room/coordinator"
	"roomd/transport/protocol"
)

// seats has two members change places, or all of them.
func (a *admin) seats(ctx context.Context, id string) {
	if members := a.members(ctx, id); len(members) > 1 && a.random.IntN(2) == 0 {
		first := a.random.IntN(len(members))
		users := []string{members[first], members[(first+1)%len(members)]}
		a.do(ctx, protocol.ActionSwap, id, room.Swap{Users: users}, history.Request{Action: history.Swap, Users: unseated(users)})
		return
	}
	a.do(ctx, protocol.ActionShuffle, id, room.Shuffle{Seed: a.random.Uint64()}, history.Request{Action: history.Shuffle})
}

// match looks for a table for guests, who do not come, or lets those of before leave.
func (a *admin) match(ctx context.Context) {
	if id := a.matched; id != "" {
		a.matched = ""
		users := a.guests[id]
		delete(a.guests, id)
		a.do(ctx, "", id, room.Release{Users: users}, history.Request{Action: history.Release, Users: unseated(users)})
		return
	}
	var users []string
	for range 2 + a.random.IntN(2) {
		a.number++
		users = append(users, fmt.Sprintf("guest %d", a.number))
	}
	var id string
	var result room.Result
	begins := table(a.random.IntN(kindsOfTables))
	w := coordinator.Wanted{Labels: begins.Labels, Seats: len(users), Settings: *begins, Prefix: "m-", By: "administrator"}
	err := a.rooms.Match(ctx, w, func(ctx context.Context, found string, begin *room.Settings) (_ room.Result, err error) {
		id = found
		result, err = a.rooms.Do(ctx, id, room.Reserve{Session: uuid.NewString(), Users: users, Begin: begin})
		return result, err
	})
	if err != nil && refusedByRules(err) {
		a.game.ledger.Unmatched(users[0], err.Error())
	}
	if id == "" {
		a.tally.Fail(fmt.Errorf("%s: %w", actionParty, err))
		return
	}
	a.game.matchedIn(id)
	if a.record(actionParty, id, history.Request{Action: history.Reserve, Users: unseated(users)}, result, err); err == nil {
		a.guests[id], a.matched = users, id
	}
}

// party reserves seats for guests who do not come, or for players who may, or lets guests leave.
func (a *admin) party(ctx context.Context, id string) {
	if guests := a.guests[id]; len(guests) > 0 && a.random.IntN(2) == 0 {
		a.guests[id] = nil
		a.do(ctx, MixParty, id, room.Release{Users: guests}, history.Request{Action: history.Release, Users: unseated(guests)})
		return
	}
	var users []string
	strangers := len(a.guests[id]) == 0 && a.random.IntN(2) == 0
	for range 2 + a.random.IntN(3) {
		if a.number++; strangers {
			users = append(users, fmt.Sprintf("guest %d", a.number))
		} else if user := a.game.players[a.random.IntN(len(a.game.players))].name; !slices.Contains(users, user) {
			users = append(users, user)
		}
	}
	q := history.Request{Action: history.Reserve, Users: unseated(users)}
	if a.do(ctx, MixParty, id, room.Reserve{Session: uuid.NewString(), Users: users}, q) && strangers {
		a.guests[id] = users
	}
}

// mayLeave tells the ledger who has a reserved seat, and leaves when the grace is over without
// coming: perhaps while nobody watches.
func (a *admin) mayLeave(id string, q history.Request, after room.Result) {
	for _, o := range after.Users() {
		if o.Away && slices.ContainsFunc(q.Users, func(m history.Member) bool { return m.User == o.User }) {
			a.game.ledger.MayLeave(id, o.User, after.Version)
		}
	}
}

// move takes some of the members to another room.
func (a *admin) move(ctx context.Context, from string) {
	to := a.game.rooms[a.random.IntN(len(a.game.rooms))]
	members := a.members(ctx, from)
	if to == from || len(members) == 0 {
		return
	}
	a.random.Shuffle(len(members), func(i, j int) { members[i], members[j] = members[j], members[i] })
	users := members[:min(len(members), 1+a.random.IntN(3))]
	if others := a.members(ctx, to); len(others) > 0 && a.random.IntN(2) == 0 {
		back := others[a.random.IntN(len(others))]
		if !slices.Contains(users, back) {
			left, joined, err := a.rooms.Exchange(ctx, from, to, uuid.NewString(), users, []string{back})
			a.moved(MixMove, from, to, users, left, joined, err)
			a.moved("", to, from, []string{back}, joined, left, err)
			return
		}
	}
	left, joined, err := a.rooms.Move(ctx, from, to, uuid.NewString(), users...)
	a.moved(MixMove, from, to, users, left, joined, err)
}

// moved records what became of users who were taken from one room to another.
func (a *admin) moved(what, from, to string, users []string, left, joined room.Result, err error) {
	a.record(what, from, history.Request{Action: history.MoveOut, Users: unseated(users), Target: to}, left, err)
	a.record("", to, history.Request{Action: history.MoveIn, Users: unseated(users), Target: from}, joined, err)
}
