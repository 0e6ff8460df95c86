package loadtest

import (
	"cmp"
	"fmt"
	"strconv"
	"time"

	"roomd/loadtest/history"
	"roomd/transport/protocol"
)

// longestTimer is how long a timer takes at most to fire.
const longestTimer = 500 * time.Millisecond

// request is a request under way.
type request struct {
	action string // what the tally counts it as
	room   string
	q      *history.Request // nil for a join, a leave or a read
}

// talk chooses what a member does besides joining and leaving.
func (p *player) talk(what, id string) *request {
	p.said++
	q := &history.Request{By: p.name}
	r := &request{what, id, q}
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
		case history.Say:
			req.Action, req.Text, req.To = protocol.ActionSay, q.Text, q.To
		}
	} else if r.action == protocol.ActionJoin && p.random.IntN(10) == 0 {
		seat := p.random.IntN(20)
		req.Seat = &seat
	}
	return req
}
