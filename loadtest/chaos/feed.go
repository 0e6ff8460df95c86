package chaos

import (
	"context"
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"fmt"
	mathrand "math/rand/v2"
	"net/http"
	"os"
	"sync"
	"time"

	"roomd/loadtest"
	"roomd/loadtest/check"
	"roomd/lockmgr/redisconn/pause"
	"roomd/lockmgr/redistest/proxy"
)

const (
	feedKeeps   = 10_000_000             // entries: all of a run
	feedSilence = 4 * time.Second        // then who hears nothing asks another node
	feedPause   = 100 * time.Millisecond // after a failure
	cutPause    = 2 * time.Second        // on average, between two cuts of the readers' connections to a node

	// feedWithin is how long the feed may take, when nobody acts any more, besides Config.Recover: a webhook waits for up to a minute
	// before it sends again.
	feedWithin = time.Minute
)

// feed is who hears of all commits: a reader of pages, one of server-sent events, and the receiver of a webhook. Their
// connections are cut now and then.
type feed struct {
	run      *run
	receiver *receiver
	doors    []*proxy.Proxy // to the operators' side of each node
	ends     context.CancelFunc
	busy     sync.WaitGroup

	mu    sync.Mutex
	told  check.Readers                     // guarded by mu
	last  map[string]map[string]check.Point // guarded by mu: by reader and room, the last commit that it was told
	names map[string]string                 // guarded by mu: one of each, of rooms and epochs
}

// The readers.
const (
	pageReader  = "pages"
	eventReader = "events"
	hookReader  = "webhook"
)

var feedReaders = []string{pageReader, eventReader, hookReader}

func newFeed(r *run) (*feed, error) {
	f := &feed{run: r, told: make(check.Readers), last: make(map[string]map[string]check.Point), names: make(map[string]string)}
	for _, name := range feedReaders {
		f.last[name] = make(map[string]check.Point)
	}
	key := make([]byte, 32)
	_, _ = rand.Read(key) // it does not fail
	var err error
	f.receiver, err = newReceiver(f, key)
	return f, err
}

// args are those of a node.
func (f *feed) args() []string {
	return []string{
		"--feed", fmt.Sprint(feedKeeps), "--webhook", f.receiver.server.URL + "/roomd", "--webhook-secret-file", f.receiver.secret, "--webhook-timeout", hookTimeout.String(),
	}
}

// secretFile writes the key of a webhook as roomd reads it.
func secretFile(key []byte) (string, error) {
	file, err := os.CreateTemp("", "roomload-webhook-*")
	if err != nil {
		return "", err
	}
	defer file.Close()
	_, err = fmt.Fprintln(file, "whsec_"+base64.StdEncoding.EncodeToString(key))
	return file.Name(), err
}

// open opens the way to one more node.
func (f *feed) open(n *node) error {
	door, err := carry(n.admin)
	if err == nil {
		f.doors = append(f.doors, door)
	}
	return err
}

// begin has all of them listen, until close.
func (f *feed) begin() {
	ctx, cancel := context.WithCancel(context.Background())
	f.ends = cancel
	f.busy.Go(func() { f.readPages(ctx) })
	f.busy.Go(func() { f.watch(ctx) })
	f.receiver.begin()
}

// disturb cuts connections of readers until ctx ends.
func (f *feed) disturb(ctx context.Context) {
	random := f.random(0)
	for pause.For(ctx, time.Duration(random.Int64N(int64(2*cutPause)))) == nil {
		door := f.doors[random.IntN(len(f.doors))]
		if random.IntN(2) == 0 {
			door.Reset()
		} else {
			door.Swallow()
		}
	}
}

// random returns random numbers for one of them.
func (f *feed) random(who uint64) *mathrand.Rand {
	return mathrand.New(mathrand.NewPCG(f.run.cfg.Seed, 1000+who))
}

