package loadtest

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"roomd/loadtest/history"
	"roomd/loadtest/internal/tally"
	"roomd/lockmgr/redisconn/pause"
	"roomd/transport/protocol"
)

const (
	// maxRooms is how many rooms a player is in at once, at most.
	maxRooms = 2

	// requestTimeout is far longer than a node needs to answer busy.
	requestTimeout = 30 * time.Second

	redialPause = 50 * time.Millisecond

	// closeWait is how long a node may take to close a connection.
	closeWait = 5 * time.Second

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
	tally   *tally.Tally // its latency is of acknowledged actions
	random  *rand.Rand
	members []string // rooms that it believes to be in
	conn    *conn
	decoder *decoder // of all players
	number  int
	game    *game
	mix     []string     // of talks
	said    int          // what was said and set, so that no two are the same
	events  atomic.Int64 // frames about other players' actions

	mu      sync.Mutex
	views   map[string]*history.View // guarded by mu; by room
	news    []news                   // guarded by mu; what is to do with members
	running *request                 // guarded by mu; sent and not answered
}

// news is that the server took the player out of a room, or into one.
type news struct {
	room string
	in   bool
}

func newPlayer(i int, url, where string, g *game) *player {
	typed, normal := name(i)
	return &player{
		name: normal, typed: typed, where: where, url: url, rooms: g.rooms, decoder: &g.decoder, ledger: g.ledger, tally: g.newTally(),
		number: i, game: g, mix: slices.DeleteFunc(g.cfg.of(false), func(name string) bool { return name == MixMatch }),
		random: rand.New(rand.NewPCG(uint64(i), uint64(len(g.rooms)))),
		views:  make(map[string]*history.View),
	}
}

// connect makes the player's connection.
func (p *player) connect(ctx context.Context) error {
	c, err := dial(ctx, p.url, p.typed, p.decoder, p.heard)
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
	case <-p.conn.done:
		return true
	default:
		return false
	}
}

// hear brings members up to date with what the server did to the player.
func (p *player) hear() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, n := range p.news {
		p.members = slices.DeleteFunc(p.members, func(id string) bool { return id == n.room })
		if n.in {
			p.members = append(p.members, n.room)
		}
	}
	p.news = nil
}

// step sends one request.
func (p *player) step() {
	p.hear()
	r := p.choose()
	p.mu.Lock()
	p.running = r
	p.mu.Unlock()

	ctx, cancel := context.WithTimeout(context.Background(), requestTimeout)
	defer cancel()
	start := time.Now()
	err := p.conn.do(ctx, p.frame(r))
	if err == nil && r.action != protocol.ActionUsers {
		p.tally.Record(time.Since(start))
	}
	p.done(r, err)
}

// choose returns the next request.
func (p *player) choose() *request {
	id := p.rooms[p.random.IntN(len(p.rooms))]
	switch {
	case len(p.mix) > 0 && len(p.members) > 0 && p.random.IntN(3) == 0:
		return p.talk(p.mix[p.random.IntN(len(p.mix))], p.members[p.random.IntN(len(p.members))])
	case slices.Contains(p.members, id) && p.random.IntN(10) == 0:
		return &request{action: protocol.ActionUsers, room: id}
	case slices.Contains(p.members, id):
		return &request{action: protocol.ActionLeave, room: id}
	case len(p.members) >= maxRooms:
		return &request{action: protocol.ActionLeave, room: p.members[p.random.IntN(len(p.members))]}
	case slices.Contains(p.game.cfg.Mix, MixMatch) && p.random.IntN(6) == 0:
		return &request{action: MixMatch, begins: table(p.random.IntN(kindsOfTables))}
	}
	return &request{action: protocol.ActionJoin, room: id}
}

// done counts the outcome of a request and updates the rooms of the player.
func (p *player) done(r *request, err error) {
	var refused *protocol.Error
	switch {
	case err == nil:
		p.tally.Count(r.action, tally.Done)
		if r.joins() || r.action == protocol.ActionLeave {
			p.members = slices.DeleteFunc(p.members, func(id string) bool { return id == r.room })
		}
		if r.joins() {
			p.members = append(p.members, r.room)
		}
	case errors.Is(err, protocol.ErrConflict):
		p.tally.Count(r.action, tally.Conflict)
	case errors.As(err, &refused) && (r.begins == nil || refused.Is(protocol.ErrBanned)) && slices.ContainsFunc(refusals, refused.Is):
		p.tally.Count(r.action, tally.Refused)
		if r.action == protocol.ActionLeave {
			// Who is removed, and not brought back yet, is a member no more.
			p.members = slices.DeleteFunc(p.members, func(id string) bool { return id == r.room })
		}
	case errors.As(err, &refused) && refused.Is(protocol.ErrRateLimited):
		p.tally.Count(r.action, tally.Refused)
		time.Sleep(limitedPause)
	case errors.As(err, &refused) && refused.Is(protocol.ErrUnknown):
		p.tally.Count(r.action, tally.Unknown)
		if r.action == protocol.ActionLeave { // and hears no more of the room
			p.members = slices.DeleteFunc(p.members, func(id string) bool { return id == r.room })
		}
	case errors.As(err, &refused):
		p.tally.Fail(fmt.Errorf("%s %s: %w", r.action, r.room, err))
	default: // no reply: the connection broke, or the server was too slow
		p.tally.Count(r.action, tally.Unknown)
		p.tally.Fail(fmt.Errorf("%s %s: %w", r.action, r.room, err))
		p.conn.Close()
	}
}

// refusals are no errors: what other players and administrators do leads to them.
var refusals = []error{
	protocol.ErrRoomFull, protocol.ErrSeatTaken, protocol.ErrBadRequest, protocol.ErrClosed, protocol.ErrBanned, protocol.ErrNotMember, protocol.ErrForbidden,
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
		p.tally.Fail(err)
		_ = pause.For(ctx, redialPause)
	}
	return false
}

// disconnect ends a broken connection and its views.
func (p *player) disconnect() {
	p.conn.Close() // and its reader: no reply or event comes after this
	p.members = nil
	p.mu.Lock()
	defer p.mu.Unlock()
	if r := p.running; r != nil && r.begins != nil {
		p.game.lostMatch(p.name)
	} else if r != nil {
		r.unknown(p.viewLocked(r.room))
	}
	p.running, p.news = nil, nil
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
