package chaos

import (
	"errors"
	"maps"
	"slices"

	"roomd/loadtest/check"
	"roomd/room"
	"roomd/transport/client"
	"roomd/transport/protocol"
)

// answer fills in how a call ended.
func answer(op *check.Op, reply *protocol.Reply, err error) {
	var refused *protocol.Error
	var conflict *client.ConflictError
	switch {
	case err == nil:
		op.Outcome = check.Done
		op.Epoch, op.Version, op.Count = reply.Epoch, reply.Version, reply.Count
		if reply.Seat != nil {
			op.Seat = *reply.Seat
		}
		op.Room = reply.Room
		if reply.Users != nil {
			op.List = listOf(op.Process, reply)
		}
	case errors.As(err, &conflict):
		op.Outcome, op.Code = check.Refused, protocol.CodeConflict
		op.Epoch, op.Version, op.Now = conflict.Epoch, conflict.Version, text(conflict.Data)
	case errors.As(err, &refused) && !refused.Is(protocol.ErrUnknown):
		op.Outcome, op.Code = check.Refused, refused.Code
	default:
		op.Outcome = check.Unknown
	}
}

// heardReply records what a reply says of a room.
func (p *player) heardReply(conn int, user string, r *protocol.Reply) {
	e := check.Event{Conn: conn, User: user, Room: r.Room, Reply: true}
	if r.Error != nil || r.Users == nil {
		e.Room = "" // it only shows that the connection lives
	} else {
		e.Epoch, e.Version, e.List = r.Epoch, r.Version, listOf(user, r)
	}
	p.run.history.heard(e)
	if r.Error == nil && r.Seat != nil { // here, and not where the call returns: the next event may come before that
		p.enter(user, r.Room)
	}
	p.learn(e)
}

// heardEvent records an event.
func (p *player) heardEvent(conn int, user string, e *protocol.Event) {
	seen := check.Event{Conn: conn, User: user, Room: e.Room, Epoch: e.Epoch, Version: e.Version}
	switch e.Event {
	case protocol.EventChanges:
		seen.From = e.From
		for i := range e.Changes {
			seen.Changes = append(seen.Changes, changeOf(&e.Changes[i]))
		}
	case protocol.EventSnapshot:
		seen.List = listOf(user, &protocol.Reply{Users: e.Users, Private: e.Private, Data: e.Data, Settings: e.Settings, Timers: e.Timers, Host: e.Host})
	case protocol.EventLost:
		seen.Lost = e.Reason
	default:
		seen.Room = ""
	}
	p.run.history.heard(seen)
	p.learn(seen)
	if e.Event == protocol.EventLost && e.Reason == protocol.ReasonMoved {
		p.enter(user, e.To)
	}
}

// enter records that the player was told to be in a room.
func (p *player) enter(user, room string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.name == user && p.rooms[room] == nil {
		p.rooms[room] = &place{users: make(map[string]bool)}
	}
}

// learn keeps up what the player knows of its rooms.
func (p *player) learn(e check.Event) {
	p.mu.Lock()
	defer p.mu.Unlock()
	at := p.rooms[e.Room]
	if at == nil || p.name != e.User {
		return
	}
	if e.Lost != "" {
		delete(p.rooms, e.Room)
		return
	}
	at.epoch, at.version = e.Epoch, e.Version
	if e.List != nil {
		at.host, at.settings = e.List.Host, e.List.Settings
		clear(at.users)
		for _, m := range e.List.Users {
			at.users[m.User] = true
		}
	}
	for _, c := range e.Changes {
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

func listOf(user string, r *protocol.Reply) *check.List {
	l := &check.List{
		For: user, Users: make([]check.Member, len(r.Users)), Data: text(r.Data), Settings: *settingsOf(r.Settings),
		Host: r.Host, Timers: slices.Sorted(maps.Keys(r.Timers)),
	}
	for i, u := range r.Users {
		l.Users[i] = check.Member{User: u.User, Seat: u.Seat, Away: u.Away, Ready: u.Ready, Data: text(u.Data)}
	}
	for user, data := range r.Private {
		if l.Private == nil {
			l.Private = make(map[string]string)
		}
		l.Private[user] = text(data)
	}
	return l
}

func settingsOf(s *room.Settings) *check.Settings {
	if s == nil {
		return new(check.Settings)
	}
	settings := &check.Settings{Capacity: s.Capacity, Closed: s.Closed, Labels: check.Labels(s.Labels)}
	if s.Host != room.HostNone { // as Redis has it
		settings.Host = s.Host.String()
	}
	return settings
}

func changeOf(c *protocol.Change) check.Change {
	change := check.Change{
		Type: c.Type, User: c.User, Seat: c.Seat, Away: c.Away, Reason: c.Reason, Text: c.Text,
		Target: c.To.Room, To: c.To.Users, Ready: c.Ready, Data: text(c.Data), Name: c.Name, Set: c.In != nil,
	}
	if c.Settings != nil {
		change.Settings = settingsOf(c.Settings)
	}
	return change
}

// text returns the string that JSON is. Players set nothing else.
func text(data protocol.JSON) string {
	return plain([]byte(data))
}