// hear records what a reader was told.
func (f *feed) hear(reader string, entries []feedEntry) {
	at := f.run.History.Now()
	f.mu.Lock()
	defer f.mu.Unlock()
	for i := range entries {
		if entries[i].Room == "" {
			continue // a list of all rooms begins or ends
		}
		t := entries[i].told(at)
		t.Room, t.Epoch = f.nameLocked(t.Room), f.nameLocked(t.Epoch)
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

func (f *feed) nameLocked(text string) string {
	if name, known := f.names[text]; known {
		return name
	}
	f.names[text] = text
	return text
}

// arrive waits until all readers know all rooms as Redis has them.
func (f *feed) arrive(ctx context.Context) {
	f.run.enter("the feed arrives")
	f.receiver.calm()
	for end := time.Now().Add(f.run.cfg.Recover + feedWithin); ; {
		behind, err := f.behind(ctx)
		if err != nil {
			behind = err.Error()
		}
		if behind == "" {
			return
		}
		if time.Now().After(end) {
			f.run.Problem("missing", "the feed does not arrive: %s", behind)
			return
		}
		_ = pause.For(ctx, lookPause)
	}
}

// behind names a reader that does not know a room as Redis has it.
func (f *feed) behind(ctx context.Context) (string, error) {
	for _, room := range f.run.AllRooms() {
		at, err := f.run.data.Client.HMGet(ctx, f.run.data.Key(room, "Meta"), "epoch", "version").Result()
		if err != nil {
			return "", err
		}
		if at[0] == nil {
			continue
		}
		f.mu.Lock()
		for _, name := range feedReaders {
			if p := f.last[name][room]; fmt.Sprint(p.Epoch, p.Version) != fmt.Sprint(at[0], at[1]) {
				f.mu.Unlock()
				return fmt.Sprintf("%s was told of room %s up to %v, and Redis has it at version %v of epoch %v", name, room, p, at[1], at[0]), nil
			}
		}
		f.mu.Unlock()
	}
	return "", nil
}

// close ends all that listens.
func (f *feed) close() {
	if f.ends != nil {
		f.ends()
	}
	for _, door := range f.doors {
		door.Close()
	}
	f.busy.Wait()
	f.receiver.close()
}

// heard returns what all were told.
func (f *feed) heard() check.Readers {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.told
}

// feedEntry is an entry of the feed as readers get it.
type feedEntry struct {
	Room    string
	Epoch   string
	Version uint64
	Mark    string
	Changes []feedChange
	Gap     *struct {
		After, Before check.Point
		State         check.Point
	}
}

type feedChange struct {
	Type, User, Reason, Text, Name string
	Seat                           int
	Away                           bool
	Ready                          *bool
	Data, To                       json.RawMessage
	Settings                       *check.Settings
	In                             *int64
}

func (e *feedEntry) told(at time.Duration) check.Told {
	t := check.Told{At: at, Room: e.Room, Point: check.Point{Epoch: e.Epoch, Version: e.Version}}
	if e.Gap != nil {
		t.Gap = &check.Gap{After: e.Gap.After, Before: e.Gap.Before, Now: e.Gap.State}
		return t
	}
	var changes []check.Change
	for i := range e.Changes {
		changes = append(changes, e.Changes[i].change())
	}
	t.Sum = check.SumOf(e.Mark, changes)
	return t
}

func (c *feedChange) change() check.Change {
	one := check.Change{
		Type: c.Type, User: c.User, Seat: c.Seat, Away: c.Away, Reason: c.Reason, Text: c.Text, Ready: c.Ready, Data: loadtest.Plain(c.Data),
		Name: c.Name, Set: c.In != nil, Settings: c.Settings,
	}
	if json.Unmarshal(c.To, &one.To) != nil {
		_ = json.Unmarshal(c.To, &one.Target)
	}
	if s := one.Settings; s != nil {
		if s.Host == "none" { // as the journal has it
			s.Host = ""
		}
		if s.Labels == "{}" {
			s.Labels = ""
		}
	}
	return one
}

// refused says that a node has given an answer that it must not give.
func (f *feed) refused(reader string, res *http.Response) {
	if res.StatusCode >= 400 && res.StatusCode < 500 && res.StatusCode != http.StatusTooManyRequests {
		f.run.Problem("missing", "the reader of %s of the feed is answered %s", reader, res.Status)
	}
}

// FeedReport is what readers of the feed were told.
type FeedReport struct {
	Pages   int `json:"pages"` // commits, without repetitions
	Events  int `json:"events"`
	Webhook int `json:"webhook"`
	Again   int `json:"again"` // repetitions
	Gaps    int `json:"gaps"`
	Failed  int `json:"not_acknowledged"` // requests of the webhook
}

// String returns it in a line.
func (f FeedReport) String() string {
	return fmt.Sprintf("%d commits in pages, %d by events, %d by webhook; %d again, %d gaps, %d requests not acknowledged", f.Pages, f.Events, f.Webhook, f.Again, f.Gaps, f.Failed)
}

func (r *Report) feedJudged(v *check.FeedVerdict, failed int) {
	for _, one := range v.Violations {
		r.Violations = append(r.Violations, one.String())
	}
	r.Feed = FeedReport{v.Commits[pageReader], v.Commits[eventReader], v.Commits[hookReader], v.Again, v.Gaps, failed}
}
