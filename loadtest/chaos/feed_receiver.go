package chaos

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"sync"
	"time"
)

const (
	hookTimeout = time.Second // of a webhook: how long the receiver may take

	// The receiver is away for up to awayMost, at times that are awayEvery apart on average.
	awayMost  = 5 * time.Second
	awayEvery = 20 * time.Second
)

// receiver is a backend that is told by a webhook. Of fifty requests it refuses one, leaves one without an answer, ends the connection
// of one, and does the same to three others that it has taken; and now and then it is away.
type receiver struct {
	feed   *feed
	key    []byte
	secret string // the file that nodes read
	server *httptest.Server

	mu     sync.Mutex
	random *rand.Rand // guarded by mu
	well   bool       // guarded by mu: it takes everything
	back   time.Time  // guarded by mu: until then it is away
	leaves time.Time  // guarded by mu: then it goes away
	failed int        // guarded by mu: requests that it did not acknowledge
	took   int        // guarded by mu
}

func newReceiver(f *feed, key []byte) (r *receiver, err error) {
	r = &receiver{feed: f, key: key, random: f.random(3)}
	r.server = httptest.NewServer(r)
	r.secret, err = secretFile(key)
	return r, err
}

// begin lets the receiver be away for the first time.
func (r *receiver) begin() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.leaves = time.Now().Add(awayEvery / 4)
}

// calm has the receiver take everything from now on.
func (r *receiver) calm() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.well = true
}

func (r *receiver) close() {
	r.server.CloseClientConnections()
	r.server.Close()
	_ = os.Remove(r.secret)
}

// mood is how the receiver treats a request.
type mood int

const (
	takes    mood = iota
	away          // it ends the connection
	refuses       // it answers 500
	hangs         // it gives no answer in time
	takesAnd      // takes and then: away, refuses or hangs
)

func (r *receiver) moodNow() mood {
	r.mu.Lock()
	defer r.mu.Unlock()
	now := time.Now()
	if r.well || r.leaves.IsZero() {
		r.took++
		return takes
	}
	if now.After(r.leaves) {
		r.back = now.Add(time.Duration(r.random.Int64N(int64(awayMost))))
		r.leaves = r.back.Add(time.Duration(r.random.Int64N(int64(2 * awayEvery))))
	}
	m := takes
	if n := r.random.IntN(50); now.Before(r.back) {
		m = away
	} else if n < 3 {
		m = away + mood(n)
	} else if n < 6 {
		m = takesAnd + away + mood(n-3)
	}
	if m == takes {
		r.took++
	} else {
		r.failed++
	}
	return m
}

func (r *receiver) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	body, err := io.ReadAll(req.Body)
	if err != nil {
		return // of a node that has died
	}
	if !r.signed(req.Header, body) {
		r.feed.run.Problem("content", "a request of a webhook has no good signature: %q", req.Header)
		w.WriteHeader(http.StatusUnauthorized)
		return
	}
	m := r.moodNow()
	if m == takes || m >= takesAnd {
		var in struct{ Data struct{ Entries []feedEntry } }
		if err := json.Unmarshal(body, &in); err != nil || len(in.Data.Entries) == 0 {
			r.feed.run.Problem("content", "a request of a webhook has no entries: %.200q", body)
		}
		r.feed.hear(hookReader, in.Data.Entries)
	}
	if m >= takesAnd {
		m -= takesAnd
	}
	switch m {
	case takes:
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

// signed reports whether a request is signed as Standard Webhooks has it, and not long ago.
func (r *receiver) signed(h http.Header, body []byte) bool {
	var at int64
	if _, err := fmt.Sscan(h.Get("webhook-timestamp"), &at); err != nil || time.Since(time.Unix(at, 0)).Abs() > 5*time.Minute {
		return false
	}
	sum := hmac.New(sha256.New, r.key)
	_, _ = fmt.Fprintf(sum, "%s.%d.%s", h.Get("webhook-id"), at, body)
	return slices.Contains(strings.Fields(h.Get("webhook-signature")), "v1,"+base64.StdEncoding.EncodeToString(sum.Sum(nil)))
}
