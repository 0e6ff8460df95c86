package chaos

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/go-json-experiment/json"

	"roomd/lockmgr/redisconn/pause"
)

// reader asks any nodes for the feed.
type reader struct {
	*feed
	name   string
	random *rand.Rand
	at     string // position in the feed
}

// read calls more until ctx ends.
func (r *reader) read(ctx context.Context, more func(context.Context) error) {
	for ctx.Err() == nil {
		if more(ctx) != nil {
			_ = pause.For(ctx, feedPause)
		}
	}
}

var errNothing = errors.New("there is nothing more now")

// get asks a node for a part of the feed.
func (r *reader) get(ctx context.Context, query url.Values, last string) (io.ReadCloser, error) {
	door := r.run.nodes[r.random.IntN(len(r.run.nodes))].door
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+door.Addr()+"/api/feed?"+query.Encode(), nil)
	if err != nil {
		return nil, err
	}
	if last != "" {
		req.Header.Set("Last-Event-ID", last)
	}
	req.Close = true
	res, err := http.DefaultClient.Do(req)
	switch {
	case err != nil:
		return nil, err
	case res.StatusCode == http.StatusOK:
		return res.Body, nil
	case res.StatusCode >= 400 && res.StatusCode < 500 && res.StatusCode != http.StatusTooManyRequests:
		r.run.Problem("missing", "the reader of %s of the feed is answered %s", r.name, res.Status)
	}
	_ = res.Body.Close()
	return nil, errNothing
}

// page reads one page.
func (r *reader) page(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, feedSilence)
	defer cancel()
	body, err := r.get(ctx, url.Values{"after": {r.at}, "limit": {fmt.Sprint(1 + r.random.IntN(1000))}}, "")
	if err != nil {
		return err
	}
	defer body.Close()
	var page struct {
		Entries []feedEntry `json:"entries"`
		Next    string      `json:"next"`
		More    bool        `json:"more"`
	}
	if err := json.UnmarshalRead(body, &page); err != nil {
		return err
	}
	r.hear(r.name, page.Entries)
	if page.Next != "" {
		r.at = page.Next
	}
	if !page.More {
		return errNothing
	}
	return nil
}

// events reads server-sent events until the node ends them, or is silent.
func (r *reader) events(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	silent := time.AfterFunc(feedSilence, cancel)
	defer silent.Stop()
	body, err := r.get(ctx, url.Values{"watch": {""}}, r.at)
	if err != nil {
		return err
	}
	defer body.Close()
	lines := bufio.NewReaderSize(body, 64<<10)
	id, data := r.at, ""
	for {
		line, err := lines.ReadString('\n')
		if err != nil {
			return err // also for an incomplete event
		}
		silent.Reset(feedSilence)
		switch field, value, _ := strings.Cut(strings.TrimSuffix(line, "\n"), ": "); field {
		case "id":
			id = value
		case "data":
			data = value
		case "":
			if data != "" {
				var e feedEntry
				if err := json.Unmarshal([]byte(data), &e); err != nil {
					r.run.Problem("content", "an event of the feed is not JSON: %.200q", data)
				}
				r.hear(r.name, []feedEntry{e})
			}
			r.at, data = id, ""
		}
	}
}
