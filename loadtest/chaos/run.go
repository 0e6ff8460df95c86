// Package chaos disturbs nodes and their Redis while players play, and proves that nothing was lost except
// where that is allowed.
//
// [Run] starts Redis servers and nodes as processes, and connects clients, nodes and Redis by networks of its
// own. Players and an administrator do all that rooms allow. A schedule from a seed ([Schedule]) injects faults
// ([Faults]), one or two at a time, for seconds. After each, everything heals, and each room and each node has
// to acknowledge actions again within a bound. Two checkers judge the history of what clients were told
// (package check), and the journals are audited (package audit).
//
// Nodes run this program again: its main function calls [Main] first.
//
// Run has many goroutines and processes. All of them end with it; on Linux, processes end with this one in any case.
package chaos

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"roomd/loadtest"
	"roomd/loadtest/check"
	"roomd/loadtest/report"
)

// startTimeout bounds the start of a server or a node.
const startTimeout = 60 * time.Second

// run is a run: a game, its processes and networks, and the readers of the feed.
type run struct {
	*loadtest.Game // nil before the nodes run

	cfg    Config
	store  *store
	data   *loadtest.Store
	nodes  []*node
	feed   *feed
	files  []io.Closer   // log files
	played time.Duration // how long players played

	program string // this one, which runs nodes, too

	mu    sync.Mutex
	phase string // guarded by mu
	used  []use  // guarded by mu
}

// Run disturbs a service of its own for cfg.Duration, or until ctx ends, and judges the history of its clients.
// An error says that the run was impossible.
func Run(ctx context.Context, cfg Config) (*Report, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	r := &run{cfg: cfg.withDefaults()}
	defer r.close()
	if err := r.start(ctx); err != nil {
		return nil, err
	}
	if err := r.disturb(ctx); err != nil {
		return nil, err
	}
	return r.judge(context.WithoutCancel(ctx))
}

// start starts Redis, the nodes and their networks.
func (r *run) start(ctx context.Context) error {
	if !hosted {
		return errors.New("chaos: this program starts itself as a node, and does not call chaos.Main")
	}
	var err error
	if r.program, err = os.Executable(); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	if r.store, err = openStore(ctx, r.cfg, r.log); err != nil {
		return err
	}
	r.data = &loadtest.Store{Client: r.store.rdb, KeyPrefix: r.cfg.KeyPrefix, Cluster: r.cfg.Profile == Cluster}
	if r.feed, err = newFeed(r); err != nil {
		return err
	}
	for i := range r.cfg.Nodes {
		if err := r.startNode(ctx, i+1); err != nil {
			return err
		}
	}
	r.Game = loadtest.NewGame(r.play())
	return nil
}

const (
	playersPause = 60 * time.Millisecond
	adminPause   = 80 * time.Millisecond
	closes       = 200
	holds        = 60 * time.Millisecond

	// callTimeout is longer than any answer of a node takes.
	callTimeout = lockWait + lockTTL + 3*time.Second
)

// doubts reports whether Redis may have lost data that it had at since.
func (r *run) doubts(since time.Duration) bool {
	return slices.ContainsFunc(r.History.Faults(), func(f check.Fault) bool {
		return (f.Loses || f.Splits || family(f.Name) == "redis") && (f.Well == 0 || f.Well > since)
	})
}

// play configures the game. It is slow, so that much happens between the actions.
func (r *run) play() loadtest.Play {
	p := loadtest.Play{
		Store: r.data, Name: "chaos", Clients: r.cfg.Clients, Rooms: r.cfg.Rooms, Capacity: r.cfg.Capacity,
		Mix: r.cfg.Mix, Seed: r.cfg.Seed,
		Pause: playersPause, AdminPause: adminPause, CallTimeout: callTimeout, Closes: closes, Holds: holds,
		Doubts: r.doubts, Mixed: r.cfg.OtherProgram != "", History: r.cfg.History,
	}
	for _, n := range r.nodes {
		p.Nodes = append(p.Nodes, loadtest.Node{URL: "ws://" + n.links.clients.Addr() + "/ws",
			Direct: "ws://" + n.server.Addr() + "/ws"})
		p.API = append(p.API, "http://"+n.admin)
	}
	return p
}

// log returns the log of a process, or nil.
func (r *run) log(name string) io.Writer {
	if r.cfg.Logs == "" {
		return nil
	}
	f, err := os.Create(filepath.Join(r.cfg.Logs, name+".log"))
	if err != nil {
		return nil
	}
	r.files = append(r.files, f)
	return f
}

func (r *run) close() {
	if r.Game != nil {
		r.Disconnect()
	}
	if r.feed != nil {
		r.feed.close()
	}
	for _, n := range r.nodes {
		n.close()
	}
	if r.store != nil {
		r.store.close()
	}
	for _, f := range r.files {
		_ = f.Close()
	}
}

// enter sets and reports the phase of the run.
func (r *run) enter(format string, args ...any) {
	r.mu.Lock()
	r.phase = fmt.Sprintf(format, args...)
	r.mu.Unlock()
	r.tell(true)
}

func (r *run) tell(changed bool) {
	if r.cfg.Progress == nil {
		return
	}
	done, _, unknown := r.History.Counts()
	r.mu.Lock()
	defer r.mu.Unlock() // one call at a time
	at := r.History.Now()
	line := fmt.Sprintf("%5.1f s  %6d actions  %3d unknown  %s", at.Seconds(), done, unknown, r.phase)
	if problems := len(r.Problems()); problems > 0 {
		line += fmt.Sprintf("  (%d PROBLEMS)", problems)
	}
	r.cfg.Progress(at, changed, line)
}

