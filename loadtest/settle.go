package loadtest

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"roomd/loadtest/check"
	"roomd/lockmgr/redisconn/pause"
	"roomd/transport/protocol"
)

const (
	lookPause  = 20 * time.Millisecond // between two checks whether all is well
	endTimeout = 2 * time.Minute
)

// Settle waits for up to patience until every connected player and watcher knows its rooms as they are in
// Redis, and all timers have fired. Then it reads each room at each node, and in Redis.
func (g *Game) Settle(ctx context.Context, patience time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, max(endTimeout, 2*patience))
	defer cancel()
	s := &settling{Game: g}
	defer s.close()
	if err := s.connect(ctx); err != nil {
		return err
	}
	if behind := Await(ctx, patience, s.behind); behind != "" {
		g.Problem("settles", "events do not arrive, or timers do not fire: %s", behind)
	}
	for i, o := range s.observers {
		for _, room := range g.AllRooms() {
			o.read(ctx, fmt.Sprintf("observer %d", i+1), room)
		}
	}
	return s.readStore(ctx)
}

// Await calls missing repeatedly until it returns "", for up to patience. It returns what is missing in the end.
func Await(ctx context.Context, patience time.Duration, missing func(context.Context) string) (last string) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	for {
		now := missing(ctx)
		switch {
		case now == "":
			return ""
		case ctx.Err() != nil: // now may only say that
			return cmp.Or(last, now)
		}
		last = now
		_ = pause.For(ctx, lookPause)
	}
}

// settling is the end of a game.
type settling struct {
	*Game
	observers []*player // one at each node, to read its rooms
}

func (s *settling) connect(ctx context.Context) error {
	for n := range s.cfg.Nodes {
		p := newPlayer(s.Game, 0)
		p.typed, p.name, p.direct = "observer", "observer", true
		if err := p.dialTo(ctx, n); err != nil {
			return err
		}
		s.observers = append(s.observers, p)
	}
	return nil
}

func (s *settling) close() {
	for _, o := range s.observers {
		o.conn.Close()
	}
}

// read reads a room, as an operation of the history.
func (p *player) read(ctx context.Context, as, room string) (end check.Op) {
	op := &check.Op{Process: as, Node: p.node + 1, Room: room, Action: check.Read}
	p.log.call(op)
	m, err := p.ask(ctx, protocol.Request{Action: protocol.ActionUsers, Room: room})
	end = *op
	answer(&end, m)
	p.log.returned(op, end)
	if err != nil {
		p.game.Problem("settles", "at the end node %d does not answer for room %s: %v", p.node+1, room, err)
	}
	return end
}

// storeProcess is the process of operations that read Redis itself.
const storeProcess = "Redis"

// readStore reads each room in Redis, as operations of the history with all private data.
func (s *settling) readStore(ctx context.Context) error {
	if s.cfg.Store == nil {
		return nil
	}
	l := s.History.newLog()
	for _, room := range s.AllRooms() {
		op := &check.Op{Process: storeProcess, Room: room, Action: check.Read}
		l.call(op)
		epoch, version, list, err := s.cfg.Store.room(ctx, room)
		if err != nil {
			return err
		}
		end := *op
		end.Outcome, end.Epoch, end.Version, end.Count = check.Done, one(epoch), version, len(list.Users)
		if version > 0 {
			end.List = list
		}
		l.returned(op, end)
	}
	return nil
}

// at returns the epoch and version of a room, and one of its timers, from Redis or a node.
func (s *settling) at(ctx context.Context, room string) (at string, timer string, err error) {
	var epoch string
	var version uint64
	if s.cfg.Store != nil {
		epoch, version, timer, err = s.cfg.Store.at(ctx, room)
	} else {
		var m *message
		if m, err = s.observers[0].ask(ctx, protocol.Request{Action: protocol.ActionUsers, Room: room}); err != nil {
			return "", "", err
		}
		epoch, version = m.reply.Epoch, m.reply.Version
		for name := range m.reply.Timers {
			timer = name
		}
	}
	return fmt.Sprint(epoch, " ", version), timer, err
}

