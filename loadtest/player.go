package loadtest

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"roomd/loadtest/check"
	"roomd/lockmgr/redisconn/pause"
	"roomd/room"
	"roomd/transport/protocol"
)

const (
	redialPause  = 100 * time.Millisecond
	dialTimeout  = 10 * time.Second // as by default in transport/client
	maxRooms     = 2                // of a player at once
	longestTimer = 1500 * time.Millisecond
)

// player is a sequence of clients. A user with a call whose outcome is unknown does not come back: another one
// does, so that no user has two calls that may both be under way.
type player struct {
	game   *Game
	number int
	random *rand.Rand
	log    *log
	lives  int
	typed  string // name as the player types it
	name   string // name in normal form
	node   int    // index
	conn   *conn
	heard  *check.Conn // the connection's record in the history
	closes sync.WaitGroup
	pace   time.Duration // time between two calls, once a node has asked for it

	watches bool // it only watches
	direct  bool // it connects without a proxy

	mu    sync.Mutex
	rooms map[string]*place // guarded by mu: where it is a member, according to the nodes
}

// place is a player's knowledge of a room.
type place struct {
	epoch   string
	version uint64
	later   []*check.Frame // frames that the fields below do not include yet

	users    map[string]bool
	host     string
	settings check.Settings
}

func newPlayer(g *Game, number int) *player {
	p := &player{game: g, number: number, random: rand.New(rand.NewPCG(g.cfg.Seed, uint64(number)+1)),
		log: g.History.newLog(), rooms: make(map[string]*place)}
	p.rename()
	return p
}

// rename makes the player another user, who is in no room.
func (p *player) rename() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.typed, p.name = name(p.number + p.lives*p.game.cfg.Clients)
	p.lives++
	clear(p.rooms)
}

// play plays until ctx ends. The connection stays open.
func (p *player) play(ctx context.Context) {
	for ctx.Err() == nil {
		if p.conn == nil && !p.connect(ctx) {
			continue
		}
		p.step(ctx)
		wait := p.pace
		if p.game.cfg.Pause > 0 {
			wait += time.Duration(p.random.Int64N(int64(2 * p.game.cfg.Pause)))
		}
		if wait > 0 {
			_ = pause.For(ctx, wait)
		}
	}
}

// connect connects to any node. It returns false if that fails, after a pause.
func (p *player) connect(ctx context.Context) bool {
	if err := p.dial(ctx); err != nil {
		p.game.fail(err)
		_ = pause.For(ctx, redialPause)
		return false
	}
	return true
}

func (p *player) dial(ctx context.Context) error {
	return p.dialTo(ctx, p.random.IntN(len(p.game.cfg.Nodes)))
}

func (p *player) dialTo(ctx context.Context, node int) error {
	p.node = node
	name, url, token := p.name, p.game.cfg.Nodes[node].URL, ""
	if p.direct {
		url = p.game.cfg.Nodes[node].Direct
	}
	ctx, cancel := context.WithTimeout(ctx, dialTimeout)
	defer cancel()
	var err error
	if p.game.cfg.Token != nil {
		if token, err = p.game.cfg.Token(name); err != nil {
			return err
		}
	}
	id, c := p.log.connected(name, p.node+1, p.watches)
	conn, err := dial(ctx, url, p.typed, token, &p.game.decoder, func(m *message) {
		f := m.about(name)
		p.log.heard(id, c, f)
		p.hear(name, m, f)
	})
	p.heard = c
	if err != nil {
		p.closed()
		return fmt.Errorf("%s: %w", url, err)
	}
	p.mu.Lock()
	p.conn = conn
	p.mu.Unlock()
	return nil
}

// disconnect ends the connection. It does not wait for a server that does not answer.
func (p *player) disconnect() {
	if p.conn == nil {
		return
	}
	p.mu.Lock()
	conn := p.conn
	p.conn = nil
	p.mu.Unlock()
	p.closed()
	p.closes.Go(conn.Close)
}

func (p *player) closed() {
	p.log.mu.Lock()
	defer p.log.mu.Unlock()
	p.heard.Open = false
}

// members returns the player's rooms, according to the nodes.
func (p *player) members() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Sorted(maps.Keys(p.rooms))
}

// step makes one call, reconnects, or closes the connection and renames the player.
func (p *player) step(ctx context.Context) {
	if p.conn.over() {
		p.game.fail(fmt.Errorf("%s: %w", p.game.cfg.Nodes[p.node].URL, p.conn.why))
		p.disconnect()
		p.rejoin(ctx)
		return
	}
	// a client that closes the connection leaves its rooms
	if p.game.cfg.Closes > 0 && p.random.IntN(p.game.cfg.Closes) == 0 {
		p.disconnect()
		p.rename()
		return
	}
	p.perform(ctx, p.choose())
}

// rejoin joins the old rooms again, as clients do.
func (p *player) rejoin(ctx context.Context) {
	rooms := p.members()
	for ctx.Err() == nil && !p.connect(ctx) {
	}
	for _, room := range rooms {
		if p.conn == nil {
			return
		}
		p.perform(ctx, &check.Op{Room: room, Action: check.Join})
	}
}

