package node

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"roomd/lockmgr/redisconn/redisurl"
	"roomd/lockmgr/redistest"
	"roomd/transport/client"
)

// patience is how long a test waits for what it expects.
const patience = 15 * time.Second

// observed is a node with an admin address.
type observed struct {
	t *testing.T
	*Node
}

// observe starts a node on a Redis, with the flags and an admin address. Hooks, if any, are added
// to its client of Redis.
func observe(t *testing.T, redisURL string, hooks []redis.Hook, flags ...string) observed {
	t.Helper()
	cfg, err := parse(t, append([]string{"--admin-listen", "127.0.0.1:0", "--redis", redisURL}, flags...)...)
	redistest.OK(t, err)
	db, err := redisurl.Open(cfg.Redis)
	redistest.OK(t, err)
	t.Cleanup(db.Close)
	parts := Config{Listen: "127.0.0.1:0", Redis: db, Room: cfg.rooms(), Serve: cfg.clients(), Log: slog.New(slog.DiscardHandler)}
	parts.Webhooks, err = cfg.webhooks(parts.Log)
	redistest.OK(t, err)
	parts.AdminListen, parts.Settings = cfg.AdminListen, cfg.labels()
	parts.OnClient = func(c redis.UniversalClient) {
		for _, h := range hooks {
			c.AddHook(h)
		}
	}
	n, err := Start(t.Context(), parts)
	redistest.OK(t, err)
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		if err := n.Shutdown(ctx); err != nil {
			t.Error(err)
		}
	})
	return observed{t, n}
}

// series are metrics with their labels, as Prometheus reads them.
type series map[string]float64

// scrape reads the metrics.
func (n observed) scrape() series {
	n.t.Helper()
	status, text := get(n.t, "http://"+n.AdminAddr()+"/metrics")
	found := make(series)
	for line := range strings.SplitSeq(text, "\n") {
		name, value, isSeries := strings.Cut(line, "} ")
		if name += "}"; !isSeries {
			name, value, _ = strings.Cut(line, " ")
		}
		if number, err := strconv.ParseFloat(value, 64); err == nil {
			found[name] = number
		}
	}
	if status != http.StatusOK || len(found) == 0 {
		n.t.Fatalf("status %d: %d series", status, len(found))
	}
	return found
}

// expect waits until the metrics are these.
func (n observed) expect(want series) {
	n.t.Helper()
	n.until(fmt.Sprint(want), func(got series) bool {
		for name, value := range want {
			if is, ok := got[name]; !ok || is != value {
				return false
			}
		}
		return true
	})
}

// until waits until the metrics are as wanted.
func (n observed) until(want string, good func(series) bool) {
	n.t.Helper()
	for start := time.Now(); ; {
		got := n.scrape()
		if good(got) {
			return
		}
		if time.Since(start) > patience {
			n.t.Fatalf("after %v there is not: %s, but %v", patience, want, got.interesting())
		}
	}
}

// interesting returns what a person would look at first.
func (s series) interesting() series {
	s = maps.Clone(s)
	maps.DeleteFunc(s, func(name string, value float64) bool {
		return value == 0 || !strings.HasPrefix(name, "roomd_") || strings.Contains(name, "_bucket")
	})
	return s
}

func (n observed) dial(user string) *client.Conn {
	n.t.Helper()
	c, err := client.Dial(n.t.Context(), n.URL(), client.Options{User: user})
	if err != nil {
		n.t.Fatal(err)
	}
	n.t.Cleanup(func() { c.Close() })
	return c
}
