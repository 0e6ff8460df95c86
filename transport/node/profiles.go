package node

import (
	"io"
	"net/http"
	"net/http/pprof"
	"strconv"
	"strings"

	"roomd/transport/node/internal/unguarded"
)

// adminIndex says what is on the admin address.
const adminIndex = `<!doctype html><html lang="en"><title>roomd</title><pre>
<a href="/admin">/admin</a>         the operators' page
<a href="/metrics">/metrics</a>       for Prometheus
<a href="/healthz">/healthz</a>       the process runs
<a href="/api/nodes">/api/nodes</a>     all nodes, and what their checks have found
<a href="/api/rooms">/api/rooms</a>     rooms, and authority over them: <a href="/api/openapi.yaml">/api/openapi.yaml</a>
<a href="/debug/pprof/">/debug/pprof/</a>  profiles, for go tool pprof
</pre></html>
`

// adminPages are what operators see besides what a node has for them.
func adminPages() http.Handler {
	mux := http.NewServeMux()
	// Without pprof's cmdline: arguments can hold secrets.
	mux.HandleFunc("GET /debug/pprof/", pprof.Index)
	mux.HandleFunc("GET /debug/pprof/profile", pprof.Profile)
	mux.HandleFunc("GET /debug/pprof/symbol", pprof.Symbol)
	mux.HandleFunc("GET /debug/pprof/trace", pprof.Trace)
	mux.HandleFunc("GET /{$}", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		_, _ = io.WriteString(w, adminIndex)
	})
	return mux
}

// labels are the flags that explain what the metrics show. No value is a secret: of Redis and
// of the key there is only the kind.
func (c *config) labels() map[string]string {
	key := "none"
	if source, err := c.source(); err == nil && source != nil {
		key = strings.TrimPrefix(source.name, "--auth-")
	}
	kind, _, isURL := strings.Cut(c.Redis, "://")
	if !isURL {
		kind = "embedded"
	}
	rules := c.rooms().Rules
	return map[string]string{
		"redis": kind, "key_prefix": c.KeyPrefix, "replicas": strconv.Itoa(c.Replicas), "auth": key,
		"lock_ttl": c.LockTTL.String(), "lock_poll": c.LockPoll.String(), "lock_wait": c.LockWait.String(),
		"max_batch": strconv.Itoa(c.MaxBatch), "capacity": strconv.Itoa(rules.Seats()), "duplicate": c.Duplicate, "rules": rules.ID(), "journal": strconv.Itoa(c.Journal), "feed": strconv.Itoa(c.Feed),
		"grace": c.Grace.String(), "ping_interval": c.PingInterval.String(), "node_ttl": c.NodeTTL.String(),
		"max_connections": strconv.Itoa(c.MaxConnections), "max_queue": strconv.Itoa(int(c.MaxQueue)),
		"max_frame": strconv.Itoa(int(c.MaxFrame)), "max_rooms": strconv.Itoa(c.MaxRooms), "max_new_rooms": c.MaxNewRooms.String(), "max_per_address": c.MaxPerAddress.String(),
		"max_member_data": strconv.Itoa(int(c.MaxMemberData)), "max_private_data": strconv.Itoa(int(c.MaxPrivateData)), "max_room_data": strconv.Itoa(int(c.MaxRoomData)), "max_message": strconv.Itoa(int(c.MaxMessage)),
		"rate": c.Rate.String(), "burst": strconv.Itoa(c.Burst),
	}
}

// compare lets the page of a node show what happens without a lock, and returns what ends that
// after the node. Where other machines can come, or players have tokens, there is no such thing.
func (c *config) compare(n *Config) (end func()) {
	if n.Serve.Auth != nil || !isLoopback(c.Listen) {
		return func() {}
	}
	client := n.Redis.NewClient()
	lists := unguarded.New(client, c.KeyPrefix, isLoopback)
	n.Unguarded = lists
	return func() {
		lists.Close()
		_ = client.Close()
	}
}
