// Package loadtest sends players to roomd nodes and proves that the rooms' lists are right.
//
// Start with [Run]. It makes players and an administrator do all that rooms allow, over real WebSockets, at its
// own nodes or at running ones. Two checkers judge the history of what they were told (package check): one by
// the rooms' journals, and one without them.
//
// Package chaos also plays a [Game], while it disturbs the nodes and their Redis.
package loadtest

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/url"
	"runtime"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"roomd/loadtest/internal/process"
	"roomd/loadtest/report"
	"roomd/lockmgr/redisconn/pause"
	"roomd/lockmgr/redisconn/redisurl"
	"roomd/room"
	"roomd/room/coordinator"
	"roomd/transport"
	"roomd/transport/auth"
	"roomd/transport/node"
)

const (
	progressInterval = 250 * time.Millisecond

	callTimeout = 30 * time.Second // far longer than a node takes to answer "busy"
	adminPause  = 10 * time.Millisecond
	closes      = 2000
	holds       = 3 * time.Millisecond
)

// ErrNothingDone says that no action succeeded.
var ErrNothingDone = errors.New("no action succeeded, so the run proves nothing")

// Run makes players play for cfg.Duration, or until ctx ends, and returns the result. The report's verdict says
// whether the lists were right. An error says that the run was impossible; see Config.Validate and ErrNothingDone.
func Run(ctx context.Context, cfg Config) (*Report, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	cfg.Mix = ExpandMix(cfg.Mix)
	db, err := redisurl.Open(cfg.Redis)
	if err != nil && cfg.readsStore() {
		return nil, err
	}
	if db != nil {
		defer db.Close()
	}
	f, err := startFleet(ctx, cfg, db)
	if err != nil {
		return nil, err
	}
	defer f.stop()
	play := Play{
		Nodes: f.nodes, API: f.api, Store: cfg.store(db), Name: "load", Clients: cfg.Clients, Rooms: cfg.Rooms,
		Capacity: cfg.Capacity,
		Mix:      cfg.Mix, Seed: rand.Uint64(), AdminPause: adminPause, CallTimeout: callTimeout, Closes: closes,
		Holds: holds, Watch: len(cfg.Targets) > 0,
	}
	if play.Store != nil {
		defer play.Store.Client.Close()
	}
	if cfg.SecretFile != "" {
		signer, err := auth.SecretFileSigner(cfg.SecretFile)
		if err != nil {
			return nil, fmt.Errorf("auth-secret-file: %w", err)
		}
		play.Token = func(user string) (string, error) {
			return signer.Sign(auth.Identity{User: user, Expires: time.Now().Add(cfg.Duration + time.Hour)})
		}
	}
	g := NewGame(play)
	defer g.Disconnect()
	return g.run(ctx, cfg)
}

func (g *Game) run(ctx context.Context, cfg Config) (*Report, error) {
	if g.cfg.Watch {
		if err := g.watch(context.WithoutCancel(ctx)); err != nil {
			return nil, fmt.Errorf("connect: %w", err)
		}
	}
	if err := g.connect(ctx); err != nil {
		return nil, err
	}
	if len(g.admin.does) > 0 {
		if err := g.Prepare(); err != nil {
			return nil, err
		}
	}
	played, used := g.time(ctx, cfg)
	if done, _, _ := g.History.Counts(); done == 0 {
		return nil, errors.Join(ErrNothingDone, g.errors.FirstError())
	}
	ctx = context.WithoutCancel(ctx) // a run that was stopped is also judged
	if err := g.Settle(ctx, cmp.Or(cfg.catchUp, defaultCatchUp)); err != nil {
		return nil, fmt.Errorf("read the lists at the end: %w", err)
	}
	g.Disconnect()
	h, err := g.End(ctx)
	if err != nil {
		return nil, err
	}
	r := g.Judge(h, played)
	r.ownNodes, r.OwnCPU = len(cfg.Targets) == 0, report.Figure(used)
	r.OwnShare = report.Figure(used / played.Seconds() / float64(runtime.NumCPU()))
	return r, nil
}

// time plays for as long as cfg says. It returns how long that was, and the processor seconds that this process used.
func (g *Game) time(ctx context.Context, cfg Config) (played time.Duration, used float64) {
	ctx, cancel := context.WithTimeout(ctx, cfg.Duration)
	defer cancel()
	start, before := time.Now(), process.CPU()
	var playing sync.WaitGroup
	playing.Go(func() { g.Play(ctx) })
	for ctx.Err() == nil {
		_ = pause.For(ctx, progressInterval)
		if cfg.Progress != nil {
			at := time.Since(start)
			done, _, _ := g.History.Counts()
			cfg.Progress(at, false, fmt.Sprintf("%3.0f s of %.0f s: %d actions, %.0f/s, %d violations", at.Seconds(),
				cfg.Duration.Seconds(), done, float64(done)/max(at.Seconds(), 0.001), len(g.Problems())))
		}
	}
	played, used = time.Since(start), (process.CPU()-before)/1e6
	playing.Wait()
	return played, used
}

// The verdicts.
const (
	Consistent   = "consistent"
	Inconsistent = "inconsistent"
	Undecided    = "undecided" // nothing was wrong, and not all could be decided
)