func (p *player) choose() *check.Op {
	rooms := p.members()
	room := p.game.rooms[p.random.IntN(len(p.game.rooms))]
	if len(rooms) > 0 && p.random.IntN(2) == 0 {
		if op := p.talk(rooms[p.random.IntN(len(rooms))]); op != nil {
			return op
		}
	}
	if p.game.does(MixMatch) && len(rooms) < maxRooms && p.random.IntN(6) == 0 {
		return &check.Op{Action: check.Match, Settings: p.game.wanted(p.random.IntN(kindsOfTables))}
	}
	switch {
	case p.random.IntN(8) == 0:
		return &check.Op{Room: room, Action: check.Read}
	case slices.Contains(rooms, room):
		return &check.Op{Room: room, Action: check.Leave}
	case len(rooms) >= maxRooms:
		return &check.Op{Room: rooms[p.random.IntN(len(rooms))], Action: check.Leave}
	}
	op := &check.Op{Room: room, Action: check.Join}
	if p.random.IntN(6) == 0 {
		seat := p.random.IntN(max(8, p.game.cfg.Capacity))
		op.Asked = &seat
	}
	return op
}

// perform makes a call, and records it. After an unknown outcome the player gets another user.
func (p *player) perform(ctx context.Context, op *check.Op) {
	op.Process, op.Node = p.name, p.node+1
	sending, cancel := context.WithTimeout(context.Background(), p.game.cfg.CallTimeout)
	defer cancel()
	p.log.call(op)
	m, err := p.conn.do(sending, p.request(op))
	end := *op
	answer(&end, m)
	if op.Action == check.Match && end.Outcome == check.Done {
		p.game.matchedIn(end.Room, op.Settings)
	}
	p.log.returned(op, end)
	p.mu.Lock()
	switch {
	case op.Outcome == check.Done && op.Action == check.Leave, op.Code == protocol.CodeNotMember,
		op.Action == check.Join && op.Outcome == check.Refused && !slices.Contains(nothingDone, op.Code):
		delete(p.rooms, op.Room)
	}
	p.mu.Unlock()
	if m != nil && m.reply.Error != nil {
		p.refused(ctx, op, m.reply.Error)
	}
	switch {
	case op.Outcome == check.Unknown && op.Action != check.Read:
		p.game.fail(err)
		p.disconnect()
		p.rename()
	case m == nil: // the connection is useless
		p.game.fail(err)
		p.disconnect()
		p.rejoin(ctx)
	}
}

// refused pauses if the node asks for it, and counts refusals that no player caused.
func (p *player) refused(ctx context.Context, op *check.Op, why *protocol.Error) {
	wait, ok := told(why)
	if !ok {
		if !slices.Contains(expected, why.Code) {
			p.game.fail(fmt.Errorf("%s: %w", op.Action, why))
		}
		return
	}
	if op.Action != check.Join && op.Action != check.Match { // otherwise it may be the limit of new rooms
		p.pace = min(p.pace+wait, time.Second)
	}
	_ = pause.For(ctx, wait)
}

// request returns an operation as a request of the protocol.
func (p *player) request(op *check.Op) protocol.Request {
	r := protocol.Request{Action: op.Action, Room: op.Room, Seat: op.Asked, Expect: op.Expect, Epoch: op.InEpoch}
	switch op.Action {
	case check.Match:
		r.Labels, r.Settings = room.Labels(op.Settings.Labels),
			&room.Settings{Capacity: op.Settings.Capacity, Host: room.HostLongest}
	case check.SetTimer:
		in := p.random.Int64N(longestTimer.Milliseconds())
		r.Name, r.In = op.Name, &in
		if op.Value != "" {
			r.Then = &room.Effect{Data: quoted(op.Value)}
		}
	case check.StopTimer:
		r.Action, r.Name = protocol.ActionTimer, op.Name
	case check.Kick:
		r.User = op.Users[0]
	case check.Swap:
		r.Users = op.Users
	case check.Configure:
		s := room.Settings{Capacity: op.Settings.Capacity, Closed: op.Settings.Closed,
			Labels: room.Labels(op.Settings.Labels), Host: room.HostLongest}
		s.Keep = s.Labels == "" // like the administrator
		r.Settings = &s
	case check.Ready:
		r.Value = p.random.IntN(2) == 0
	case check.SetData, check.SetMember, check.SetPrivate:
		r.Data = protocol.JSON(quoted(op.Value))
		switch op.Action {
		case check.SetMember:
			r.Action, r.Scope = protocol.ActionSet, protocol.ScopeMember
		case check.SetPrivate:
			r.Action, r.Scope = protocol.ActionSet, protocol.ScopePrivate
		}
	case check.Say:
		r.Text, r.To = op.Value, op.Users
	}
	return r
}

func quoted(value string) []byte { return []byte(`"` + value + `"`) }
