package node

import (
	"context"
	"errors"
	"log/slog"
	"net"
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

	"roomd/lockmgr"
	"roomd/lockmgr/redisconn/redisurl"
	"roomd/lockmgr/redistest"
	"roomd/room"
	"roomd/room/coordinator"
	"roomd/transport"
	"roomd/transport/webhook"
)

func open(t *testing.T, url string) *redisurl.DB {
	t.Helper()
	db, err := redisurl.Open(url)
	redistest.OK(t, err)
	t.Cleanup(db.Close)
	return db
}

// unsaved returns a Redis that cannot save, and so refuses to write.
func unsaved(t *testing.T) *redistest.Server {
	t.Helper()
	folder := filepath.Join(t.TempDir(), "gone")
	redistest.OK(t, os.Mkdir(folder, 0o700))
	server := redistest.Start(t, "--save", "3600 1000000", "--dir", folder)
	redistest.OK(t, os.Remove(folder))
	client := server.Client()
	_ = client.BgSave(t.Context()) // may fail at once, or a moment later
	redistest.Until(t, "writes are refused", func() bool { return client.Ping(t.Context()).Err() != nil })
	return server
}

func TestStartRefuses(t *testing.T) {
	db := open(t, redisurl.Embedded)
	running, err := Start(t.Context(), Config{Listen: "127.0.0.1:0", Redis: db})
	redistest.OK(t, err)
	defer running.Shutdown(context.Background())
	for names, cfg := range map[string]Config{
		"other machines":                        {Listen: "0.0.0.0:0", Redis: db},
		"other  machines":                       {Listen: ":0", Redis: db},
		"host:port":                             {Listen: "127.0.0.1", Redis: db},
		"Redis is nil":                          {Listen: "127.0.0.1:0"},
		"127.0.0.1:1":                           {Listen: "127.0.0.1:0", Redis: open(t, "redis://127.0.0.1:1")},
		"--listen: listen tcp":                  {Listen: running.Addr(), Redis: db},
		"--admin-listen: listen":                {Listen: "127.0.0.1:0", AdminListen: running.Addr(), Redis: db},
		"answers, and refuses what a node asks": {Listen: "127.0.0.1:0", Redis: open(t, unsaved(t).URL())},
		"does not accept the user or the password": {Listen: "127.0.0.1:0", Redis: open(t,
			strings.Replace(redistest.Start(t, "--requirepass", "secret").URL(), "redis://", "redis://:wrong@", 1))},
		"Seating": {Listen: "127.0.0.1:0", Redis: db,
			Room: coordinator.Options{Rules: room.Rules{Seating: room.Capacity(-1)}}},
		"MaxConnections": {Listen: "127.0.0.1:0", Redis: db,
			Serve: transport.Options{MaxConnections: -1}},
	} {
		n, err := Start(t.Context(), cfg)
		if err == nil {
			_ = n.Shutdown(context.Background())
		}
		if want := strings.ReplaceAll(names, "  ", " "); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", names, err)
		}
	}
	insecure, err := Start(t.Context(), Config{Listen: "0.0.0.0:0", Insecure: true, Redis: db})
	redistest.OK(t, err)
	_ = insecure.Shutdown(t.Context())
}

// A node that listens everywhere is known by the name of its machine.
func TestKnownAs(t *testing.T) {
	host, err := os.Hostname()
	if err != nil {
		t.Skip(err)
	}
	for addr, want := range map[string]string{"127.0.0.1:8080": "127.0.0.1:8080", "[::]:8080": host + ":8080",
		"0.0.0.0:80": host + ":80", "[::1]:80": "[::1]:80"} {
		tcp, err := net.ResolveTCPAddr("tcp", addr)
		redistest.OK(t, err)
		if got := knownAs(tcp); got != want {
			t.Errorf("%s is known as %s, want %s", addr, got, want)
		}
	}
}

