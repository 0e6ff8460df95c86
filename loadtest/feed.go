package loadtest

import (
	"fmt"
	"maps"
	"slices"

	"roomd/loadtest/history"
	"roomd/transport/protocol"

	"roomd/room"
)

// heard handles a reply or an event. The connection's reader calls it in the order of arrival.
func (p *player) heard(m *message) {
	if m.reply != nil {
		p.reply(m.reply, m.users)
	} else {
		p.event(m.event, m)
	}
}

// reply handles a reply.
func (p *player) reply(r *protocol.Reply, users []history.Member) {
	p.mu.Lock()
	defer p.mu.Unlock()
	run := p.running
	p.running = nil
	if run == nil {
		p.tally.Fail(fmt.Errorf("a reply without a request: %+v", *r))
		return
	}
	if run.begins != nil {
		if r.Error != nil {
			p.unmatched(r.Error)
			return
		}
		run.room = r.Room
		p.game.matchedIn(r.Room)
	}
	if run.joins() || run.action == protocol.ActionLeave { // which says more than what was heard before
		p.news = slices.DeleteFunc(p.news, func(n news) bool { return n.room == run.room })
	}
	v := p.viewLocked(run.room)
	list := history.List{
		Epoch: r.Epoch, Version: r.Version, Count: r.Count, Users: users,
		Data: string(r.Data), Settings: toRules(r.Version, r.Settings), Private: toPrivate(r.Private), Timers: toTimers(r.Timers), Host: r.Host,
	}
	answer := history.Reply{Epoch: r.Epoch, Version: r.Version, Data: string(r.Data)}
	switch {
	case r.Error != nil && r.Error.Is(protocol.ErrUnknown):
		run.unknown(v)
	case r.Error != nil && r.Error.Is(protocol.ErrConflict):
		v.Refused(*run.q, answer)
	case r.Error != nil && run.action == protocol.ActionLeave && r.Error.Is(protocol.ErrNotMember):
		v.Gone()
	case r.Error != nil:
	case run.q != nil:
		v.Done(*run.q, answer, r.Count)
	case run.begins != nil:
		v.Matched(*r.Seat, list, ruled(*run.begins))
	case run.action == protocol.ActionJoin:
		v.Joined(*r.Seat, list)
	case run.action == protocol.ActionLeave:
		v.Left(r.Epoch, r.Version, r.Count)
	default:
		v.Read(list)
	}
}

// joins reports whether the player becomes a member.
func (r *request) joins() bool { return r.begins != nil || r.action == protocol.ActionJoin }

// unmatched handles the refusal of a match, which ends in a room unless the server fails.
func (p *player) unmatched(why *protocol.Error) {
	switch {
	case why.Is(protocol.ErrUnknown):
		p.game.lostMatch(p.name)
	case slices.ContainsFunc(refusals, why.Is):
		p.ledger.Unmatched(p.name, why.Error())
	}
}

// unknown tells the view that the request may have been committed or not.
func (r *request) unknown(v *history.View) {
	switch {
	case r.q != nil:
		v.Unanswered(*r.q)
	case r.action != protocol.ActionUsers:
		v.Unknown(r.action)
	}
}

// event handles an event.
func (p *player) event(e *protocol.Event, m *message) {
	if e.Event == protocol.EventNode {
		return
	}
	p.events.Add(1)
	p.mu.Lock()
	defer p.mu.Unlock()
	v := p.viewLocked(e.Room)
	if e.Event == protocol.EventLost {
		v.Lost(e.Reason, e.To)
		p.news = append(p.news, news{e.Room, false})
		if e.Reason == protocol.ReasonMoved {
			p.viewLocked(e.To).Arrives()
			p.news = append(p.news, news{e.To, true})
		}
		return
	}
	if e.Event == protocol.EventSnapshot {
		v.Snapshot(history.List{
			Epoch: e.Epoch, Version: e.Version, Count: e.Count, Users: m.users,
			Data: string(e.Data), Settings: toRules(e.Version, e.Settings), Private: toPrivate(e.Private), Timers: toTimers(e.Timers), Host: e.Host,
		})
		return
	}
	v.Changed(history.Event{Epoch: e.Epoch, Version: e.Version, From: e.From, Changes: m.changes})
}

// toTimers returns the names of timers, which are known.
func toTimers(t protocol.Timers) history.Timers {
	return append(history.Timers{}, slices.Sorted(maps.Keys(t))...)
}

func toChange(c *protocol.Change) history.Change {
	change := history.Change{Type: c.Type, User: c.User, Seat: c.Seat, To: c.To.Users, Detail: history.Detail{
		Away: c.Away, Reason: c.Reason, Target: c.To.Room, Text: c.Text, Data: string(c.Data),
	}}
	switch c.Type {
	case protocol.ChangePrivate:
		change.Part = history.SetPrivate
		if c.Data == "null" {
			change.Data = ""
		}
	case protocol.ChangeMember:
		tellState(&change.Detail, c)
	}
	if change.Timer = c.Name; c.Type == protocol.ChangeCountdown {
		change.Set = c.In != nil
	}
	if c.Settings != nil {
		change.Settings = *toRules(1, c.Settings)
	}
	return change
}

// tellState says which part of a member's state a change tells.
func tellState(d *history.Detail, c *protocol.Change) {
	switch {
	case c.Data == "":
		d.Part = history.SetReady
	case c.Ready == nil:
		d.Part = history.SetMember
	}
	if c.Ready != nil {
		d.Ready = *c.Ready
	}
	if c.Data == "null" {
		d.Data = ""
	}
}

func toPrivate(shown map[string]protocol.JSON) (private map[string]string) {
	for user, data := range shown {
		if private == nil {
			private = make(map[string]string)
		}
		private[user] = string(data)
	}
	return private
}

func toMembers(users []protocol.Seated) []history.Member {
	list := make([]history.Member, len(users))
	for i, u := range users {
		list[i] = history.Member{User: u.User, Seat: u.Seat, Away: u.Away, Ready: u.Ready, Data: string(u.Data)}
	}
	return list
}

// toRules returns the settings of a room at a version. A room that nobody has joined yet has none.
func toRules(version uint64, s *room.Settings) *history.Rules {
	switch {
	case version == 0:
		return nil
	case s == nil:
		s = new(room.Settings)
	}
	rules := ruled(*s)
	return &rules
}
