package loadtest

import (
	"fmt"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"time"

	"roomd/loadtest/check"
	"roomd/transport/protocol"
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

// govern returns a call that only the host may make, or nil. A player who is not the host makes one now and then, to
// be refused.
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
	op := a.call("", check.Op{Action: check.Reserve, Users: guests, Settings: wanted}, http.MethodPost, "/match",
		map[string]any{"users": guests, "labels": wanted.Labels,
			"settings": map[string]any{"capacity": wanted.Capacity, "host": wanted.Host}})
	if op.Outcome == check.Done {
		a.game.matchedIn(op.Room, wanted)
	}
}

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
	code, err := a.send(api, http.MethodPost, "/rooms/"+url.PathEscape(from)+"/move",
		map[string]any{"users": []string{user}, "to": to}, &said)
	a.end(left, code, err, said.From)
	a.end(joined, code, err, said.To)
}

// nothingDone has the codes of refusals that do not depend on a room.
var nothingDone = []string{protocol.CodeUnavailable, protocol.CodeBusy, protocol.CodeRateLimited}

// expected has the codes of refusals that other players and administrators cause.
var expected = []string{
	protocol.CodeRoomFull, protocol.CodeSeatTaken, protocol.CodeBadRequest, protocol.CodeClosed, protocol.CodeBanned,
	protocol.CodeNotMember, protocol.CodeForbidden, protocol.CodeConflict, protocol.CodeUnknown,
}

// waits matches the pause that a refusal's message asks for.
var waits = regexp.MustCompile(`wait (\S+)$`)

// told returns the pause that a refusal asks for, and whether the reason is a rate limit.
func told(why *protocol.Error) (wait time.Duration, limited bool) {
	if !why.Is(protocol.ErrRateLimited) {
		return 0, false
	}
	if found := waits.FindStringSubmatch(why.Message); found != nil {
		wait, _ = time.ParseDuration(found[1])
	}
	return max(wait, time.Millisecond), true
}

// answer fills in the result of a call. m is nil without a reply.
func answer(op *check.Op, m *message) {
	if m == nil || m.reply.Error != nil && m.reply.Error.Is(protocol.ErrUnknown) {
		op.Outcome = check.Unknown
		return
	}
	r := m.reply
	op.Epoch, op.Version = one(r.Epoch), r.Version
	switch {
	case r.Error == nil:
		op.Outcome, op.Room, op.Count, op.List = check.Done, one(r.Room), r.Count, m.list
		if r.Seat != nil {
			op.Seat = *r.Seat
		}
	case r.Error.Is(protocol.ErrConflict):
		op.Outcome, op.Code, op.Now = check.Refused, protocol.CodeConflict, Plain(r.Data)
	default:
		op.Outcome, op.Code = check.Refused, r.Error.Code
		op.Epoch, op.Version = "", 0
	}
}

// hear handles a reply or an event for the user of that name; f is its content about a room. The connection's
// reader calls it in order.
func (p *player) hear(name string, m *message, f *check.Frame) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.name != name {
		return
	}
	// here, not where the call returns, because the next event may come before that
	if r := m.reply; r != nil && r.Error == nil && (r.Seat != nil || p.watches) {
		p.enterLocked(r.Room)
	}
	if f != nil {
		p.learnLocked(f)
	}
	if e := m.event; e != nil && e.Event == protocol.EventLost && e.Reason == protocol.ReasonMoved {
		p.enterLocked(e.To)
	}
}

// about returns the content of a message about a room, as user sees it.
func (m *message) about(user string) *check.Frame {
	switch {
	case m.reply == nil && (m.frame == nil || m.frame.List == nil):
		return m.frame
	case m.reply == nil: // others may share it
		f, list := *m.frame, *m.frame.List
		list.For, f.List = user, &list
		return &f
	case m.list == nil || m.reply.Error != nil:
		return nil
	}
	m.list.For = user
	return &check.Frame{Room: one(m.reply.Room), Epoch: one(m.reply.Epoch), Version: m.reply.Version, List: m.list,
		Reply: true}
}

// enterLocked records that the player is in a room according to a node.
func (p *player) enterLocked(room string) {
	if p.rooms[room] == nil {
		p.rooms[room] = &place{users: make(map[string]bool)}
	}
}

// mostLater is how many frames a player collects before it reads them.
const mostLater = 100

// learnLocked updates the player's knowledge of its rooms.
func (p *player) learnLocked(f *check.Frame) {
	at := p.rooms[f.Room]
	if at == nil {
		return
	}
	if f.Lost != "" {
		delete(p.rooms, f.Room)
		return
	}
	if f.List != nil {
		at.later = at.later[:0]
	}
	at.epoch, at.version = f.Epoch, f.Version
	if at.later = append(at.later, f); len(at.later) > mostLater {
		at.read()
	}
}

// read updates users, host and settings.
func (at *place) read() {
	for _, f := range at.later {
		if f.List != nil {
			at.host, at.settings = f.List.Host, f.List.Settings
			clear(at.users)
			for _, m := range f.List.Users {
				at.users[m.User] = true
			}
		}
		for _, c := range f.Changes {
			switch c.Type {
			case protocol.ChangeJoin:
				at.users[c.User] = true
			case protocol.ChangeLeave:
				delete(at.users, c.User)
			case protocol.ChangeHost:
				at.host = c.User
			case protocol.ChangeSettings:
				at.settings = *c.Settings
			}
		}
	}
	clear(at.later)
	at.later = at.later[:0]
}
