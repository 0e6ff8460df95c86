package bench

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"roomd/loadtest/internal/tally"
	"roomd/loadtest/redisserver"
	"roomd/lockmgr/redisconn/pause"
	"roomd/room/coordinator"
	"roomd/transport"
	"roomd/transport/client"
	wsnode "roomd/transport/node"
	"roomd/transport/webhook"
)

// The readers of the feed.
var feedReaders = []string{"pages", "events", "webhook"}

const (
	feedWarm  = 500 * time.Millisecond
	pagePause = 20 * time.Millisecond // of who reads pages, when there are no more

	feedSecret = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
)

// feedHall is a node with the players of a turn, and the readers.
type feedHall struct {
	node    *wsnode.Node
	players []*feedPlayer
	delays  map[string]*tally.Tally
	hook    *httptest.Server
	secret  string
	counts  atomic.Bool // delays count
	busy    sync.WaitGroup
	end     context.CancelFunc

	mu    sync.Mutex
	heard map[string]map[string]uint64 // guarded by mu: by reader and room, the last version
	wrong error                        // guarded by mu
}

// feedPlayer is alone in its room.
type feedPlayer struct {
	conn    *client.Conn
	room    string
	ready   bool
	version uint64
}

// act makes a commit.
func (p *feedPlayer) act(ctx context.Context) error {
	p.ready = !p.ready
	reply, err := p.conn.Ready(ctx, p.room, p.ready)
	if err == nil {
		p.version = reply.Version
	}
	return err
}

func openFeedHall(ctx context.Context, server *redisserver.Redis, t feedTurn, delays map[string]*tally.Tally) (h *feedHall, err error) {
	h = &feedHall{delays: delays, heard: make(map[string]map[string]uint64), end: func() {}}
	defer func() {
		if err != nil {
			_ = h.close()
		}
	}()
	cfg := wsnode.Config{
		Listen: "127.0.0.1:0", AdminListen: "127.0.0.1:0", Redis: server.DB(),
		Room:  coordinator.Options{Journal: feedJournal, Feed: t.keep},
		Serve: transport.Options{Rate: -1, MaxPerAddress: -1, MaxNewRooms: -1},
	}
	if t.readers {
		if cfg.Webhooks, err = h.receive(); err != nil {
			return h, err
		}
	}
	if h.node, err = wsnode.Start(ctx, cfg); err != nil {
		return h, err
	}
	for i := range feedRooms {
		p := &feedPlayer{room: fmt.Sprint("feed-", i)}
		if p.conn, err = client.Dial(ctx, h.node.URL(), client.Options{User: user(i)}); err != nil {
			return h, err
		}
		h.players = append(h.players, p)
		reply, err := p.conn.Join(ctx, p.room)
		if err != nil {
			return h, err
		}
		p.version = reply.Version
	}
	if t.readers {
		life, end := context.WithCancel(ctx)
		h.end = end
		h.busy.Go(func() { h.readPages(life) })
		h.busy.Go(func() { h.readEvents(life) })
	}
	return h, nil
}

// receive starts the receiver of a webhook, and returns what a node has to know of it.
func (h *feedHall) receive() (cfg webhook.Config, err error) {
	file, err := os.CreateTemp("", "roomload-webhook-*")
	if err != nil {
		return cfg, err
	}
	h.secret = file.Name()
	_, err = fmt.Fprintln(file, feedSecret)
	_ = file.Close()
	if err != nil {
		return cfg, err
	}
	if cfg.Secrets, err = webhook.SecretFile(h.secret, slog.New(slog.DiscardHandler)); err != nil {
		return cfg, err
	}
	h.heard["webhook"] = make(map[string]uint64)
	h.hook = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var m struct {
			Data struct{ Entries []benchEntry }
		}
		if json.NewDecoder(r.Body).Decode(&m) == nil {
			h.hear("webhook", m.Data.Entries)
		}
		w.WriteHeader(http.StatusNoContent)
	}))
	to, err := webhook.ParseReceiver(h.hook.URL)
	cfg.Receivers = []webhook.Receiver{to}
	return cfg, err
}

// benchEntry is a commit of the feed, as far as the bench looks at it.
type benchEntry struct {
	Room    string
	Time    time.Time
	Version uint64
	Gap     *struct{}
}

