package node

import (
	"bytes"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"roomd/lockmgr/redistest"
	"roomd/transport/protocol"
)

// backend is a receiver of webhooks. It fails the test where versions of a room are missing.
type backend struct {
	t      *testing.T
	server *httptest.Server

	mu   sync.Mutex
	next map[string]uint64 // guarded by mu: by room and epoch, the version that comes next
	took int               // guarded by mu: requests
	gaps int               // guarded by mu
}

func newBackend(t *testing.T) *backend {
	b := &backend{t: t, next: make(map[string]uint64)}
	b.server = httptest.NewServer(b)
	t.Cleanup(b.server.Close)
	return b
}

func (b *backend) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var m struct {
		Data struct {
			Entries []struct {
				Room, Epoch string
				Version     uint64
				Gap         *struct{}
			}
		}
	}
	if err := json.NewDecoder(r.Body).Decode(&m); err != nil {
		return // of a node that has died
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.took++
	for _, e := range m.Data.Entries {
		id := e.Room + " " + e.Epoch
		switch next := max(b.next[id], 1); {
		case e.Gap != nil:
			b.gaps++
		case e.Version > next:
			b.t.Errorf("room %s: version %d comes, and %d has not", e.Room, e.Version, next)
			b.next[id] = e.Version + 1
		case e.Version == next:
			b.next[id] = next + 1
		}
	}
}

// has reports whether all versions have come up to one.
func (b *backend) has(id, epoch string, version uint64) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.next[id+" "+epoch] > version
}

func (b *backend) requests() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.took
}

// flags are the flags of a node that tells the backend.
func (b *backend) flags() []string {
	secret := filepath.Join(b.t.TempDir(), "webhook-secret")
	redistest.OK(b.t, os.WriteFile(secret, []byte("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw\n"), 0o600))
	return []string{"--journal", "10000", "--feed", "100000", "--webhook", b.server.URL + "/hidden?key=hidden", "--webhook-secret-file", secret}
}

// Nodes are killed one after the other while they tell a backend: it hears every commit all the same, in order.
func TestWebhooks_NodesKilled(t *testing.T) {
	redistest.Thorough(t)
	t.Parallel()
	b := newBackend(t)
	nodes := launch(t, 3, redistest.Start(t).URL(), append(b.flags(), "--node-ttl", "3s", "--rate", "off")...)
	for turn, node := range nodes {
		var players sync.WaitGroup
		stop := make(chan struct{})
		for i := range 4 {
			id := fmt.Sprint("table-", i)
			c := node.player(fmt.Sprint("p", turn, "-", i), nil)
			join(t, c, id)
			players.Go(func() {
				for ready := true; ; ready = !ready {
					select {
					case <-stop:
						return
					default:
					}
					if _, err := c.Do(t.Context(), protocol.Request{Action: protocol.ActionReady, Room: id, Value: ready}); err != nil {
						return // the node has died
					}
				}
			})
		}
		before := b.requests()
		redistest.Until(t, "the backend hears what goes on", func() bool { return b.requests() > before+20 })
		if turn < 2 {
			node.stop(os.Kill)
		}
		close(stop)
		players.Wait()
	}
	c := nodes[2].player("last", nil)
	for i := range 4 {
		id := fmt.Sprint("table-", i)
		now := join(t, c, id)
		redistest.Until(t, "the backend has all of "+id, func() bool { return b.has(id, now.Epoch, now.Version) })
	}
	if b.gaps > 0 {
		t.Errorf("%d gaps", b.gaps)
	}
}

// The log shows where commits are sent, and nothing that may be secret.
func TestWebhooks_Flags(t *testing.T) {
	t.Parallel()
	b := newBackend(t)
	cfg, err := parse(t, b.flags()...)
	redistest.OK(t, err)
	parts, err := nodeConfig(cfg, slog.New(slog.DiscardHandler))
	redistest.OK(t, err)
	parts.Redis.Close()
	if to := parts.Webhooks.Receivers; len(to) != 1 || !strings.HasSuffix(to[0].URL, "/hidden?key=hidden") {
		t.Errorf("%+v", to)
	}
	var log bytes.Buffer
	written, _ := newLog(cfg, &log)
	if err = logSettings(written, cfg, ""); err != nil || !strings.Contains(log.String(), "--webhook="+b.server.URL) || strings.Contains(log.String(), "hidden") {
		t.Errorf("%v\n%s", err, &log)
	}
	for want, args := range map[string][]string{
		"--feed":                {"--webhook", "https://game.example", "--webhook-secret-file", "x"},
		"--journal":             {"--feed", "10"},
		"--webhook-secret-file": {"--webhook", "https://game.example", "--feed", "10", "--journal", "10"},
		"twice":                 {"--webhook", "https://game.example", "--webhook", "https://game.example#kinds=join", "--webhook-secret-file", "x", "--feed", "10", "--journal", "10"},
	} {
		if _, err := parse(t, args...); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v: %v", args, err)
		}
	}
	if _, err := parse(t, "--webhook", "https://u:hidden@game.example"); err == nil || strings.Contains(err.Error(), "hidden") {
		t.Error(err)
	}
}
