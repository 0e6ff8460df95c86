package chaos

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"
	"unique"

	"roomd/loadtest"
	"roomd/loadtest/check"
	"roomd/lockmgr/redisconn/pause"
	"roomd/transport/protocol"
)

const (
	feedKeeps   = 10_000_000             // entries: more than a run has
	feedSilence = 4 * time.Second        // after so much silence a reader asks another node
	feedPause   = 100 * time.Millisecond // after a failure
	cutPause    = 2 * time.Second        // average time between two cuts of the readers' connections

	// feedWithin is how long the feed may take after the last action, in addition to Config.Recover: a webhook
	// pauses for up to a minute before it sends again.
	feedWithin = time.Minute
)

// The readers.
const (
	pageReader  = "pages"
	eventReader = "events"
	hookReader  = "webhook"
)

var feedReaders = []string{pageReader, eventReader, hookReader}

// feed has the readers of all commits: one of pages, one of server-sent events, and the receiver of a webhook.
// Their connections are cut now and then.
type feed struct {
	run      *run
	receiver *receiver
	ends     context.CancelFunc
	busy     sync.WaitGroup

	mu   sync.Mutex
	told check.Readers                     // guarded by mu
	last map[string]map[string]check.Point // guarded by mu: last commit by reader and room
}

func newFeed(r *run) (f *feed, err error) {
	f = &feed{run: r, told: make(check.Readers), last: make(map[string]map[string]check.Point), ends: func() {}}
	for _, name := range feedReaders {
		f.last[name] = make(map[string]check.Point)
	}
	f.receiver, err = newReceiver(f)
	return f, err
}

func (f *feed) args() []string {
	return []string{
		"--feed", fmt.Sprint(feedKeeps), "--webhook", f.receiver.server.URL + "/roomd",
		"--webhook-secret-file", f.receiver.secret, "--webhook-timeout", hookTimeout.String(),
	}
}

// begin starts the readers, until close, and the receiver's absences.
func (f *feed) begin() {
	ctx, cancel := context.WithCancel(context.Background())
	f.ends = cancel
	pages, events := &reader{feed: f, name: pageReader, random: f.random(1)},
		&reader{feed: f, name: eventReader, random: f.random(2)}
	f.busy.Go(func() { pages.read(ctx, pages.page) })
	f.busy.Go(func() { events.read(ctx, events.events) })
	f.receiver.leavesAt(time.Now().Add(awayEvery / 4))
}

// disturb cuts connections of readers until ctx ends.
func (f *feed) disturb(ctx context.Context) {
	random := f.random(0)
	for pause.For(ctx, time.Duration(random.Int64N(int64(2*cutPause)))) == nil {
		door := f.run.nodes[random.IntN(len(f.run.nodes))].door
		if random.IntN(2) == 0 {
			door.Reset()
		} else {
			door.Swallow()
		}
	}
}

func (f *feed) random(who uint64) *rand.Rand {
	return rand.New(rand.NewPCG(f.run.cfg.Seed, 1000+who))
}

// hear records entries that a reader received.
func (f *feed) hear(reader string, entries []feedEntry) {
	at := f.run.History.Now()
	f.mu.Lock()
	defer f.mu.Unlock()
	for i := range entries {
		if entries[i].Room == "" {
			continue // start or end of the list of all rooms
		}
		t := entries[i].told(at)
		f.told[reader] = append(f.told[reader], t)
		switch {
		case t.Gap == nil:
			f.last[reader][t.Room] = t.Point
		case t.Gap.Before == check.Point{}:
			f.last[reader][t.Room] = t.Gap.Now
		}
		f.run.History.Told(reader, &t)
	}
}

// arrive waits until all readers have the last commit of each room in Redis.
func (f *feed) arrive(ctx context.Context) {
	f.run.enter("the feed arrives")
	f.receiver.leavesAt(time.Time{})
	if behind := loadtest.Await(ctx, f.run.cfg.Recover+feedWithin, f.behind); behind != "" {
		f.run.Problem("missing", "the feed does not arrive: %s", behind)
	}
}

// behind names a reader that lacks the last commit of a room, or an error of Redis; "" for none.
func (f *feed) behind(ctx context.Context) string {
	for _, room := range f.run.AllRooms() {
		at, err := f.run.data.Client.HMGet(ctx, f.run.data.Key(room, "Meta"), "epoch", "version").Result()
		if err != nil {
			return err.Error()
		}
		if at[0] == nil {
			continue
		}
		f.mu.Lock()
		for _, name := range feedReaders {
			if p := f.last[name][room]; fmt.Sprint(p.Epoch, p.Version) != fmt.Sprint(at[0], at[1]) {
				f.mu.Unlock()
				return fmt.Sprintf("%s was told of room %s up to %v, and Redis has it at version %v of epoch %v",
					name, room, p, at[1], at[0])
			}
		}
		f.mu.Unlock()
	}
	return ""
}

func (f *feed) close() {
	f.ends()
	for _, n := range f.run.nodes {
		if n.door != nil {
			n.door.Close()
		}
	}
	f.busy.Wait()
	f.receiver.close()
}

// feedEntry is an entry of the feed in its JSON form.
type feedEntry struct {
	Room    string            `json:"room"`
	Epoch   string            `json:"epoch"`
	Version uint64            `json:"version"`
	Mark    string            `json:"mark"`
	Changes []protocol.Change `json:"changes"`
	Gap     *struct {
		After  check.Point `json:"after"`
		Before check.Point `json:"before"`
		State  check.Point `json:"state"`
	} `json:"gap"`
}

func (e *feedEntry) told(at time.Duration) check.Told {
	one := func(name string) string { return unique.Make(name).Value() } // keeps one copy of each name in memory
	t := check.Told{At: at, Room: one(e.Room), Point: check.Point{Epoch: one(e.Epoch), Version: e.Version}}
	if e.Gap != nil {
		t.Gap = &check.Gap{After: e.Gap.After, Before: e.Gap.Before, Now: e.Gap.State}
		return t
	}
	changes := make([]check.Change, len(e.Changes))
	for i := range e.Changes {
		changes[i] = loadtest.ChangeOf(&e.Changes[i])
	}
	t.Sum = check.SumOf(e.Mark, changes)
	return t
}

// FeedReport counts what readers of the feed received.
type FeedReport struct {
	Pages   int `json:"pages"` // commits, without repetitions
	Events  int `json:"events"`
	Webhook int `json:"webhook"`
	Again   int `json:"again"` // repetitions
	Gaps    int `json:"gaps"`
	Failed  int `json:"not_acknowledged"` // requests of the webhook
}

// String describes the counts in one line.
func (f FeedReport) String() string {
	return fmt.Sprintf("%d commits in pages, %d by events, %d by webhook; %d again, %d gaps, %d requests not acknowledged", f.Pages, f.Events, f.Webhook, f.Again, f.Gaps, f.Failed)
}
