package chaos

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"roomd/loadtest"
	"roomd/loadtest/check"
	"roomd/lockmgr/redisconn/pause"
	"roomd/room"
	"roomd/transport/client"
	"roomd/transport/protocol"
)

const (
	// callTimeout is longer than a node needs for any answer.
	callTimeout = lockWait + lockTTL + 3*time.Second

	dialTimeout  = 2 * time.Second
	redialPause  = 100 * time.Millisecond
	maxRooms     = 2 // of a player at once
	playersPause = 60 * time.Millisecond
	longestTimer = 1500 * time.Millisecond
)

// player is one client after the other. A user of whom a call has an unknown end does not come back: another one does,
// so that no user has two calls that may both be under way.
type player struct {
	run    *run
	number int
	random *rand.Rand
	lives  int
	name   string
	node   int // index
	conn   *client.Conn
	id     int // of the connection, in the history
	closes sync.WaitGroup

	mu    sync.Mutex
	rooms map[string]*place // guarded by mu: where it is a member, as far as it was told
}

// place is what a player knows of a room.
type place struct {
	epoch   string
	version uint64
	users   map[string]bool

	host     string
	settings check.Settings
}

func newPlayer(r *run, number int) *player {
	p := &player{run: r, number: number, random: rand.New(rand.NewPCG(r.cfg.Seed, uint64(number)+1)), rooms: make(map[string]*place)}
	p.rename()
	return p
}

// rename makes the player another user.
func (p *player) rename() {
	p.lives++
	p.mu.Lock()
	defer p.mu.Unlock()
	p.name = fmt.Sprintf("张三 %d.%d", p.number, p.lives)
	clear(p.rooms)
}

// play plays until ctx ends, and leaves the connection open.
func (p *player) play(ctx context.Context) {
	for ctx.Err() == nil {
		if p.conn == nil && !p.connect(ctx) {
			continue
		}
		p.step(ctx)
		_ = pause.For(ctx, time.Duration(p.random.Int64N(int64(2*playersPause))))
	}
}

// connect connects to any node. It returns false if that fails, after a pause.
func (p *player) connect(ctx context.Context) bool {
	p.node = p.random.IntN(len(p.run.links))
	dial, cancel := context.WithTimeout(ctx, dialTimeout)
	defer cancel()
	id := p.run.history.connected(p.name, p.node+1)
	name := p.name
	conn, err := client.Dial(dial, "ws://"+p.run.links[p.node].clients.Addr()+"/ws", client.Options{
		User:             name,
		OnReply:          func(r *protocol.Reply) { p.heardReply(id, name, r) },
		OnEvent:          func(e *protocol.Event) { p.heardEvent(id, name, e) },
		HandshakeTimeout: dialTimeout,
	})
	if err != nil {
		p.run.history.cut(id)
		_ = pause.For(ctx, redialPause)
		return false
	}
	p.conn, p.id = conn, id
	return true
}

// disconnect ends the connection. It does not wait for a server that does not answer.
func (p *player) disconnect() {
	if p.conn == nil {
		return
	}
	conn := p.conn
	p.conn = nil
	p.run.history.cut(p.id)
	p.closes.Go(conn.Close)
}

// members returns the rooms that the player is in, as far as it was told.
func (p *player) members() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Sorted(maps.Keys(p.rooms))
}

// step makes one call, or looks after the connection.
func (p *player) step(ctx context.Context) {
	select {
	case <-p.conn.Done():
		p.disconnect()
		p.rejoin(ctx)
		return
	default:
	}
	if p.random.IntN(200) == 0 { // a client that closes leaves its rooms
		p.disconnect()
		p.rename()
		return
	}
	p.perform(p.choose())
}

// rejoin comes back to the rooms of before, as clients do.
func (p *player) rejoin(ctx context.Context) {
	rooms := p.members()
	for ctx.Err() == nil && !p.connect(ctx) {
	}
	for _, room := range rooms {
		if p.conn == nil {
			return
		}
		p.perform(&check.Op{Room: room, Action: check.Join})
	}
}

