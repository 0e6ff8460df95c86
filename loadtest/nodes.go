package loadtest

import (
	"context"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"

	"roomd/lockmgr/redisconn/redisurl"
	"roomd/room"
	"roomd/room/coordinator"
	"roomd/transport"
	"roomd/transport/node"
)

const stopTimeout = 15 * time.Second

// fleet has the nodes of the players, and one for the administrator.
type fleet struct {
	nodes []Node
	api   []API
	own   []*node.Node
}

func (c Config) rules() room.Rules { return room.Rules{Seating: room.Capacity(c.Capacity)} }

// startFleet starts the nodes of cfg, unless cfg names running ones. If the administrator has something to do
// and can reach Redis, it gets a node of its own, without players.
func startFleet(ctx context.Context, cfg Config, db *redisurl.DB) (_ *fleet, err error) {
	f := new(fleet)
	defer func() {
		if err != nil {
			f.stop()
		}
	}()
	journal := coordinator.MaxJournal
	for _, url := range cfg.Targets {
		f.nodes = append(f.nodes, Node{url, url})
	}
	start := func(admin string) (*node.Node, error) {
		n, err := node.Start(ctx, node.Config{
			Listen: "127.0.0.1:0", AdminListen: admin,
			Redis: db,
			Room:  coordinator.Options{KeyPrefix: cfg.KeyPrefix, Rules: cfg.rules(), Journal: journal},
			// Without Grace, so that no late leave changes the final lists. Without limits, so that players
			// need no pauses.
			Serve: transport.Options{Grace: -1, Rate: -1, MaxPerAddress: -1, MaxNewRooms: -1},
		})
		if err != nil {
			return nil, fmt.Errorf("start a node: %w", err)
		}
		f.own = append(f.own, n)
		return n, nil
	}
	for range cfg.Nodes {
		if len(cfg.Targets) > 0 {
			break
		}
		n, err := start("")
		if err != nil {
			return nil, err
		}
		f.nodes = append(f.nodes, Node{n.URL(), n.URL()})
	}
	if len(mixOf(cfg.Mix, true)) == 0 || !cfg.readsStore() {
		return f, nil
	}
	if len(cfg.Targets) > 0 {
		if journal, err = longestJournal(ctx, cfg, db); err != nil {
			return nil, err
		}
	}
	n, err := start("127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	f.api = []API{{URL: "http://" + n.AdminAddr()}}
	return f, nil
}

// longestJournal returns the longest journal that the nodes of a Redis keep. The administrator's node must not
// keep a shorter one, or its commits would be missing.
func longestJournal(ctx context.Context, cfg Config, db *redisurl.DB) (longest int, err error) {
	rdb := db.NewClient()
	defer rdb.Close()
	rooms, err := coordinator.New(rdb, coordinator.Options{KeyPrefix: cfg.KeyPrefix, Rules: cfg.rules()})
	if err != nil {
		return 0, err
	}
	defer rooms.Close(context.WithoutCancel(ctx))
	others, err := rooms.Nodes(ctx)
	for _, n := range others {
		longest = max(longest, n.Settings.Journal)
	}
	return longest, err
}

// store returns a Store for the nodes' Redis, or nil if cfg does not name it.
func (c Config) store(db *redisurl.DB) *Store {
	if !c.readsStore() {
		return nil
	}
	s := &Store{Client: db.NewClient(), KeyPrefix: c.KeyPrefix}
	_, s.Cluster = s.Client.(*redis.ClusterClient)
	return s
}

func (f *fleet) stop() {
	ctx, cancel := context.WithTimeout(context.Background(), stopTimeout)
	defer cancel()
	for _, n := range f.own {
		_ = n.Shutdown(ctx)
	}
}
