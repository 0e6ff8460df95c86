package loadtest

import (
	"context"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/google/uuid"
	"github.com/redis/go-redis/v9"

	"roomd/lockmgr/redisconn/pause"
	"roomd/transport/protocol"
)

const (
	outsiderTTL   = 3 * time.Second
	outsiderPause = 150 * time.Millisecond
)

// outsider acquires the lock of a room like the published client, with SET NX PX, and checks that it is
// respected: nobody else may write to the room, or remove the lock, before the TTL is over.
type outsider struct {
	game   *Game
	random *rand.Rand
	holds  int // number of judged holds
}

// giveBack deletes a lock if it has the caller's value.
var giveBack = redis.NewScript(`return redis.call('GET', KEYS[1]) == ARGV[1] and redis.call('DEL', KEYS[1])`)

// act acquires locks until ctx ends, if there is a Store.
func (o *outsider) act(ctx context.Context) {
	for ctx.Err() == nil && o.game.cfg.Store != nil {
		o.hold(o.game.rooms[o.random.IntN(len(o.game.rooms))])
		_ = pause.For(ctx, time.Duration(o.random.Int64N(int64(2*outsiderPause))))
	}
}

// hold acquires a lock for a moment, if it is free.
func (o *outsider) hold(room string) {
	ctx, cancel := context.WithTimeout(context.Background(), outsiderTTL/2)
	defer cancel()
	rdb, key, token := o.game.cfg.Store.Client, o.game.cfg.Store.LockKey(room), room+":"+uuid.NewString()
	began := o.game.History.Now()
	start := time.Now()
	if ok, err := rdb.SetNX(ctx, key, token, outsiderTTL).Result(); err != nil || !ok {
		return
	}
	before, err := o.look(ctx, room)
	if err == nil {
		_ = pause.For(ctx, time.Duration(o.random.Int64N(int64(2*o.game.cfg.Holds))))
		var after []string
		if after, err = o.look(ctx, room); err == nil && time.Since(start) < outsiderTTL/2 &&
			(o.game.cfg.Doubts == nil || !o.game.cfg.Doubts(began)) {
			o.holds++
			o.compare(room, token, before, after)
		}
	}
	_ = giveBack.Run(ctx, rdb, []string{key}, token).Err()
}

// look returns the lock's holder, and the room's epoch and version, at one moment.
func (o *outsider) look(ctx context.Context, room string) ([]string, error) {
	s := o.game.cfg.Store
	pipe := s.Client.TxPipeline()
	holder := pipe.Get(ctx, s.LockKey(room))
	at := pipe.HMGet(ctx, s.Key(room, "Meta"), "epoch", "version")
	if _, err := pipe.Exec(ctx); err != nil && err != redis.Nil {
		return nil, err
	}
	return []string{holder.Val(), fmt.Sprint(at.Val()...)}, nil
}

func (o *outsider) compare(room, token string, before, after []string) {
	for _, is := range [][]string{before, after} {
		if is[0] != token {
			o.game.Problem("lock", "in room %s %q took the lock of another client away, whose TTL of %v lasts", room,
				is[0], outsiderTTL)
			return
		}
	}
	if before[1] != after[1] {
		o.game.Problem("lock", "room %s was written to, from %s to %s, while another client held its lock", room,
			before[1], after[1])
	}
}

const (
	roomsOfWatcher = 50 // a connection may have 64
	watchPause     = 20 * time.Millisecond
)

// watch makes watchers at each node watch all rooms, until Disconnect. It returns when they watch all rooms so far.
func (g *Game) watch(ctx context.Context) error {
	ctx, g.unwatch = context.WithCancel(ctx)
	for n := range g.cfg.Nodes {
		var own []*player
		watched := make(map[string]bool)
		if err := g.watchNew(ctx, n, &own, watched); err != nil {
			return err
		}
		g.watching.Go(func() {
			for pause.For(ctx, watchPause) == nil {
				for _, p := range own {
					if p.conn.over() {
						p.closed()
						p.mu.Lock()
						for room := range p.rooms {
							delete(watched, room)
						}
						clear(p.rooms)
						p.mu.Unlock()
						for ctx.Err() == nil && p.dialTo(ctx, n) != nil && pause.For(ctx, redialPause) == nil {
						}
					}
				}
				if err := g.watchNew(ctx, n, &own, watched); err != nil {
					g.fail(err)
				}
			}
		})
	}
	return nil
}

// watchNew makes the watchers of a node watch new rooms.
func (g *Game) watchNew(ctx context.Context, node int, own *[]*player, watched map[string]bool) error {
	for i, room := range g.AllRooms() {
		if watched[room] {
			continue
		}
		k := i / roomsOfWatcher
		for len(*own) <= k {
			p := newPlayer(g, 0)
			p.watches = true
			p.typed = fmt.Sprintf("watcher %d of node %d", len(*own)+1, node+1)
			p.name = p.typed
			if err := p.dialTo(ctx, node); err != nil {
				return err
			}
			*own = append(*own, p)
			g.mu.Lock()
			g.watchers = append(g.watchers, p)
			g.mu.Unlock()
		}
		m, err := (*own)[k].ask(ctx, protocol.Request{Action: protocol.ActionWatch, Room: room})
		switch {
		case err == nil:
			watched[room] = true
		case m != nil:
			g.fail(fmt.Errorf("watch: %w", err))
		default:
			return fmt.Errorf("watch %s: %w", room, err)
		}
	}
	return nil
}

// ask sends a request, and repeats it while the node says that it comes too early. A refusal comes with its reply.
func (p *player) ask(ctx context.Context, r protocol.Request) (*message, error) {
	for {
		sending, cancel := context.WithTimeout(ctx, p.game.cfg.CallTimeout)
		m, err := p.conn.do(sending, r)
		cancel()
		if err != nil || m.reply.Error == nil {
			return m, err
		}
		wait, limited := told(m.reply.Error)
		if !limited {
			return m, m.reply.Error
		}
		if err := pause.For(ctx, wait); err != nil {
			return nil, err
		}
	}
}
