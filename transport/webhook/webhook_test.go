package webhook

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"roomd/lockmgr/redistest"
	"roomd/room"
	"roomd/room/coordinator"
)

const secretText = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"

func secrets(t testing.TB, text string) *Secrets {
	t.Helper()
	path := filepath.Join(t.TempDir(), "secret")
	redistest.OK(t, os.WriteFile(path, []byte(text), 0o600))
	s, err := SecretFile(path, slog.New(slog.DiscardHandler))
	redistest.OK(t, err)
	return s
}

// receiver is a backend. It fails the test if a signature is wrong, or the versions of a room have a gap.
type receiver struct {
	t       testing.TB
	secrets *Secrets
	server  *httptest.Server

	mu     sync.Mutex
	answer func(w http.ResponseWriter, r *http.Request) bool // guarded by mu: nil takes everything; false has not taken it
	last   map[string]string                                 // guarded by mu: by room, "epoch version"
	gaps   int                                               // guarded by mu
	lists  string                                            // guarded by mu: where lists of all rooms began and ended
	came   int                                               // guarded by mu: requests
	ids    map[string]int                                    // guarded by mu: how often each came
}

func newReceiver(t testing.TB) *receiver {
	r := &receiver{t: t, secrets: secrets(t, secretText+"\n"), last: make(map[string]string), ids: make(map[string]int)}
	r.server = httptest.NewServer(r)
	t.Cleanup(r.server.Close)
	return r
}

func (r *receiver) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	body, err := io.ReadAll(req.Body)
	if err != nil {
		return
	}
	r.mu.Lock()
	r.came++
	r.ids[req.Header.Get("webhook-id")]++
	answer := r.answer
	r.mu.Unlock()
	at, _ := strconv.ParseInt(req.Header.Get("webhook-timestamp"), 10, 64)
	if want := r.secrets.sign(req.Header.Get("webhook-id"), at, body); req.Header.Get("webhook-signature") != want {
		r.t.Errorf("the signature is %s, not %s", req.Header.Get("webhook-signature"), want)
	}
	if answer != nil && !answer(w, req) {
		return
	}
	var m struct {
		Type, Timestamp string
		Data            struct {
			Entries []struct {
				Room, Epoch string
				Version     int
				Gap         *struct{ List string }
			}
		}
	}
	if err := json.Unmarshal(body, &m); err != nil || m.Type != "feed.entries" || len(m.Data.Entries) == 0 {
		r.t.Errorf("%v: %s", err, body)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, e := range m.Data.Entries {
		if e.Gap != nil && e.Room == "" {
			r.lists += e.Gap.List + " "
			continue
		}
		if e.Gap != nil {
			r.gaps++
			delete(r.last, e.Room)
			continue
		}
		epoch, text, _ := strings.Cut(r.last[e.Room], " ")
		last, _ := strconv.Atoi(text)
		switch {
		case epoch == e.Epoch && e.Version <= last: // again
		case epoch == e.Epoch && e.Version > last+1:
			r.t.Errorf("room %s: version %d comes behind %d", e.Room, e.Version, last)
			fallthrough
		default:
			r.last[e.Room] = fmt.Sprint(e.Epoch, " ", e.Version)
		}
	}
}

func (r *receiver) set(answer func(w http.ResponseWriter, r *http.Request) bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.answer = answer
}

// until waits until the receiver has heard all of a room.
func (r *receiver) until(id string, now room.Result) {
	r.t.Helper()
	want := fmt.Sprint(now.Epoch, " ", now.Version)
	redistest.Until(r.t, "the receiver hears "+want+" of room "+id, func() bool {
		r.mu.Lock()
		defer r.mu.Unlock()
		return r.last[id] == want
	})
}

func (r *receiver) requests() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.came
}

func newRooms(t testing.TB, client redis.UniversalClient) *coordinator.Coordinator {
	t.Helper()
	c, err := coordinator.New(client, coordinator.Options{Journal: 1000, Feed: 10_000, Rules: room.Rules{Seating: room.Capacity(0)}})
	redistest.OK(t, err)
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		_ = c.Close(ctx)
	})
	return c
}