// Modes of persistence of Redis.
const (
	PersistNone     = "none"     // nothing
	PersistEverysec = "everysec" // an AOF, synced each second
	PersistAlways   = "always"   // an AOF, synced before each reply
)

// Persists has all modes.
var Persists = []string{PersistNone, PersistEverysec, PersistAlways}

// Config says what to run. Each field with a help text is a flag of roomload; the text gives its meaning and default.
type Config struct {
	Profile string `default:"standalone" help:"The Redis: standalone, sentinel or cluster (${default})."`
	Persist string `default:"always" help:"What it writes to its disk: none, everysec or always (${default})."`
	// -1: as many as possible
	Replicas  int           `default:"-1" help:"How many replicas must have an action before it is acknowledged: 0 or 1 (1 with sentinel and cluster)."`
	KeyPrefix string        `placeholder:"PREFIX:" help:"The nodes' --key-prefix (none by default)."`
	Nodes     int           `default:"3" help:"How many nodes to start (${default})."`
	Clients   int           `default:"30" help:"Players, with one connection each (${default})."`
	Rooms     int           `default:"6" help:"Rooms, which all players share (${default})."`
	Capacity  int           `default:"8" help:"Seats of a room; the administrator changes them (${default})."`
	Duration  time.Duration `default:"60s" help:"How long faults are injected (${default})."`
	Seed      uint64        `placeholder:"N" help:"Seed of the faults and the players. Without it roomload draws one, and prints it."`
	Faults    []string      `placeholder:"NAME,…" help:"Faults to inject; see above. Without it, all that may lose nothing with this profile."`
	// empty: nothing
	Mix []string `default:"all" placeholder:"NAME,…" help:"What happens besides joins and leaves, as of run: names, all or none (${default})."`
	// 0: 30 s
	Recover time.Duration `default:"30s" help:"How long it may take after a fault until each room and each node works (${default})."`
	Logs    string        `placeholder:"DIR" help:"Write there what nodes and servers log."`

	// OtherProgram, if not empty, is a roomd or a roomload of another version. Nodes with even numbers start as
	// that version, and the fault node-update switches versions. The report calls it OtherVersion.
	OtherProgram string `kong:"-"`
	OtherVersion string `name:"update-from" placeholder:"REVISION" help:"Every second node begins as another version, and node-update has nodes become the other one: a revision such as main~3, or a roomd or roomload program."`

	// History, if not nil, gets each call and return, event and fault as a line of JSON.
	History io.Writer `kong:"-"`

	// Progress, if not nil, is called about four times a second with the time since the start and a line. When a fault
	// starts or ends, the line has to stay.
	Progress func(at time.Duration, stays bool, line string) `kong:"-"`
}

const defaultRecover = 30 * time.Second

// withDefaults replaces -1 replicas, and a Recover of zero, by the defaults.
func (c Config) withDefaults() Config {
	if c.Replicas == -1 {
		c.Replicas = map[string]int{Sentinel: 1, Cluster: 1}[c.Profile]
	}
	c.Recover = cmp.Or(c.Recover, defaultRecover)
	return c
}

// Validate returns an error if a value cannot be used. The error names the flag and its value.
func (c Config) Validate() error {
	c = c.withDefaults()
	if err := cmp.Or(report.CheckNames("profile", []string{c.Profile}, Profiles),
		report.CheckNames("persist", []string{c.Persist}, Persists), loadtest.CheckMix(c.Mix),
		loadtest.CheckKeyPrefix(c.KeyPrefix)); err != nil {
		return err
	}
	for _, f := range []struct {
		name            string
		value, min, max int
	}{
		{"nodes", c.Nodes, 1, 20}, {"clients", c.Clients, 1, 500}, {"rooms", c.Rooms, 1, 100},
		{"capacity", c.Capacity, 2, 100}, {"replicas", c.Replicas, 0, 1},
	} {
		if f.value < f.min || f.value > f.max {
			return fmt.Errorf("--%s is %d, it must be from %d to %d", f.name, f.value, f.min, f.max)
		}
	}
	switch {
	case c.Replicas > 0 && c.Profile == Standalone:
		return fmt.Errorf("--replicas is %d, it must be 0 with %s, which has none", c.Replicas, Standalone)
	case c.Duration <= 0:
		return fmt.Errorf("--duration is %v, it must be more than zero", c.Duration)
	case c.Recover < 0:
		return fmt.Errorf("--recover is %v, it must not be negative", c.Recover)
	}
	for _, name := range c.Faults {
		switch f := FaultNamed(name); {
		case f == nil:
			return fmt.Errorf("--faults is %q, which there is not; --help names them", name)
		case !f.in(c):
			return fmt.Errorf("--faults is %q, which cannot be injected with %s", name, c.Profile)
		}
	}
	return nil
}

// faults returns the names of the faults to inject.
func (c Config) faults() []string {
	if len(c.Faults) > 0 {
		return c.Faults
	}
	var names []string
	for _, f := range Faults {
		// Faults that lose acknowledged actions must be named.
		if f.in(c) && f.mayLose(c) == nothing {
			names = append(names, f.Name)
		}
	}
	return names
}
