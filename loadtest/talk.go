package loadtest

import (
	"cmp"
	"fmt"
	"strconv"
	"time"

	"roomd/loadtest/history"
	"roomd/room"
	"roomd/transport/protocol"
)

// longestTimer is how long a timer takes at most to fire.
const longestTimer = 500 * time.Millisecond

// request is a request under way.
type request struct {
	action string // what the tally counts it as
	room   string
	q      *history.Request // nil for a join, a match, a leave or a read
	begins *room.Settings   // of a match: of the room that begins if there is none
}

// kindsOfTables is how many labels matches look for.
const kindsOfTables = 3

// table returns the settings of a room that a match looks for.
func table(kind int) *room.Settings {
	return &room.Settings{Capacity: 4, Host: room.HostLongest, Labels: room.MakeLabels(map[string]string{"kind": fmt.Sprint("k", kind)})}
}

// talk chooses what a member does besides joining and leaving.
func (p *player) talk(what, id string) *request {
	p.said++
	q := &history.Request{By: p.name}
	r := &request{action: what, room: id, q: q}
	switch what {
	case MixReady:
		q.Action, q.Ready = history.SetReady, p.random.IntN(2) == 0
	case MixData:
		q.Action = history.SetData
		if p.random.IntN(4) == 0 {
			r.action, q.Action = actionMember, history.SetMember
		}
		if p.random.IntN(10) > 0 { // else it is removed
			q.Data = fmt.Sprintf("%q", fmt.Sprintf("%d-%d", p.number, p.said))
		}
		if state := p.knows(id); p.random.IntN(2) == 0 {
			q.Expect, q.ExpectEpoch = &state.Version, state.Epoch
		}
	case MixPrivate:
		q.Action = history.SetPrivate
		if p.random.IntN(10) > 0 {
			q.Data = fmt.Sprintf("%q", fmt.Sprintf("%d holds %d", p.number, p.said))
		}
	case MixTimer:
		q.Action, q.Text = history.SetTimer, fmt.Sprint("t", p.random.IntN(3))
		if p.random.IntN(5) > 0 { // else it is cancelled
			q.Data = fmt.Sprint(p.random.IntN(int(longestTimer.Milliseconds())))
		}
	case MixHost:
		p.govern(q, id)
	case MixSay:
		q.Action, q.Text = history.Say, fmt.Sprintf("%d says %d", p.number, p.said)
		if others := p.knows(id).Users; len(others) > 1 && p.random.IntN(2) == 0 {
			r.action = actionWhisper
			first := p.random.IntN(len(others))
			for i := range min(1+p.random.IntN(3), len(others)) {
				q.To = append(q.To, others[(first+i)%len(others)].User)
			}
		}
	}
	return r
}

// govern makes it a request that only the host may make. Who is not is refused.
func (p *player) govern(q *history.Request, id string) {
	knows := p.knows(id)
	other := p.name
	for _, m := range knows.Users {
		if m.User != p.name {
			other = m.User
		}
	}
	switch n := p.random.IntN(12); {
	case n == 0:
		q.Action = history.Close
	case n > 9:
		q.Action, q.Settings = history.Configure, history.Rules{}
		if knows.Settings != nil {
			q.Settings = *knows.Settings
		}
		q.Settings.Capacity = len(knows.Users) + p.random.IntN(4) // it may not fit
	case n > 6 || other == p.name:
		q.Action = history.Shuffle
	case n > 3:
		q.Action, q.Users, q.Text = history.Kick, unseated([]string{other}), "enough"
	default:
		q.Action, q.Users = history.Swap, unseated([]string{p.name, other})
	}
}

// knows returns what the player knows of a room.
func (p *player) knows(id string) history.RoomState {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.viewLocked(id).State()
}

// frame returns the request as the protocol has it.
func (p *player) frame(r *request) protocol.Request {
	req := protocol.Request{Action: r.action, Room: r.room}
	if q := r.q; q != nil {
		req.Expect, req.Epoch = q.Expect, q.ExpectEpoch
		switch q.Action {
		case history.SetReady:
			req.Action, req.Value = protocol.ActionReady, q.Ready
		case history.SetMember, history.SetData, history.SetPrivate:
			req.Action, req.Data = protocol.ActionSet, protocol.JSON(cmp.Or(q.Data, "null"))
			switch q.Action {
			case history.SetMember:
				req.Scope = protocol.ScopeMember
			case history.SetPrivate:
				req.Scope = protocol.ScopePrivate
			}
		case history.SetTimer:
			req.Action, req.Name = protocol.ActionTimer, q.Text
			if in, err := strconv.ParseInt(q.Data, 10, 64); err == nil {
				req.In = &in
			}
		case history.Kick:
			req.Action, req.User, req.Text = protocol.ActionKick, q.Users[0].User, q.Text
		case history.Close:
			req.Action = protocol.ActionClose
		case history.Shuffle:
			req.Action = protocol.ActionShuffle
		case history.Swap:
			req.Action, req.Users = protocol.ActionSwap, []string{q.Users[0].User, q.Users[1].User}
		case history.Configure:
			req.Action, req.Settings = protocol.ActionConfigure, settingsOf(q.Settings)
		case history.Say:
			req.Action, req.Text, req.To = protocol.ActionSay, q.Text, q.To
		}
	} else if r.begins != nil {
		begin := *r.begins
		req.Labels, begin.Labels, req.Settings = begin.Labels, "", &begin
	} else if r.action == protocol.ActionJoin && p.random.IntN(10) == 0 {
		seat := p.random.IntN(20)
		req.Seat = &seat
	}
	return req
}