// Validate finds in each part what Start would find, without Redis.
func TestValidate(t *testing.T) {
	db := open(t, "redis://127.0.0.1:1")
	good := Config{Listen: "127.0.0.1:0", Redis: db}
	redistest.OK(t, good.Validate())
	for name, cfg := range map[string]Config{
		"listen":  {Listen: "0.0.0.0:0", Redis: db},
		"lock":    {Listen: "127.0.0.1:0", Redis: db, Room: coordinator.Options{LockTTL: time.Microsecond}},
		"room":    {Listen: "127.0.0.1:0", Redis: db, Room: coordinator.Options{Replicas: -1}},
		"clients": {Listen: "127.0.0.1:0", Redis: db, Serve: transport.Options{MaxQueue: -1}},
	} {
		if err := cfg.Validate(); !errors.Is(err, room.ErrInvalid) && !errors.Is(err, lockmgr.ErrInvalid) {
			t.Errorf("%s: %v", name, err)
		}
	}
	redistest.ErrorIf(t, (Config{Listen: redisurl.Embedded}).Validate() == nil, "no Redis, and no error")
}

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
		Room: coordinator.Options{Trace: &coordinator.Trace{Done: func(room.Kind, error,
			time.Duration) {
			done.Add(1)
		}}, Grace: 7 * time.Second},
		Serve: transport.Options{Trace: &transport.Trace{Connected: func() { connected.Add(1) }}},
	})
	c := dial(t, n.URL(), "a")
	join(t, c, "42")
	for path, want := range map[string]string{
		"/admin":     "<title>roomd: operators",
		"/metrics":   `roomd_actions_total{kind="join",result="ok"} 1`,
		"/metrics?":  "roomd_connections_total 1",
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
	redistest.ErrorIf(t, done.Load() == 0 || connected.Load() != 1,
		"the program's own traces were told of %d actions and %d connections", done.Load(), connected.Load())
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
	redistest.ErrorIf(t, !errors.As(err, &invalid) || invalid.Field != "Registerer" ||
		!strings.Contains(invalid.Problem, "WrapRegistererWith"),
		"another node in the same registry: %v", err)
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
	if _, err := Start(t.Context(), Config{Listen: first.Addr(), Redis: cfg.Redis, Registerer: own,
		Settings: map[string]string{"": "x"}}); !errors.Is(err, room.ErrInvalid) {
		t.Errorf("settings that cannot be labels: %v", err)
	}
}

// A node that nobody can look at counts nothing.
func TestNothingIsCountedForNobody(t *testing.T) {
	n := start(t, Config{Redis: open(t, redisurl.Embedded)})
	redistest.ErrorIf(t, n.metrics != nil, "it counts")
}

// Operators hear from all nodes which receiver of commits is behind, and nothing of it that may be secret.
func TestWebhooks_Behind(t *testing.T) {
	receiver := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter,
		_ *http.Request) {
		w.WriteHeader(http.StatusServiceUnavailable)
	}))
	defer receiver.Close()
	to, err := webhook.ParseReceiver(receiver.URL + "/hidden")
	redistest.OK(t, err)
	file := filepath.Join(t.TempDir(), "secret")
	redistest.OK(t, os.WriteFile(file, []byte("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw\n"), 0o600))
	secrets, err := webhook.SecretFile(file, slog.New(slog.DiscardHandler))
	redistest.OK(t, err)
	n := start(t, Config{
		Redis: open(t, redisurl.Embedded), AdminListen: "127.0.0.1:0",
		Room:     coordinator.Options{Journal: 10, Feed: 100},
		Webhooks: webhook.Config{Receivers: []webhook.Receiver{to}, Secrets: secrets},
	})
	c := dial(t, n.URL(), "a")
	join(t, c, "42")
	behind := regexp.MustCompile(`"webhooks":\[\{"receiver":"` + regexp.QuoteMeta(receiver.URL) + `","lag_ms":[1-9]`)
	redistest.Until(t, "the receiver is behind", func() bool {
		_, body := get(t, "http://"+n.AdminAddr()+"/api/nodes")
		if strings.Contains(body, "hidden") {
			t.Fatal(body)
		}
		return behind.MatchString(body)
	})
}