// tell starts a webhook of a node, and returns it with its end.
func (r *receiver) tell(rooms Rooms, cfg Config, more string) (ws *Webhooks, end func()) {
	r.t.Helper()
	to, err := ParseReceiver(r.server.URL + more)
	redistest.OK(r.t, err)
	cfg.Receivers, cfg.Secrets = []Receiver{to}, r.secrets
	ws, err = New(rooms, cfg)
	redistest.OK(r.t, err)
	ws.Start()
	end = sync.OnceFunc(ws.Close)
	r.t.Cleanup(end)
	return ws, end
}

func do(t testing.TB, c *coordinator.Coordinator, id string, a room.Action) room.Result {
	t.Helper()
	r, err := c.Do(t.Context(), id, a)
	redistest.OK(t, err)
	return r
}

// fill makes so many commits in a room.
func fill(t testing.TB, c *coordinator.Coordinator, id string, n int) (last room.Result) {
	t.Helper()
	for i := range n {
		last = do(t, c, id, room.Join{User: fmt.Sprint("u", time.Now().UnixNano(), i), Session: "s"})
	}
	return last
}

// The signature is that of the example of Standard Webhooks; with several secrets there is one of each.
func TestSign(t *testing.T) {
	const want = "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="
	body := []byte(`{"test": 2432232314}`)
	redistest.Equal(t, "one secret:", secrets(t, secretText+"\n").sign("msg_p5jXN8AQM9LWM0D4loKWxJek", 1614265330, body), want)
	two := secrets(t, secretText+"\n\nwhsec_AAAA9r8GKYqrTwjUPD8ILPZIo2LaLaSw").sign("msg_p5jXN8AQM9LWM0D4loKWxJek", 1614265330, body)
	if first, second, ok := strings.Cut(two, " "); !ok || first != want || second == want || len(second) != len(want) {
		t.Errorf("two secrets: %s", two)
	}
	for _, text := range []string{"", "\n", "whsec_", "plJ3nmyCDGBKInavdOK15jsl", "whsec_plJ3nmyCDGBKInavdO", "whsec_!", "whsec_" + strings.Repeat("aaaa", 22)} {
		if _, err := parseSecrets([]byte(text)); err == nil || text != "" && len(text) > 8 && strings.Contains(err.Error(), text) {
			t.Errorf("%q: %v", text, err)
		}
	}
}

func TestParseReceiver(t *testing.T) {
	r, err := ParseReceiver("https://game.example/hook?key=k#rooms=a*,b-*&kinds=join,leave")
	if redistest.OK(t, err); r.URL != "https://game.example/hook?key=k" || fmt.Sprint(r.Filter) != "{[a* b-*] [join leave]}" || r.Host() != "https://game.example" {
		t.Errorf("%+v", r)
	}
	for _, text := range []string{"", "game.example", "ftp://game.example", "https://", "https:x", "https://u:secret@game.example", "https://game.example/#x=1", "https://game.example/#kinds=secret", "https://game.example/#rooms=", "http://%zzsecret"} {
		if _, err := ParseReceiver(text); err == nil || strings.Contains(err.Error(), "u:secret") || strings.Contains(err.Error(), "zzsecret") {
			t.Errorf("%q: %v", text, err)
		}
	}
	if Check([]Receiver{r, r}) == nil {
		t.Error("the same receiver twice is accepted")
	}
}

// A receiver hears all commits in order although it refuses, hangs, cuts connections and redirects; a message that
// is sent again has the same id, and nobody else is asked.
func TestWebhook_BadReceiver(t *testing.T) {
	t.Parallel()
	rooms := newRooms(t, redistest.Start(t).Client())
	elsewhere := newReceiver(t)
	r := newReceiver(t)
	first := do(t, rooms, "42", room.Join{User: "a", Session: "s"})
	var turn int
	var mu sync.Mutex
	r.set(func(w http.ResponseWriter, req *http.Request) bool {
		mu.Lock()
		turn++
		now := turn
		mu.Unlock()
		switch now {
		case 1:
			w.WriteHeader(http.StatusInternalServerError)
		case 2:
			http.Redirect(w, req, elsewhere.server.URL, http.StatusTemporaryRedirect)
		case 3:
			panic(http.ErrAbortHandler)
		case 4:
			<-req.Context().Done() // until the sender has had enough
		default:
			return true
		}
		return false
	})
	ws, _ := r.tell(rooms, Config{Timeout: 200 * time.Millisecond}, "")
	r.until("42", first)
	redistest.Equal(t, "requests elsewhere:", elsewhere.requests(), 0)
	r.until("42", fill(t, rooms, "42", 300))
	r.mu.Lock()
	defer r.mu.Unlock()
	most := 0
	for _, n := range r.ids {
		most = max(most, n)
	}
	if s := ws.Stats()[0]; most < 5 || r.gaps > 0 || s.Failed < 4 || s.Sent == 0 {
		t.Errorf("a message came %d times, %d gaps, %+v", most, r.gaps, s)
	}
}

