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

	"github.com/google/uuid"

	"roomd/loadtest"
	"roomd/loadtest/check"
)

// startTimeout bounds the start of a server or a node.
const startTimeout = 60 * time.Second

// ErrNothingDone says that no action succeeded, so that the run proves nothing.
var ErrNothingDone = errors.New("no action succeeded, so the run proves nothing")

// run is one run: its processes, its networks, its players, and its history.
type run struct {
	cfg      Config
	rooms    []string
	talks    []string // of the mix: what members do
	rules    []string // and what the administrator does
	store    *store
	nodes    []*node
	links    []*links
	players  []*player
	admin    *administrator
	outsider *outsider
	feed     *feed
	history  *recorder
	files    []io.Closer // of logs
	playing  context.Context
	played   time.Duration            // for how long players played
	kept     map[string][]check.Entry // by room: journals of rooms that may be gone in the end
	lastDue  int64                    // when the last timer that was seen at the end is due, in ms since 1970

	mu       sync.Mutex
	problems []string                   // guarded by mu: in words
	matched  []string                   // guarded by mu: rooms that matches have found
	wants    map[string]*check.Settings // guarded by mu: by room, with which they began
	phase    string                     // guarded by mu
	samples  []sample                   // guarded by mu
	used     []use                      // guarded by mu
}

// Run disturbs a service of its own for cfg.Duration, or until ctx ends, and judges what its clients were told. An
// error says that the run was not possible.
func Run(ctx context.Context, cfg Config) (*Report, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	cfg.Recover = cmp.Or(cfg.Recover, defaultRecover)
	r := &run{cfg: cfg, wants: make(map[string]*check.Settings), kept: make(map[string][]check.Entry)}
	for i := range cfg.Rooms {
		r.rooms = append(r.rooms, fmt.Sprintf("chaos-%s-%d", uuid.NewString()[:4], i+1))
	}
	for _, name := range cfg.Mix {
		switch name {
		case loadtest.MixReady, loadtest.MixData, loadtest.MixPrivate, loadtest.MixSay, loadtest.MixTimer, loadtest.MixHost:
			r.talks = append(r.talks, name)
		default:
			r.rules = append(r.rules, name)
		}
	}
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
	programs, err := r.build()
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	if r.store, err = openStore(ctx, r.cfg, r.log); err != nil {
		return err
	}
	if r.feed, err = newFeed(r); err != nil {
		return err
	}
	for i := range r.cfg.Nodes {
		if err := r.startNode(ctx, i+1, programs); err != nil {
			return err
		}
	}
	return nil
}

func (r *run) startNode(ctx context.Context, number int, programs map[version]string) error {
	s := start{number: number, programs: programs, links: new(links), url: r.store.url, cfg: r.cfg, more: r.feed.args(), log: r.log(fmt.Sprintf("node-%d", number))}
	r.links = append(r.links, s.links)
	err := s.links.lead(r.store.ends)
	if err != nil {
		return err
	}
	n, err := startNode(ctx, s)
	if err != nil {
		return err
	}
	r.nodes = append(r.nodes, n)
	if err := r.feed.open(n); err != nil {
		return err
	}
	s.links.clients, err = carry(n.process.Addr())
	return err
}

// log returns where a process logs to, nil if nowhere.
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
	if r.feed != nil {
		r.feed.close()
	}
	for _, l := range r.links {
		l.close()
	}
	for _, n := range r.nodes {
		_ = n.process.Close()
	}
	if r.store != nil {
		r.store.close()
	}
	for _, f := range r.files {
		_ = f.Close()
	}
}

// problem records something that must not have happened.
func (r *run) problem(format string, args ...any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.problems = append(r.problems, fmt.Sprintf(format, args...))
}

// matchedIn records that a match has led into a room.
func (r *run) matchedIn(room string, wanted *check.Settings) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.wants[room] == nil {
		r.matched, r.wants[room] = append(r.matched, room), wanted
	}
}

// begun returns the settings with which a match has begun a room.
func (r *run) begun(room string) *check.Settings {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.wants[room]
}

// allRooms returns the rooms of the run, and those that matches began.
func (r *run) allRooms() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Concat(r.rooms, r.matched)
}

// does reports whether that is in the mix.
func (r *run) does(what string) bool { return slices.Contains(r.cfg.Mix, what) }

// enter says what the run does now.
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
	done, _, unknown := r.history.counts()
	r.mu.Lock()
	defer r.mu.Unlock() // one at a time
	p := Progress{Elapsed: r.history.now(), Phase: r.phase, Changed: changed, Actions: done, Unknown: unknown, Problems: len(r.problems)}
	if n := len(r.samples); n > 0 {
		p.Ghosts = r.samples[n-1].ghosts
	}
	r.cfg.Progress(p)
}
