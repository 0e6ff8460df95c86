package loadtest

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"roomd/loadtest/history"
	"roomd/transport/client"
	"roomd/transport/protocol"
)

const (
	// maxRooms is how many rooms a player is in at once, at most.
	maxRooms = 2

	// requestTimeout is far longer than a node needs to answer busy.
	requestTimeout = 30 * time.Second

	redialPause = 50 * time.Millisecond

	// limitedPause is for a request over the rate of a running node.
	limitedPause = 20 * time.Millisecond
)

// player is one user with one connection, which it replaces when it breaks.
type player struct {
	name    string // in normal form
	typed   string
	where   string // the node's name in descriptions
	url     string
	rooms   []string
	ledger  *history.Ledger
	tally   *tally
	random  *rand.Rand
	latency *hdrhistogram.Histogram // of acknowledged actions, in µs
	members []string                // rooms that it believes to be in
	conn    *client.Client

	mu      sync.Mutex
	views   map[string]*history.View // guarded by mu; by room
	lost    []string                 // guarded by mu; rooms of which a lost event came
	running *request                 // guarded by mu; sent and not answered
}

// request is a request under way.
type request struct{ action, room string }

func newPlayer(i int, url, where string, rooms []string, ledger *history.Ledger, t *tally) *player {
	typed, normal := name(i)
	return &player{
		name: normal, typed: typed, where: where, url: url, rooms: rooms, ledger: ledger, tally: t,
		random:  rand.New(rand.NewPCG(uint64(i), uint64(len(rooms)))),
		latency: hdrhistogram.New(1, int64(requestTimeout/time.Microsecond), 3),
		views:   make(map[string]*history.View),
	}
}

// connect makes the player's connection.
func (p *player) connect(ctx context.Context) error {
	c, err := client.Dial(ctx, p.url, client.Options{User: p.typed, OnReply: p.reply, OnEvent: p.event})
	if err != nil {
		return fmt.Errorf("%s: %w", p.where, err)
	}
	p.conn = c
	return nil
}

// play joins and leaves until ctx ends. It waits for the reply to a request that it has
// sent.
func (p *player) play(ctx context.Context) {
	for ctx.Err() == nil {
		if p.isCut() && !p.reconnect(ctx) {
			return
		}
		p.step()
	}
	if p.isCut() {
		p.disconnect()
	}
}

// isCut reports whether the connection is gone.
func (p *player) isCut() bool {
	select {
	case <-p.conn.Done():
		return true
	default:
		return false
	}
}

// step sends one request.
func (p *player) step() {
	p.mu.Lock()
	p.members = slices.DeleteFunc(p.members, func(id string) bool { return slices.Contains(p.lost, id) })
	p.lost = nil
	p.mu.Unlock()
	r := &request{protocol.ActionJoin, p.rooms[p.random.IntN(len(p.rooms))]}
	switch {
	case slices.Contains(p.members, r.room):
		r.action = protocol.ActionLeave
		if p.random.IntN(10) == 0 {
			r.action = protocol.ActionUsers
		}
	case len(p.members) == maxRooms:
		r = &request{protocol.ActionLeave, p.members[p.random.IntN(maxRooms)]}
	}
	p.mu.Lock()
	p.running = r
	p.mu.Unlock()

	ctx, cancel := context.WithTimeout(context.Background(), requestTimeout)
	defer cancel()
	start := time.Now()
	var err error
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
	}
	if err == nil && r.action != protocol.ActionUsers {
		_ = p.latency.RecordValue(max(1, time.Since(start).Microseconds()))
	}
	p.done(r, err)
}

