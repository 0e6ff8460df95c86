package node

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"roomd/lockmgr/redisconn/redisurl"
	"roomd/lockmgr/redistest"
	"roomd/room"
	"roomd/room/coordinator"
	"roomd/transport"
	"roomd/transport/client"
	"roomd/transport/protocol"
	"roomd/transport/webhook"
)

// names returns the names of the metrics in a registry.
func names(t *testing.T, from prometheus.Gatherer) map[string]bool {
	t.Helper()
	all, err := from.Gather()
	redistest.OK(t, err)
	found := make(map[string]bool)
	for _, family := range all {
		found[family.GetName()] = true
	}
	return found
}

// A program that embeds a node has all that operators of roomd have, but for profiles, and its own traces.
func TestAdminListen_OfAProgram(t *testing.T) {
	var done, connected atomic.Int64
	n := start(t, Config{
		Redis: open(t, redisurl.Embedded), AdminListen: "127.0.0.1:0",
		Room:  coordinator.Options{Trace: &coordinator.Trace{Done: func(room.Kind, error, time.Duration) { done.Add(1) }}, Grace: 7 * time.Second},
		Serve: transport.Options{Trace: &transport.Trace{Connected: func() { connected.Add(1) }}},
	})
	c, err := client.Dial(t.Context(), n.URL(), client.Options{User: "a"})
	redistest.OK(t, err)
	defer c.Close()
	_, err = c.Do(t.Context(), protocol.Request{Action: protocol.ActionJoin, Room: "42"})
	redistest.OK(t, err)
	for path, want := range map[string]string{
		"/admin":     "<title>roomd: operators",
		"/metrics":   `roomd_actions_total{kind="join",result="ok"} 1`,
		"/api/nodes": `"grace":"7s"`, // without Config.Settings
		"/healthz":   "ok",
	} {
		redistest.Until(t, path+" has "+want, func() bool {
			status, body := get(t, "http://"+n.AdminAddr()+path)
			return status == http.StatusOK && strings.Contains(body, want)
		})
	}
	for _, path := range []string{"/", "/debug/pprof/"} {
		if status, _ := get(t, "http://"+n.AdminAddr()+path); status != http.StatusNotFound {
			t.Errorf("%s: %d", path, status)
		}
	}
	if done.Load() == 0 || connected.Load() != 1 {
		t.Errorf("the program's own traces were told of %d actions and %d connections", done.Load(), connected.Load())
	}
}

// A registry of the program has a node's metrics until the node has ended. A second node there needs labels of its own.
func TestRegisterer(t *testing.T) {
	own := prometheus.NewRegistry()
	labelled := func(node string) prometheus.Registerer {
		return prometheus.WrapRegistererWith(prometheus.Labels{"node": node}, own)
	}
	cfg := Config{Listen: "127.0.0.1:0", Redis: open(t, redisurl.Embedded), Registerer: labelled("1")}
	first, err := Start(t.Context(), cfg)
	redistest.OK(t, err)
	_, err = Start(t.Context(), cfg)
	var invalid *room.InvalidError
	if !errors.As(err, &invalid) || invalid.Field != "Registerer" || !strings.Contains(invalid.Problem, "WrapRegistererWith") {
		t.Errorf("another node in the same registry: %v", err)
	}
	if found := names(t, own); !found["roomd_members"] || !found["roomd_actions_total"] || found["go_goroutines"] {
		t.Errorf("the registry has %v", found)
	}
	beside := cfg
	beside.Registerer = labelled("2")
	second, err := Start(t.Context(), beside)
	redistest.OK(t, err)
	_ = second.Shutdown(context.Background())
	if found := names(t, own); !found["roomd_members"] {
		t.Error("the second node took the metrics of the first with it")
	}
	_ = first.Shutdown(context.Background())
	if found := names(t, own); len(found) > 0 {
		t.Errorf("after the end the registry has %v", found)
	}
	third, err := Start(t.Context(), cfg) // as after a restart of the node in the program
	redistest.OK(t, err)
	_ = first.Shutdown(context.Background())
	if found := names(t, own); !found["roomd_members"] {
		t.Error("a second end of the first node took the metrics of the third")
	}
	_ = third.Shutdown(context.Background())
	if _, err := Start(t.Context(), Config{Listen: first.Addr(), Redis: cfg.Redis, Registerer: own, Settings: map[string]string{"": "x"}}); !errors.Is(err, room.ErrInvalid) {
		t.Errorf("settings that cannot be labels: %v", err)
	}
}

// A node that nobody can look at counts nothing.
func TestNothingIsCountedForNobody(t *testing.T) {
	n := start(t, Config{Redis: open(t, redisurl.Embedded)})
	if n.metrics != nil {
		t.Error("it counts")
	}
}

// Operators hear from all nodes which receiver of commits is behind, and nothing of it that may be secret.
func TestWebhooks_Behind(t *testing.T) {
	receiver := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusServiceUnavailable) }))
	defer receiver.Close()
	to, err := webhook.ParseReceiver(receiver.URL + "/hidden")
	redistest.OK(t, err)
	file := filepath.Join(t.TempDir(), "secret")
	redistest.OK(t, os.WriteFile(file, []byte("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw\n"), 0o600))
	secrets, err := webhook.SecretFile(file, slog.New(slog.DiscardHandler))
	redistest.OK(t, err)
	n := start(t, Config{
		Redis: open(t, redisurl.Embedded), AdminListen: "127.0.0.1:0",
		Room: coordinator.Options{Journal: 10, Feed: 100}, Webhooks: webhook.Config{Receivers: []webhook.Receiver{to}, Secrets: secrets},
	})
	c, err := client.Dial(t.Context(), n.URL(), client.Options{User: "a"})
	redistest.OK(t, err)
	defer c.Close()
	_, err = c.Do(t.Context(), protocol.Request{Action: protocol.ActionJoin, Room: "42"})
	redistest.OK(t, err)
	behind := regexp.MustCompile(`"webhooks":\[\{"receiver":"` + regexp.QuoteMeta(receiver.URL) + `","lag_ms":[1-9]`)
	redistest.Until(t, "the receiver is behind", func() bool {
		_, body := get(t, "http://"+n.AdminAddr()+"/api/nodes")
		if strings.Contains(body, "hidden") {
			t.Fatal(body)
		}
		return behind.MatchString(body)
	})
}
