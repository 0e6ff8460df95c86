package chaos

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	"roomd/lockmgr/redisconn/pause"
)

var errAnswer = errors.New("the node does not serve the feed now")

// get asks a node for a part of the feed.
func (f *feed) get(ctx context.Context, reader string, node int, query url.Values, last string) (io.ReadCloser, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+f.doors[node].Addr()+"/api/feed?"+query.Encode(), nil)
	if err != nil {
		return nil, err
	}
	if last != "" {
		req.Header.Set("Last-Event-ID", last)
	}
	req.Close = true
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return nil, err
	}
	if res.StatusCode != http.StatusOK {
		f.refused(reader, res)
		_ = res.Body.Close()
		return nil, errAnswer
	}
	return res.Body, nil
}

// readPages reads pages of the feed until ctx ends, of any node that answers.
func (f *feed) readPages(ctx context.Context) {
	random, after := f.random(1), ""
	for ctx.Err() == nil {
		more, err := f.readPage(ctx, random.IntN(len(f.doors)), 1+random.IntN(1000), &after)
		switch {
		case err != nil:
			_ = pause.For(ctx, feedPause)
		case !more:
			_ = pause.For(ctx, feedPause/2)
		}
	}
}

func (f *feed) readPage(ctx context.Context, node, limit int, after *string) (more bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, feedSilence)
	defer cancel()
	body, err := f.get(ctx, pageReader, node, url.Values{"after": {*after}, "limit": {fmt.Sprint(limit)}}, "")
	if err != nil {
		return false, err
	}
	defer body.Close()
	var page struct {
		Entries []feedEntry
		Next    string
		More    bool
	}
	if err := json.NewDecoder(body).Decode(&page); err != nil {
		return false, err
	}
	f.hear(pageReader, page.Entries)
	if page.Next != "" {
		*after = page.Next
	}
	return page.More, nil
}

// watch reads server-sent events until ctx ends, and goes on at any node when one ends them, or is silent.
func (f *feed) watch(ctx context.Context) {
	random, last := f.random(2), ""
	for ctx.Err() == nil {
		if err := f.watchNode(ctx, random.IntN(len(f.doors)), &last); err != nil {
			_ = pause.For(ctx, feedPause)
		}
	}
}

func (f *feed) watchNode(ctx context.Context, node int, last *string) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	silent := time.AfterFunc(feedSilence, cancel)
	defer silent.Stop()
	body, err := f.get(ctx, eventReader, node, url.Values{"watch": {""}}, *last)
	if err != nil {
		return err
	}
	defer body.Close()
	lines := bufio.NewReaderSize(body, 64<<10)
	id, data := *last, ""
	for {
		line, err := lines.ReadString('\n')
		if err != nil {
			return err // also of an event that is not whole
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
					f.run.Problem("content", "an event of the feed is not JSON: %.200q", data)
				}
				f.hear(eventReader, []feedEntry{e})
			}
			*last, data = id, ""
		}
	}
}
