package loadtest

import (
	"context"
	"fmt"
	"time"

	"roomd/lockmgr/redisconn/pause"
	"roomd/transport/protocol"
)

const (
	roomsOfWatcher = 50 // a connection may have 64
	watchPause     = 20 * time.Millisecond
)

// watch makes watchers at each node watch all rooms, until end. It returns when they watch all rooms that
// exist.
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
		case err != nil:
			return fmt.Errorf("watch %s: %w", room, err)
		case m.reply.Error != nil:
			g.fail(fmt.Errorf("watch: %w", m.reply.Error))
		default:
			watched[room] = true
		}
	}
	return nil
}

// ask sends a request, and repeats it while the node says that it comes too early.
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
			return m, nil
		}
		if err := pause.For(ctx, wait); err != nil {
			return nil, err
		}
	}
}
