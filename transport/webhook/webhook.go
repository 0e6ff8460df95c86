// Package webhook sends every commit to a backend by HTTP requests, signed according to Standard Webhooks
// (https://www.standardwebhooks.com).
//
// Start with [New], [Webhooks.Start] and [Webhooks.Close]. A receiver gets the commits of the feed in one request
// after the other, with up to 100 commits each. A request without an answer of status 2xx within the timeout is
// repeated until it succeeds, with pauses that grow to a minute. Then the receiver's place is saved in Redis. So the
// receiver gets each commit at least once, and a room's commits in order. It should ignore commits whose room, epoch
// and version it has.
//
// Of all nodes with the same receiver one sends at a time: the one that holds a lock. If that node dies, another
// continues after seconds, from the last saved place. A slow receiver does not delay others.
//
// One goroutine runs for each receiver, from Start to Close.
package webhook

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"roomd/lockmgr"
	"roomd/lockmgr/redisconn/pause"
	"roomd/room/coordinator"
	"roomd/room/ratelog"
	"roomd/transport/api"
)

// DefaultTimeout is how long a receiver may take to answer.
const DefaultTimeout = 10 * time.Second

const (
	turnPause = time.Second // between two attempts to become the sending node
	keepEvery = time.Second // how often the place is saved while the filter drops all entries
)

// Rooms is the part of a *coordinator.Coordinator that webhooks need.
type Rooms interface {
	Feed(ctx context.Context, after string, limit int, shows func(id string) bool) (coordinator.FeedPage, error)
	AwaitFeed(ctx context.Context, after string) error
	ReadFeedAs(ctx context.Context, name string, read func(ctx context.Context, place string,
		keep func(place string) error) error) error
	Now() int64
}

// Config lists the receivers of commits. The zero value has none.
type Config struct {
	Receivers []Receiver
	Secrets   *Secrets      // required with Receivers
	Timeout   time.Duration // of one request; zero means DefaultTimeout
	Log       *slog.Logger  // nil is silent
}

// Webhooks sends commits to receivers. It is safe for concurrent use.
type Webhooks struct {
	all  []*webhook
	life context.Context
	end  context.CancelFunc
	busy sync.WaitGroup
}

type webhook struct {
	Receiver
	label   string
	rooms   Rooms
	secrets *Secrets
	client  *http.Client
	timeout time.Duration // of one request
	failed  *ratelog.Log  // requests to the receiver
	unread  *ratelog.Log  // reads of the feed

	sent, failures, entries atomic.Uint64
	// the time of the oldest unacknowledged commit, in ms since 1970; 0 for none
	since atomic.Int64
}

// Stats are a node's counts for one receiver.
type Stats struct {
	Receiver     string        // its host, with a number if an earlier receiver has the same host
	Sent, Failed uint64        // requests
	Entries      uint64        // acknowledged commits and gaps
	Lag          time.Duration // the age of the oldest unacknowledged commit; 0 if there is none
}

// New returns Webhooks that send nothing before Start. It fails if Secrets is missing, and with the error of [Check].
func New(rooms Rooms, cfg Config) (*Webhooks, error) {
	if err := Check(cfg.Receivers); err != nil {
		return nil, err
	}
	if len(cfg.Receivers) > 0 && cfg.Secrets == nil {
		return nil, errors.New("webhook: Secrets is nil")
	}
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	ws := new(Webhooks)
	ws.life, ws.end = context.WithCancel(context.Background())
	labels := make(map[string]int)
	for _, r := range cfg.Receivers {
		label := r.Host()
		if labels[r.Host()]++; labels[r.Host()] > 1 {
			label += fmt.Sprintf("#%d", labels[r.Host()])
		}
		ws.all = append(ws.all, &webhook{
			Receiver: r, label: label, rooms: rooms, secrets: cfg.Secrets, client: newClient(),
			timeout: cmp.Or(cfg.Timeout, DefaultTimeout),
			failed: ratelog.New(cfg.Log, slog.LevelWarn, "a webhook's receiver does not take commits, trying again",
				2*maxPause),
			unread: ratelog.New(cfg.Log, slog.LevelWarn, "the feed cannot be read for a webhook, trying again",
				ratelog.Quiet),
		})
	}
	return ws, nil
}

// Start starts a goroutine for each receiver. Call it once.
func (ws *Webhooks) Start() {
	for _, w := range ws.all {
		ws.busy.Go(func() { w.run(ws.life) })
	}
}

// Close ends the goroutines, and waits for them. Another node repeats unacknowledged messages.
func (ws *Webhooks) Close() {
	ws.end()
	ws.busy.Wait()
	for _, w := range ws.all {
		w.client.CloseIdleConnections()
		w.failed.Close()
		w.unread.Close()
	}
}

// Stats returns the counts per receiver.
func (ws *Webhooks) Stats() (all []Stats) {
	for _, w := range ws.all {
		s := Stats{Receiver: w.label, Sent: w.sent.Load(), Failed: w.failures.Load(), Entries: w.entries.Load()}
		if since := w.since.Load(); since != 0 {
			s.Lag = max(0, time.Duration(w.rooms.Now()-since)*time.Millisecond)
		}
		all = append(all, s)
	}
	return all
}

func (w *webhook) run(ctx context.Context) {
	for ctx.Err() == nil {
		err := w.rooms.ReadFeedAs(ctx, w.name(), w.tell)
		w.since.Store(0)
		if err != nil && ctx.Err() == nil && !errors.Is(err, lockmgr.ErrHeld) {
			w.unread.Happened(err, "receiver", w.label)
		}
		_ = pause.For(ctx, turnPause)
	}
}

// tell sends the selected entries after place, and waits for new ones, until ctx ends or Redis fails. keep saves a
// place.
func (w *webhook) tell(ctx context.Context, place string, keep func(place string) error) error {
	kept := time.Now()
	reader := api.FeedReader{Rooms: w.rooms, Filter: w.Filter, Limit: maxEntries, Place: place}
	for {
		entries, passed, err := reader.Next(ctx)
		if err != nil {
			return err
		}
		for len(entries) > 0 {
			m := newMessage(entries, w.rooms.Now())
			if err := w.deliver(ctx, m); err != nil {
				return err
			}
			if entries = entries[m.entries:]; m.next != "" {
				if err := keep(m.next); err != nil {
					return err
				}
			}
		}
		if passed != "" && time.Since(kept) >= keepEvery {
			if err := keep(passed); err != nil {
				return err
			}
			kept = time.Now()
		}
	}
}
