// Package audit replays the journals of rooms and reports contradictions: within them, or between them and the
// rooms in Redis now.
//
// [Run] searches a Redis for journals (Room:<id>:Log). It reads each in pages while the nodes go on, and the
// last one in one step with the room's members and Meta. Package model replays the entries; the checkers of
// histories also use it.
//
// It imports nothing of the server, so that a mistake in the rules cannot hide in the proof. Run has a few
// goroutines, which end with it.
package audit

import (
	"cmp"
	"context"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
	"golang.org/x/sync/errgroup"

	"roomd/loadtest/internal/model"
)

const (
	// pageEntries is the length of a page. endEntries is the length of a page with the room: short, because Redis
	// serves nobody else meanwhile.
	pageEntries = 1000
	endEntries  = 100

	// readers is how many rooms are read concurrently.
	readers = 4

	// DefaultMost is the default of Config.Most.
	DefaultMost = 100

	// mostNames is how many rooms without a journal a report names.
	mostNames = 20
)

// Config says what to audit. Its tags are the flags of roomload audit.
type Config struct {
	// KeyPrefix must not contain special characters of patterns.
	KeyPrefix string `placeholder:"PREFIX:" help:"What the names of all keys begin with, as of the nodes' --key-prefix."`

	// Empty means all.
	Rooms string `name:"room" default:"*" placeholder:"PATTERN" help:"Rooms to audit: an id, or a pattern with * ? [a-z], in quotes (all by default)."`

	// Zero means DefaultMost.
	Most int `default:"100" help:"How many findings to print; the others are counted (${default})."`

	// Progress, if not nil, is called after each page, from several goroutines, one at a time: with the time since the
	// start, and a line. stays is always false.
	Progress func(at time.Duration, stays bool, line string) `kong:"-"`

	page int // entries; zero means pageEntries
}

// patterns matches what --room may be: the name of a room, or a pattern of names.
var patterns = regexp.MustCompile(`^[A-Za-z0-9._*?^[\]-]{1,200}$`)

// Validate returns an error if a value cannot be used. The error names the flag and its value.
func (c Config) Validate() error {
	switch {
	case c.Rooms != "" && !patterns.MatchString(c.Rooms):
		return fmt.Errorf("--room is %q, it must be a pattern of A-Z a-z 0-9 . _ - with * ? [a-z]", c.Rooms)
	case strings.ContainsAny(c.KeyPrefix, `*?[]\{}`):
		return fmt.Errorf("--key-prefix is %q, it must hold no sign of a pattern, and no brace", c.KeyPrefix)
	case c.Most < 0:
		return fmt.Errorf("--most is %d, it must not be negative", c.Most)
	}
	return nil
}

// Run audits all journals. It changes nothing, and may run beside the nodes. It fails with the
// first error of Redis, or the cause of ctx.
func Run(ctx context.Context, client redis.UniversalClient, cfg Config) (*Report, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	cfg.Rooms, cfg.Most, cfg.page = cmp.Or(cfg.Rooms, "*"), cmp.Or(cfg.Most, DefaultMost), cmp.Or(cfg.page, pageEntries)
	a := &auditor{client: client, cfg: cfg, began: time.Now(), report: Report{
		Pattern: cfg.Rooms, Rules: make(map[model.Rule]int), Unjournaled: []string{}, Findings: []model.Finding{},
	}}
	if err := a.run(ctx); err != nil {
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		return nil, err
	}
	r := &a.report
	r.Seconds = time.Since(a.began).Seconds()
	slices.SortStableFunc(r.Findings, func(x, y model.Finding) int { return cmp.Compare(x.Room, y.Room) })
	slices.Sort(r.Unjournaled)
	slices.Sort(r.Strange)
	r.Strange = slices.Compact(r.Strange)
	r.Unjournaled = r.Unjournaled[:min(len(r.Unjournaled), mostNames)]
	return r, nil
}