// A receiver that is away hears all of it when it is back, by another node than before; others do not wait for it.
func TestWebhook_Away(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	a, b := newRooms(t, server.Client()), newRooms(t, server.Client())
	r, other := newReceiver(t), newReceiver(t)
	_, endA := r.tell(a, Config{}, "#rooms=4*")
	r.until("42", fill(t, a, "42", 10))
	away := make(chan struct{}, 1000)
	r.set(func(w http.ResponseWriter, _ *http.Request) bool {
		away <- struct{}{}
		w.WriteHeader(http.StatusServiceUnavailable)
		return false
	})
	other.tell(a, Config{}, "")
	last := fill(t, a, "42", 500)
	other.until("42", last)
	other.until("7", fill(t, a, "7", 5))
	redistest.Receive(t, away, "a request to who is away")
	endA()
	r.set(nil)
	r.tell(b, Config{}, "#rooms=4*")
	r.until("42", last)
	r.mu.Lock()
	defer r.mu.Unlock()
	if _, heard := r.last["7"]; heard || r.gaps > 0 {
		t.Errorf("it hears of room 7: %v; %d gaps", heard, r.gaps)
	}
}

// Two nodes send each commit by one of them, and who comes after them does not send it again.
func TestWebhook_OneSends(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	a, b := newRooms(t, server.Client()), newRooms(t, server.Client())
	r := newReceiver(t)
	one, endOne := r.tell(a, Config{}, "")
	two, endTwo := r.tell(b, Config{}, "")
	fill(t, a, "42", 50)
	fill(t, b, "42", 50)
	redistest.Until(t, "all are acknowledged", func() bool { return one.Stats()[0].Entries+two.Stats()[0].Entries >= 100 })
	if n, m := one.Stats()[0].Entries, two.Stats()[0].Entries; n+m > 100 || n > 0 && m > 0 {
		t.Errorf("one has sent %d, and the other %d", n, m)
	}
	endOne()
	endTwo()
	third, _ := r.tell(b, Config{}, "")
	r.until("42", fill(t, a, "42", 1))
	redistest.Until(t, "the last one is acknowledged", func() bool { return third.Stats()[0].Entries > 0 })
	redistest.Equal(t, "the third has sent", third.Stats()[0].Entries, 1)
}

// What was dropped before it was sent comes as a gap with the room's state, also when the first node that sent has
// died before it has kept a place.
func TestWebhook_Gap(t *testing.T) {
	for name, first := range map[string]func(rooms *coordinator.Coordinator) Rooms{
		"a place was kept":  func(rooms *coordinator.Coordinator) Rooms { return rooms },
		"no place was kept": func(rooms *coordinator.Coordinator) Rooms { return keepsNothing{rooms} },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			client := redistest.Start(t).Client()
			rooms := newRooms(t, client)
			r := newReceiver(t)
			_, end := r.tell(first(rooms), Config{}, "")
			r.until("42", fill(t, rooms, "42", 10))
			end()
			fill(t, rooms, "42", 20)
			redistest.Until(t, "the feed has it", func() bool {
				page, err := rooms.Feed(t.Context(), "", 1000, func(string) bool { return true })
				return err == nil && len(page.Entries) == 30
			})
			redistest.OK(t, client.XTrimMaxLen(t.Context(), "Feed:Entries", 1).Err())
			r.tell(rooms, Config{}, "")
			redistest.Until(t, "the receiver hears of a gap", func() bool {
				r.mu.Lock()
				defer r.mu.Unlock()
				return r.gaps == 1
			})
			r.until("42", fill(t, rooms, "42", 1))
			r.mu.Lock()
			defer r.mu.Unlock()
			redistest.Equal(t, "marks of the list:", r.lists, "begin end ")
		})
	}
}

