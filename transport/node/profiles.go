package node

import (
	"io"
	"net/http"
	"net/http/pprof"
	"strconv"
	"strings"

	"roomd/lockmgr/redisconn/redisurl"
	"roomd/transport/node/internal/unguarded"
)

const adminIndex = `<!doctype html><html lang="en"><title>roomd</title><pre>
<a href="/admin">/admin</a>         the operators' page
<a href="/metrics">/metrics</a>       for Prometheus
<a href="/healthz">/healthz</a>       the process runs
<a href="/api/nodes">/api/nodes</a>     all nodes, and what their checks have found
<a href="/api/rooms">/api/rooms</a>     rooms, and authority over them: <a href="/api/openapi.yaml">/api/openapi.yaml</a>
<a href="/debug/pprof/">/debug/pprof/</a>  profiles, for go tool pprof
</pre></html>
`

// adminPages are pages for operators beside the node's own.
func adminPages() http.Handler {
	mux := http.NewServeMux()
	// Without pprof's cmdline, because arguments may contain secrets.
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

// labels returns the flags with the tag label, which explain the metrics. No value is a secret: for Redis and the key
// it is only the kind.
func (c *config) labels() map[string]string {
	labels := map[string]string{"auth": "none"}
	if source := c.source(); source != nil {
		labels["auth"] = strings.TrimPrefix(source.name, "--auth-")
	}
	flags, _ := flagsOf(&cli{Serve: *c}, nil) // cannot fail: the same flags were parsed before
	for _, flag := range flags {
		if flag.Tag.Has("label") {
			labels[strings.ReplaceAll(flag.Name, "-", "_")] = shown(flag.Target.Interface())
		}
	}
	kind, _, isURL := strings.Cut(c.Redis, "://")
	if !isURL {
		kind = redisurl.Embedded
	}
	rules := c.rooms().Rules
	labels["redis"], labels["capacity"], labels["rules"] = kind, strconv.Itoa(rules.Seats()), rules.ID()
	return labels
}

// compare enables the page's comparison with a list without a lock. Call end after the node's shutdown. It does
// nothing if other machines can connect, or players have tokens.
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