// Config says what to run. Each field with a help text is a flag of roomload; the text gives its meaning and default.
type Config struct {
	// Targets are the URLs of running nodes. Without any, Run starts Nodes of its own.
	Targets    []string `name:"target" placeholder:"ws://…" help:"A running node, as ws://host:port/ws. Repeat it for several. Players keep to its rate; with --rate off they act as fast as they can. For more than 1000 clients it needs --max-per-address off. Without a target roomload starts nodes for the run."`
	SecretFile string   `name:"auth-secret-file" type:"path" placeholder:"FILE" help:"The secret of the targets, as of their --auth-secret-file: players get tokens that it signs."`
	Nodes      int      `default:"1" help:"How many nodes to start (${default})."`

	// Redis is a URL of package redisurl. With Targets it may be empty or redisurl.Embedded; Run then asks only
	// the nodes.
	Redis     string        `default:"embedded" placeholder:"URL" help:"Where those nodes keep the rooms, and where roomload reads the lists at the end: redis://… or embedded (${default}). With --target, the Redis of those nodes, if roomload can reach it."`
	KeyPrefix string        `placeholder:"PREFIX:" help:"What the names of all keys in Redis begin with, as of the nodes' --key-prefix."`
	Clients   int           `default:"200" help:"Players, with one connection each (${default})."`
	Rooms     int           `default:"10" help:"Rooms, which all players share (${default})."`
	Capacity  int           `default:"0" help:"Seats of a room; 0 sets no limit (${default}). With --target, the capacity that those nodes have, to check it."`
	Duration  time.Duration `default:"10s" help:"How long the players play (${default})."`

	// Mix has some of MixNames, or all or none. Empty means only joins and leaves.
	Mix []string `default:"all" placeholder:"NAME,…" help:"What happens besides joins and leaves, separated by commas: ${mix}; all or none (${default}). What an administrator does, from configure on, needs --redis, also with --target."`

	// Progress, if not nil, is called about four times a second: with the time since the start, and a line, which
	// never has to stay.
	Progress func(at time.Duration, stays bool, line string) `kong:"-"`

	// how long a player may wait at the end for the event of a room's last commit; zero means 10 s
	catchUp time.Duration
}

const defaultCatchUp = 10 * time.Second

// Validate returns an error if a value cannot be used. The error names the flag and its value.
func (c Config) Validate() error {
	for _, target := range c.Targets {
		if u, err := url.Parse(target); err != nil || u.Host == "" || u.Scheme != "ws" && u.Scheme != "wss" {
			return fmt.Errorf("--target is %q, it must be a ws:// or wss:// URL", target)
		}
	}
	for _, f := range []struct {
		name       string
		value, min int
	}{{"clients", c.Clients, 1}, {"rooms", c.Rooms, 1}, {"capacity", c.Capacity, 0}, {"nodes", c.Nodes, 1}} {
		if f.name == "nodes" && len(c.Targets) > 0 {
			continue
		}
		if f.value < f.min {
			return fmt.Errorf("--%s is %d, it must be at least %d", f.name, f.value, f.min)
		}
	}
	if c.Duration <= 0 {
		return fmt.Errorf("--duration is %v, it must be more than zero", c.Duration)
	}
	if err := CheckMix(c.Mix); err != nil {
		return err
	}
	if c.SecretFile != "" && len(c.Targets) == 0 {
		return fmt.Errorf("--auth-secret-file is %q, and there are no targets whose secret it could be", c.SecretFile)
	}
	if err := CheckKeyPrefix(c.KeyPrefix); err != nil {
		return err
	}
	if !c.readsStore() || c.Redis == redisurl.Embedded {
		return nil
	}
	if _, err := redisurl.Open(c.Redis); err != nil {
		return fmt.Errorf("--%w", err)
	}
	return nil
}

// CheckKeyPrefix returns an error, like Validate, if prefix cannot be a KeyPrefix.
func CheckKeyPrefix(prefix string) error {
	if invalid, ok := errors.AsType[*room.InvalidError](coordinator.CheckKeyPrefix(prefix)); ok {
		return errors.New("--key-prefix " + invalid.Problem)
	}
	return nil
}

// readsStore reports whether Run can read the lists from Redis at the end.
func (c Config) readsStore() bool {
	return len(c.Targets) == 0 || c.Redis != "" && c.Redis != redisurl.Embedded
}

const stopTimeout = 15 * time.Second

// fleet has the nodes of the players, and one for the administrator.
type fleet struct {
	nodes []Node
	api   []string
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
	own, journal := cfg.Nodes, coordinator.MaxJournal
	if len(cfg.Targets) > 0 {
		own = 0
	}
	for _, url := range cfg.Targets {
		f.nodes = append(f.nodes, Node{url, url})
	}
	for range own {
		n, err := f.start(ctx, cfg, db, "", journal)
		if err != nil {
			return nil, err
		}
		f.nodes = append(f.nodes, Node{n.URL(), n.URL()})
	}
	if len(mixOf(cfg.Mix, true)) == 0 || !cfg.readsStore() {
		return f, nil
	}
	if own == 0 {
		if journal, err = longestJournal(ctx, cfg, db); err != nil {
			return nil, err
		}
	}
	n, err := f.start(ctx, cfg, db, "127.0.0.1:0", journal)
	if err != nil {
		return nil, err
	}
	f.api = []string{"http://" + n.AdminAddr()}
	return f, nil
}

// start starts a node without Grace, so that no late leave changes the final lists, and without limits, so that
// players need no pauses.
func (f *fleet) start(ctx context.Context, cfg Config, db *redisurl.DB, admin string, journal int) (*node.Node, error) {
	n, err := node.Start(ctx, node.Config{
		Listen: "127.0.0.1:0", AdminListen: admin, Redis: db,
		Room:  coordinator.Options{KeyPrefix: cfg.KeyPrefix, Rules: cfg.rules(), Journal: journal},
		Serve: transport.Options{Grace: -1, Rate: -1, MaxPerAddress: -1, MaxNewRooms: -1},
	})
	if err != nil {
		return nil, fmt.Errorf("start a node: %w", err)
	}
	f.own = append(f.own, n)
	return n, nil
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