// hear counts how late commits come, and notices what is missing.
func (h *feedHall) hear(reader string, entries []benchEntry) {
	now := time.Now()
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, e := range entries {
		switch last := h.heard[reader][e.Room]; {
		case e.Gap != nil || e.Version > last+1:
			h.wrong = fmt.Errorf("%s: room %s has version %d behind %d", reader, e.Room, e.Version, last)
		case e.Version == last+1:
			h.heard[reader][e.Room] = e.Version
			if h.counts.Load() {
				h.delays[reader].Record(max(0, now.Sub(e.Time)))
			}
		}
	}
}

// ask asks the node for a part of the feed.
func (h *feedHall) ask(ctx context.Context, query url.Values) (io.ReadCloser, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+h.node.AdminAddr()+"/api/feed?"+query.Encode(), nil)
	if err != nil {
		return nil, err
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return nil, err
	}
	if res.StatusCode != http.StatusOK {
		_ = res.Body.Close()
		return nil, fmt.Errorf("the feed: %s", res.Status)
	}
	return res.Body, nil
}

// failed notes why a reader has stopped.
func (h *feedHall) failed(ctx context.Context, err error) {
	if ctx.Err() == nil {
		h.mu.Lock()
		defer h.mu.Unlock()
		h.wrong = err
	}
}

func (h *feedHall) reads(reader string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.heard[reader] = make(map[string]uint64)
}

func (h *feedHall) readPages(ctx context.Context) {
	h.reads("pages")
	for after := ""; ctx.Err() == nil; {
		body, err := h.ask(ctx, url.Values{"after": {after}, "limit": {"1000"}})
		if err != nil {
			h.failed(ctx, err)
			return
		}
		var page struct {
			Entries []benchEntry
			Next    string
			More    bool
		}
		err = json.NewDecoder(body).Decode(&page)
		_, _ = io.Copy(io.Discard, body) // so that the connection is used again
		_ = body.Close()
		if err != nil {
			h.failed(ctx, err)
			return
		}
		h.hear("pages", page.Entries)
		if after = page.Next; !page.More {
			_ = pause.For(ctx, pagePause)
		}
	}
}

func (h *feedHall) readEvents(ctx context.Context) {
	h.reads("events")
	body, err := h.ask(ctx, url.Values{"watch": {""}})
	if err != nil {
		h.failed(ctx, err)
		return
	}
	defer body.Close()
	for lines := bufio.NewReader(body); ; {
		line, err := lines.ReadString('\n')
		if err != nil {
			h.failed(ctx, err)
			return
		}
		if data, is := strings.CutPrefix(line, "data: "); is {
			var e benchEntry
			if err := json.Unmarshal([]byte(data), &e); err != nil {
				h.failed(ctx, err)
				return
			}
			h.hear("events", []benchEntry{e})
		}
	}
}

// arrive waits until all readers have all commits.
func (h *feedHall) arrive(ctx context.Context) error {
	for end := time.Now().Add(feedArrives); ; {
		behind, wrong := h.behind()
		if wrong != nil {
			return wrong
		}
		if behind == "" {
			return nil
		}
		if time.Now().After(end) {
			return fmt.Errorf("%v after the last commit %s", feedArrives, behind)
		}
		if err := pause.For(ctx, pagePause); err != nil {
			return err
		}
	}
}

// behind names a reader that has not all commits.
func (h *feedHall) behind() (string, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for reader, rooms := range h.heard {
		for _, p := range h.players {
			if rooms[p.room] < p.version {
				return fmt.Sprintf("%s has version %d of %d of room %s", reader, rooms[p.room], p.version, p.room), h.wrong
			}
		}
	}
	return "", h.wrong
}

// close ends the players, the readers and the node.
func (h *feedHall) close() error {
	h.end()
	h.busy.Wait()
	var closing sync.WaitGroup
	for _, p := range h.players {
		closing.Go(p.conn.Close)
	}
	closing.Wait()
	var err error
	if h.node != nil {
		ctx, cancel := context.WithTimeout(context.Background(), feedArrives)
		defer cancel()
		err = h.node.Shutdown(ctx)
	}
	if h.hook != nil {
		h.hook.Close()
	}
	if h.secret != "" {
		_ = os.Remove(h.secret)
	}
	http.DefaultClient.CloseIdleConnections()
	return err
}