// behind names a timer that has not fired, a player who lacks a room's last version, or an error; "" for none.
func (s *settling) behind(ctx context.Context) string {
	s.mu.Lock()
	all := slices.Concat(s.players, s.watchers)
	s.mu.Unlock()
	for _, room := range s.AllRooms() {
		at, timer, err := s.at(ctx, room)
		if err != nil {
			return err.Error()
		}
		if timer != "" {
			return fmt.Sprintf("timer %s of room %s has not fired", timer, room)
		}
		for _, p := range all {
			if name, knows, in := p.knows(room); in && knows != at {
				return fmt.Sprintf("%s is told of room %s at %q, and it is at %q", name, room, knows, at)
			}
		}
	}
	return ""
}

// knows returns the epoch and version of a room that a connected player knows, if it is a member.
func (p *player) knows(room string) (name, at string, in bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	place := p.rooms[room]
	if p.conn == nil || place == nil || p.conn.over() {
		return p.name, "", false
	}
	return p.name, fmt.Sprint(place.epoch, " ", place.version), true
}

// Disconnect ends all connections.
func (g *Game) Disconnect() {
	g.unwatch()
	g.watching.Wait()
	all := slices.Concat(g.players, g.watchers)
	for _, p := range all {
		p.disconnect()
	}
	for _, p := range all {
		p.closes.Wait()
	}
}

// Leave makes all players leave, and waits until the rooms are empty, for within at most.
func (g *Game) Leave(ctx context.Context, within time.Duration) {
	g.Disconnect()
	if left := Await(ctx, within, g.left); left != "" {
		g.Problem("settles", "%v after everybody had left, %s", within, left)
	}
}

// left names a member or lock that is left in a room after everybody has left, or an error of Redis.
func (g *Game) left(ctx context.Context) string {
	s := g.cfg.Store
	for _, room := range g.AllRooms() {
		users, err := s.Client.HKeys(ctx, s.Key(room, "Users")).Result()
		if err != nil {
			return err.Error()
		}
		if len(users) > 0 {
			return fmt.Sprintf("%q are in room %s", users, room)
		}
		if holder, _ := s.Client.Get(ctx, s.LockKey(room)).Result(); holder != "" {
			return fmt.Sprintf("%s holds the lock of room %s", holder, room)
		}
	}
	return ""
}

// keepEvery is how often the run reads the journals of rooms that matches created. Such a room may vanish with
// its journal a minute after its last member has left.
const keepEvery = 10 * time.Second

// keep reads the journals of rooms that may vanish before the end.
func (g *Game) keep(ctx context.Context) {
	for g.cfg.Store != nil && pause.For(ctx, keepEvery) == nil {
		for _, room := range g.AllRooms()[len(g.rooms):] {
			_ = g.read(ctx, room) // retried later, and at the end
		}
	}
}

// read reads new entries of a room's journal.
func (g *Game) read(ctx context.Context, room string) error {
	if g.kept[room] == nil {
		g.kept[room] = new(journal)
	}
	return g.kept[room].read(ctx, g.cfg.Store, room)
}

// End returns the history of a finished game, with the journals of all rooms.
func (g *Game) End(ctx context.Context) (*check.History, error) {
	ctx, cancel := context.WithTimeout(ctx, endTimeout)
	defer cancel()
	h := g.History.End()
	h.Rooms, h.Journals = g.AllRooms(), make(map[string][]check.Entry)
	if g.cfg.Store != nil {
		h.Halves = g.cfg.Store.Cluster
		for _, room := range h.Rooms {
			if err := g.read(ctx, room); err != nil {
				return nil, err
			}
			h.Journals[room] = g.kept[room].entries
		}
	}
	return h, g.History.flush()
}