// choose returns the next call.
func (p *player) choose() *check.Op {
	rooms := p.members()
	room := p.run.rooms[p.random.IntN(len(p.run.rooms))]
	if len(rooms) > 0 && p.random.IntN(2) == 0 {
		if op := p.talk(rooms[p.random.IntN(len(rooms))]); op != nil {
			return op
		}
	}
	if p.run.does(loadtest.MixMatch) && len(rooms) < maxRooms && p.random.IntN(6) == 0 {
		return &check.Op{Action: check.Match, Settings: p.run.wanted(p.random.IntN(kindsOfTables))}
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
		seat := p.random.IntN(p.run.cfg.Capacity)
		op.Asked = &seat
	}
	return op
}

// perform makes a call, and records it. Whoever does not know how it ended is somebody else afterwards.
func (p *player) perform(op *check.Op) {
	op.Process, op.Node = p.name, p.node+1
	ctx, cancel := context.WithTimeout(context.Background(), callTimeout)
	defer cancel()
	p.run.history.call(op)
	reply, err := p.send(ctx, op)
	answer(op, reply, err)
	if op.Action == check.Match && op.Outcome == check.Done {
		p.run.matchedIn(op.Room, op.Settings)
	}
	p.run.history.returned(op, true)
	p.mu.Lock()
	switch {
	case op.Outcome == check.Done && op.Action == check.Leave, op.Code == protocol.CodeNotMember,
		op.Action == check.Join && op.Outcome == check.Refused && op.Code != protocol.CodeUnavailable && op.Code != protocol.CodeBusy:
		delete(p.rooms, op.Room)
	}
	p.mu.Unlock()
	var refused *protocol.Error
	switch {
	case op.Outcome == check.Unknown && op.Action != check.Read:
		p.disconnect()
		p.rename()
	case err != nil && !errors.As(err, &refused): // the connection is of no use
		p.disconnect()
		p.rejoin(p.run.playing)
	}
}

func labelsOf(s *check.Settings) room.Labels { return room.Labels(s.Labels) }

func (p *player) send(ctx context.Context, op *check.Op) (*protocol.Reply, error) {
	var only []client.Condition
	if op.Expect != nil {
		only = append(only, client.Expect(op.InEpoch, *op.Expect))
	}
	switch op.Action {
	case check.Join:
		if op.Asked != nil {
			return p.conn.JoinSeat(ctx, op.Room, *op.Asked)
		}
		return p.conn.Join(ctx, op.Room)
	case check.Match:
		return p.conn.Match(ctx, labelsOf(op.Settings).Map(), room.Settings{Capacity: op.Settings.Capacity, Host: room.HostLongest})
	case check.SetTimer:
		then := client.Then{}
		if op.Value != "" {
			then.Data = op.Value
		}
		return p.conn.SetTimer(ctx, op.Room, op.Name, time.Duration(p.random.Int64N(int64(longestTimer))), then)
	case check.StopTimer:
		return p.conn.StopTimer(ctx, op.Room, op.Name)
	case check.Kick:
		return p.conn.Kick(ctx, op.Room, op.Users[0], "", 0)
	case check.Swap:
		return p.conn.Swap(ctx, op.Room, op.Users[0], op.Users[1])
	case check.Shuffle:
		return p.conn.Shuffle(ctx, op.Room)
	case check.Close:
		return p.conn.CloseRoom(ctx, op.Room)
	case check.Configure:
		s := room.Settings{Capacity: op.Settings.Capacity, Closed: op.Settings.Closed, Labels: labelsOf(op.Settings), Host: room.HostLongest}
		s.Keep = s.Labels == "" // as the administrator has it
		return p.conn.Configure(ctx, op.Room, s)
	case check.Leave:
		return p.conn.Leave(ctx, op.Room)
	case check.Ready:
		return p.conn.Ready(ctx, op.Room, p.random.IntN(2) == 0)
	case check.SetData:
		return p.conn.Set(ctx, op.Room, op.Value, only...)
	case check.SetMember:
		return p.conn.SetMember(ctx, op.Room, op.Value)
	case check.SetPrivate:
		return p.conn.SetPrivate(ctx, op.Room, op.Value)
	case check.Say:
		if len(op.Users) > 0 {
			return p.conn.SayTo(ctx, op.Room, op.Users, client.Message{Text: op.Value})
		}
		return p.conn.Say(ctx, op.Room, client.Message{Text: op.Value})
	}
	return p.conn.Users(ctx, op.Room)
}