// auditor is one run.
type auditor struct {
	client redis.UniversalClient
	cfg    Config
	began  time.Time
	all    int // rooms with a journal

	mu     sync.Mutex
	report Report // guarded by mu
}

func (a *auditor) run(ctx context.Context) error {
	// Meta comes first: a room that is created in between then has a journal, and does not count as one without.
	rooms, err := search(ctx, a.client, a.cfg, "Meta")
	if err != nil {
		return fmt.Errorf("search rooms: %w", err)
	}
	journals, err := search(ctx, a.client, a.cfg, "Log")
	if err != nil {
		return fmt.Errorf("search journals: %w", err)
	}
	a.all = len(journals)
	for _, id := range rooms {
		if _, has := slices.BinarySearch(journals, id); !has {
			a.without(id)
		}
	}
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(readers)
	for _, id := range journals {
		if ctx.Err() != nil {
			break
		}
		g.Go(func() error {
			if err := a.room(ctx, id); err != nil {
				return fmt.Errorf("room %s: %w", id, err)
			}
			return nil
		})
	}
	return g.Wait()
}

func (a *auditor) room(ctx context.Context, id string) error {
	j := model.NewJournal(id, a.found)
	keys, from := keysOf(a.client, a.cfg.KeyPrefix, id), "-"
	for full := false; ; {
		var p *page
		var err error
		if full {
			p, err = readEntries(ctx, a.client, keys, from, a.cfg.page)
		} else {
			p, err = readEnd(ctx, a.client, keys, from, min(a.cfg.page, endEntries))
		}
		if redis.HasErrorPrefix(err, "WRONGTYPE") {
			a.found(model.Finding{
				Rule: model.RuleEntry, Room: id, One: model.Side{Source: "roomd",
					Says: fmt.Sprintf("keeps a stream in %s, and hashes in %s and %s", keys[0], keys[1], keys[2])},
				Other: model.Side{Source: "Redis has", Says: "something else there"},
			})
			a.done(j)
			return nil
		}
		if err != nil {
			return err
		}
		entries := p.entries
		switch {
		case len(entries) > 0 && entries[0].id == from:
			entries = entries[1:]
		case from != "-": // meanwhile trimmed beyond our position
			j.Skip()
		}
		for _, r := range entries {
			j.Next(r.id, r.commit)
			from = r.id
		}
		a.progress(len(entries))
		if p.end != nil {
			a.end(id, j, p.end)
			return nil
		}
		full = p.full
	}
}

// end judges the room in Redis.
func (a *auditor) end(id string, j *model.Journal, f *model.Final) {
	switch {
	case j.Begun:
		j.End(f)
	case len(f.Meta) == 0: // the room has expired
		a.mu.Lock()
		a.report.Gone++
		a.mu.Unlock()
		return
	default: // or the journal was deleted
		a.without(id)
		return
	}
	a.done(j)
}

func (a *auditor) without(id string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.report.WithoutJournal++
	a.report.Unjournaled = append(a.report.Unjournaled, id)
}

func (a *auditor) done(j *model.Journal) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.report.Rooms++
	a.report.Epochs += j.Lost
	a.report.Lost += j.LostCommits
	a.report.Strange = append(a.report.Strange, j.Strange...)
	if j.Middle {
		a.report.Middle++
	}
}

func (a *auditor) found(f model.Finding) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.report.Violations++
	a.report.Rules[f.Rule]++
	if len(a.report.Findings) < a.cfg.Most {
		a.report.Findings = append(a.report.Findings, f)
	}
}

func (a *auditor) progress(commits int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.report.Commits += commits
	if a.cfg.Progress != nil {
		took := time.Since(a.began)
		a.cfg.Progress(took, false, fmt.Sprintf("%d of %d rooms, %d commits, %.0f/s, %d findings", a.report.Rooms,
			a.all, a.report.Commits, float64(a.report.Commits)/took.Seconds(), a.report.Violations))
	}
}
