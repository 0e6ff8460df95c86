package chaos

import (
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

	programs map[version]string // programs of the nodes

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
	program, err := os.Executable()
	if err != nil {
		return err
	}
	r.programs = map[version]string{own: program, other: r.cfg.OtherProgram}
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
		p.API = append(p.API, loadtest.API{URL: "http://" + n.admin})
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
	r.cfg.Progress(Progress{Elapsed: r.History.Now(), Phase: r.phase, Changed: changed, Actions: done,
		Unknown: unknown, Problems: len(r.Problems())})
}
