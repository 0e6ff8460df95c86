package loadtest

import (
	"fmt"
	"slices"

	"roomd/loadtest/check"
)

// kindsOfTables is the number of labels that matches look for.
const kindsOfTables = 3

// wanted returns the settings of a kind of room, with a label that no other game uses.
func (g *Game) wanted(kind int) *check.Settings {
	return &check.Settings{Capacity: 4, Host: check.Longest,
		Labels: check.Labels(fmt.Sprintf(`{"kind":"%s-%d"}`, g.id, kind))}
}

// talk returns a call of a member, or nil if the mix has none.
func (p *player) talk(room string) *check.Op {
	if len(p.game.talks) == 0 {
		return nil
	}
	op := &check.Op{Room: room}
	value := func(what string) string { return fmt.Sprint(what, "-", p.game.History.Value()) }
	switch mix := p.game.talks[p.random.IntN(len(p.game.talks))]; mix {
	default: // its action needs no more; request adds the rest
		op.Action = plays[slices.IndexFunc(plays, func(row played) bool { return row.mix == mix })].action
	case MixSay:
		op.Action, op.Value = check.Say, value("say")
		if others := p.others(room); len(others) > 0 && p.random.IntN(3) == 0 {
			op.Users = others[:1]
		}
	case MixPrivate:
		op.Action, op.Value = check.SetPrivate, value("own")
	case MixTimer:
		op.Action, op.Name = check.SetTimer, fmt.Sprint("t", p.random.IntN(4))
		switch {
		case p.random.IntN(6) == 0:
			op.Action = check.StopTimer
		case room == p.game.rooms[0]:
			// only some timers, because from then on porcupine has to allow this value
			op.Value = value("fired")
		}
	case MixHost:
		return p.govern(room)
	case MixData:
		op.Action, op.Value = check.SetData, value("data")
		if p.random.IntN(4) == 0 {
			op.Action = check.SetMember
			break
		}
		p.mu.Lock()
		if at := p.rooms[room]; at != nil && p.random.IntN(2) == 0 {
			version := at.version
			op.Expect, op.InEpoch = &version, at.epoch
		}
		p.mu.Unlock()
	}
	return op
}

// govern returns a call that only the host may make, or nil. Mostly it returns nil unless the player is the
// host; others are refused.
func (p *player) govern(room string) *check.Op {
	others := p.others(room)
	p.mu.Lock()
	var host string
	var settings check.Settings
	if at := p.rooms[room]; at != nil {
		host, settings = at.host, at.settings
	}
	p.mu.Unlock()
	if host != p.name && p.random.IntN(8) > 0 || len(others) == 0 {
		return nil
	}
	op := &check.Op{Room: room, AsHost: true, Users: others[:1]}
	switch p.random.IntN(8) {
	case 0, 1, 2:
		op.Action, op.Users = check.Shuffle, nil
	case 3, 4:
		op.Action, op.Users = check.Swap, []string{p.name, others[0]}
	case 5:
		op.Action = check.Kick
	case 6:
		settings.Capacity = len(others) + 1 + p.random.IntN(max(8, p.game.cfg.Capacity))
		op.Action, op.Users, op.Settings = check.Configure, nil, &settings
	default:
		op.Action, op.Users = check.Close, nil
	}
	return op
}

// others returns the other members of a room that the player knows of.
func (p *player) others(room string) (users []string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if at := p.rooms[room]; at != nil {
		at.read()
		for user := range at.users {
			if user != p.name {
				users = append(users, user)
			}
		}
	}
	slices.Sort(users)
	return users
}