// keepsNothing are the rooms of a node that dies before it keeps a place.
type keepsNothing struct{ Rooms }

func (k keepsNothing) ReadFeedAs(ctx context.Context, name string, read func(context.Context, string, func(string) error) error) error {
	return k.Rooms.ReadFeedAs(ctx, name, func(ctx context.Context, place string, _ func(string) error) error {
		return read(ctx, place, func(string) error { return nil })
	})
}

// otherClock are the rooms of a Redis whose clock is an hour ahead of this node's.
type otherClock struct{ Rooms }

func (o otherClock) Now() int64 { return o.Rooms.Now() + time.Hour.Milliseconds() }

// The time in a signature is that of Redis, which all nodes share: who is asked to believe it does not depend on
// one node.
func TestWebhook_SignsByTheClockOfAll(t *testing.T) {
	rooms := newRooms(t, redistest.Start(t).Client())
	r := newReceiver(t)
	at := make(chan string, 100)
	r.set(func(_ http.ResponseWriter, req *http.Request) bool {
		at <- req.Header.Get("webhook-timestamp")
		return true
	})
	r.tell(otherClock{rooms}, Config{}, "")
	r.until("42", fill(t, rooms, "42", 1))
	signed, err := strconv.ParseInt(<-at, 10, 64)
	redistest.OK(t, err)
	if ahead := time.Until(time.Unix(signed, 0)); ahead < 50*time.Minute {
		t.Errorf("it is signed %v ahead", ahead)
	}
}

// A message has as many entries as fit, and one at least.
func TestMessage_Bounded(t *testing.T) {
	var entries []coordinator.FeedEntry
	for i := range 20 {
		e := coordinator.FeedEntry{Next: fmt.Sprintf("1-%d", i), Room: "42"}
		e.Time, e.Version = time.UnixMilli(int64(i)), uint64(i+1)
		e.Changes = []room.Change{{Type: room.KindMessage, Detail: &room.Detail{Text: strings.Repeat("x", 50<<10)}}}
		entries = append(entries, e)
	}
	m := newMessage(entries, 100)
	if len(m.body) > maxBytes+1000 || m.entries != 5 || m.next != "1-4" || m.since != 0 || !bytes.Contains(m.body, []byte(`"timestamp":"1970-01-01T00:00:00.004Z"`)) {
		t.Errorf("%d bytes, %d entries, next %s, since %d: %.100s", len(m.body), m.entries, m.next, m.since, m.body)
	}
	entries[0].Changes[0].Detail = &room.Detail{Text: strings.Repeat("x", 2*maxBytes)}
	redistest.Equal(t, "entries beside a long one:", newMessage(entries, 100).entries, 1)
}

// Neither the URL nor the secret is in what is logged.
func TestWebhook_LogsNoSecret(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	var mu sync.Mutex
	log := slog.New(slog.NewTextHandler(writer(func(p []byte) (int, error) {
		mu.Lock()
		defer mu.Unlock()
		return out.Write(p)
	}), nil))
	rooms := newRooms(t, redistest.Start(t).Client())
	r := newReceiver(t)
	r.set(func(http.ResponseWriter, *http.Request) bool { panic(http.ErrAbortHandler) }) // a closed port may be another's soon
	ws, end := r.tell(rooms, Config{Log: log}, "/path-secret?key=hidden")
	do(t, rooms, "42", room.Join{User: "a", Session: "s"})
	redistest.Until(t, "a request fails", func() bool { return ws.Stats()[0].Failed > 0 })
	if s := ws.Stats()[0]; s.Lag <= 0 || strings.Contains(s.Receiver, "hidden") {
		t.Errorf("%+v", s)
	}
	end()
	mu.Lock()
	defer mu.Unlock()
	if text := out.String(); !strings.Contains(text, "does not take commits") || strings.Contains(text, "path-secret") || strings.Contains(text, "hidden") || strings.Contains(text, secretText) {
		t.Error(text)
	}
}

type writer func(p []byte) (int, error)

func (w writer) Write(p []byte) (int, error) { return w(p) }
