package chaos

import (
	"bufio"
	"context"
	"crypto/hmac"
	cryptorand "crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"slices"
	"strings"
	"sync"
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

const (
	hookTimeout = time.Second // timeout of the webhook

	// The receiver is away for up to awayMost, at times that are awayEvery apart on average.
	awayMost  = 5 * time.Second
	awayEvery = 20 * time.Second
)

// receiver is the backend of a webhook. Of fifty requests it refuses one, leaves one without an answer, and cuts the
// connection of one; three others it accepts, and then answers in one of these ways. Sometimes it is away.
type receiver struct {
	feed   *feed
	key    []byte
	secret string // path of the nodes' secret file
	server *httptest.Server

	mu     sync.Mutex
	random *rand.Rand // guarded by mu
	back   time.Time  // guarded by mu: until then it is away
	leaves time.Time  // guarded by mu: when it next goes away; if zero, it accepts everything
	failed int        // guarded by mu: requests that it did not acknowledge
}

// newReceiver starts a receiver that accepts everything. A new file has its secret.
func newReceiver(f *feed) (*receiver, error) {
	r := &receiver{feed: f, key: make([]byte, 32), random: f.random(3)}
	_, _ = cryptorand.Read(r.key) // never fails
	file, err := os.CreateTemp("", "roomload-webhook-*")
	if err != nil {
		return nil, err
	}
	defer file.Close()
	r.server, r.secret = httptest.NewServer(r), file.Name()
	_, err = fmt.Fprintln(file, "whsec_"+base64.StdEncoding.EncodeToString(r.key))
	return r, err
}

// leavesAt sets when the receiver first goes away; with zero it accepts everything from now on.
func (r *receiver) leavesAt(t time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.leaves = t
}

func (r *receiver) close() {
	r.server.CloseClientConnections()
	r.server.Close()
	_ = os.Remove(r.secret)
}

// hookAnswer is how the receiver answers a request.
type hookAnswer int

const (
	acknowledges hookAnswer = iota
	away                    // cuts the connection
	refuses                 // answers 500
	hangs                   // does not answer in time
)

// treat decides whether the receiver accepts a request, and how it answers.
func (r *receiver) treat() (takes bool, with hookAnswer) {
	r.mu.Lock()
	defer r.mu.Unlock()
	now := time.Now()
	if r.leaves.IsZero() {
		return true, acknowledges
	}
	if now.After(r.leaves) {
		r.back = now.Add(time.Duration(r.random.Int64N(int64(awayMost))))
		r.leaves = r.back.Add(time.Duration(r.random.Int64N(int64(2 * awayEvery))))
	}
	n := r.random.IntN(50)
	switch {
	case now.Before(r.back):
		with = away
	case n < 6:
		takes, with = n >= 3, away+hookAnswer(n%3)
	default:
		return true, acknowledges
	}
	r.failed++
	return takes, with
}

func (r *receiver) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	body, err := io.ReadAll(req.Body)
	if err != nil {
		return // its node has died
	}
	if !r.signed(req.Header, body) {
		r.feed.run.Problem("content", "a request of a webhook has no good signature: %q", req.Header)
		w.WriteHeader(http.StatusUnauthorized)
		return
	}
	takes, with := r.treat()
	if takes {
		var in struct {
			Data struct {
				Entries []feedEntry `json:"entries"`
			} `json:"data"`
		}
		if err := json.Unmarshal(body, &in); err != nil || len(in.Data.Entries) == 0 {
			r.feed.run.Problem("content", "a request of a webhook has no entries: %.200q", body)
		}
		r.feed.hear(hookReader, in.Data.Entries)
	}
	switch with {
	case acknowledges:
		w.WriteHeader(http.StatusNoContent)
	case refuses:
		w.WriteHeader(http.StatusInternalServerError)
	case away:
		panic(http.ErrAbortHandler)
	case hangs:
		select {
		case <-req.Context().Done():
		case <-time.After(2 * hookTimeout):
		}
	}
}

// signed reports whether a request has a recent signature as Standard Webhooks defines it.
func (r *receiver) signed(h http.Header, body []byte) bool {
	var at int64
	if _, err := fmt.Sscan(h.Get("webhook-timestamp"), &at); err != nil ||
		time.Since(time.Unix(at, 0)).Abs() > 5*time.Minute {
		return false
	}
	sum := hmac.New(sha256.New, r.key)
	_, _ = fmt.Fprintf(sum, "%s.%d.%s", h.Get("webhook-id"), at, body)
	return slices.Contains(strings.Fields(h.Get("webhook-signature")),
		"v1,"+base64.StdEncoding.EncodeToString(sum.Sum(nil)))
}