// done counts the outcome of a request and updates the rooms of the player.
func (p *player) done(r *request, err error) {
	var refused *protocol.Error
	switch {
	case err == nil && r.action == protocol.ActionJoin:
		p.tally.joins.Add(1)
		p.members = append(p.members, r.room)
	case err == nil && r.action == protocol.ActionLeave:
		p.tally.leaves.Add(1)
		p.members = slices.DeleteFunc(p.members, func(id string) bool { return id == r.room })
	case err == nil:
		p.tally.reads.Add(1)
	case errors.As(err, &refused) && (refused.Is(protocol.ErrRoomFull) || refused.Is(protocol.ErrSeatTaken) || refused.Is(protocol.ErrBadRequest)):
		p.tally.refused.Add(1)
	case errors.As(err, &refused) && refused.Is(protocol.ErrRateLimited):
		p.tally.refused.Add(1)
		time.Sleep(limitedPause)
	case errors.As(err, &refused) && refused.Is(protocol.ErrUnknown):
		p.tally.unknown.Add(1)
	case errors.As(err, &refused) && refused.Is(protocol.ErrNotMember):
		// A failure has removed the player, and its node had not joined again: that ends the membership.
		p.tally.refused.Add(1)
		p.members = slices.DeleteFunc(p.members, func(id string) bool { return id == r.room })
	case errors.As(err, &refused):
		p.tally.fail(fmt.Errorf("%s %s: %w", r.action, r.room, err))
	default: // no reply: the connection broke, or the server was too slow
		p.tally.unknown.Add(1)
		p.tally.fail(fmt.Errorf("%s %s: %w", r.action, r.room, err))
		p.conn.Close()
	}
}

// reconnect replaces a broken connection. It returns false if ctx ended before. The
// player may or may not still be in its rooms, and joins them again.
func (p *player) reconnect(ctx context.Context) bool {
	p.disconnect()
	for ctx.Err() == nil {
		err := p.connect(ctx)
		if err == nil {
			return true
		}
		p.tally.fail(err)
		select {
		case <-time.After(redialPause):
		case <-ctx.Done():
		}
	}
	return false
}

// disconnect ends a broken connection and its views.
func (p *player) disconnect() {
	p.conn.Close() // and its reader: no reply or event comes after this
	p.members = nil
	p.mu.Lock()
	defer p.mu.Unlock()
	if r := p.running; r != nil && r.action != protocol.ActionUsers {
		p.viewLocked(r.room).Unknown(r.action)
	}
	p.running, p.lost = nil, nil
	for _, v := range p.views {
		v.Cut()
	}
	clear(p.views)
}

func (p *player) viewLocked(id string) *history.View {
	v := p.views[id]
	if v == nil {
		v = p.ledger.View(id, p.name, p.name+" on "+p.where)
		p.views[id] = v
	}
	return v
}

// reply handles a reply. The connection's reader calls reply and event in order of
// arrival.
func (p *player) reply(r *protocol.Reply) {
	p.mu.Lock()
	defer p.mu.Unlock()
	run := p.running
	p.running = nil
	if run == nil {
		p.tally.fail(fmt.Errorf("a reply without a request: %+v", *r))
		return
	}
	v := p.viewLocked(run.room)
	list := history.List{Epoch: r.Epoch, Version: r.Version, Count: r.Count, Users: toMembers(r.Users)}
	switch {
	case r.Error != nil:
		if r.Error.Is(protocol.ErrUnknown) && run.action != protocol.ActionUsers {
			v.Unknown(run.action)
		}
		if r.Error.Is(protocol.ErrNotMember) {
			v.Lost()
		}
	case run.action == protocol.ActionJoin:
		p.lost = slices.DeleteFunc(p.lost, func(id string) bool { return id == run.room })
		v.Joined(*r.Seat, list)
	case run.action == protocol.ActionLeave:
		v.Left(r.Epoch, r.Version, r.Count)
	default: // the player is in the room, so later events build on the list
		v.Snapshot(list)
	}
}

// event handles an event.
func (p *player) event(e *protocol.Event) {
	p.tally.events.Add(1)
	p.mu.Lock()
	defer p.mu.Unlock()
	v := p.viewLocked(e.Room)
	if e.Event == protocol.EventLost {
		v.Lost()
		p.lost = append(p.lost, e.Room)
		return
	}
	if e.Event == protocol.EventSnapshot {
		v.Snapshot(history.List{Epoch: e.Epoch, Version: e.Version, Count: e.Count, Users: toMembers(e.Users)})
		return
	}
	changes := make([]history.Change, len(e.Changes))
	for i, c := range e.Changes {
		changes[i] = history.Change{Type: c.Type, User: c.User, Seat: c.Seat}
	}
	v.Changed(history.Event{Epoch: e.Epoch, Version: e.Version, From: e.From, Changes: changes})
}

func toMembers(users []protocol.Seated) []history.Member {
	list := make([]history.Member, len(users))
	for i, u := range users {
		list[i] = history.Member{User: u.User, Seat: u.Seat}
	}
	return list
}
