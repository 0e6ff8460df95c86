package loadtest

import (
	"context"
	"fmt"

	"roomd/loadtest/history"
	"roomd/transport/client"
	"roomd/transport/protocol"
)

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

// send sends a request, and waits for its reply.
func (p *player) send(ctx context.Context, r *request) (err error) {
	switch r.action {
	case protocol.ActionJoin:
		if p.random.IntN(10) == 0 {
			_, err = p.conn.JoinSeat(ctx, r.room, p.random.IntN(20))
		} else {
			_, err = p.conn.Join(ctx, r.room)
		}
	case protocol.ActionLeave:
		_, err = p.conn.Leave(ctx, r.room)
	case protocol.ActionUsers:
		_, err = p.conn.Users(ctx, r.room)
	default:
		err = p.ask(ctx, r.room, r.q)
	}
	return err
}

func (p *player) ask(ctx context.Context, id string, q *history.Request) (err error) {
	var only []client.Condition
	if q.Expect != nil {
		only = append(only, client.Expect(q.ExpectEpoch, *q.Expect))
	}
	var data any
	if q.Data != "" {
		data = protocol.JSON(q.Data)
	}
	switch {
	case q.Action == history.SetReady:
		_, err = p.conn.Ready(ctx, id, q.Ready)
	case q.Action == history.SetMember:
		_, err = p.conn.SetMember(ctx, id, data, only...)
	case q.Action == history.SetData:
		_, err = p.conn.Set(ctx, id, data, only...)
	case q.To != nil:
		_, err = p.conn.SayTo(ctx, id, q.To, client.Message{Text: q.Text})
	default:
		_, err = p.conn.Say(ctx, id, client.Message{Text: q.Text})
	}
	return err
}
