package node

import (
	"cmp"
	"net/http"
	"strings"

	"roomd/transport"
	"roomd/transport/api"
)

// apiOptions returns what the HTTP API takes from the options of the server: who may ask, and how
// often. A request ends before the HTTP server would cut it off.
func (c *Config) apiOptions() api.Options {
	opts := api.Options{
		Auth: c.Serve.Auth, Rate: c.Serve.Rate, Burst: c.Serve.Burst, Log: c.Log,
		Timeout: cmp.Or(c.Serve.HandshakeTimeout, transport.DefaultHandshakeTimeout) * 4 / 5,
	}
	if c.Serve.Trace != nil {
		opts.Refused = c.Serve.Trace.Refused
	}
	return opts
}

// withAPI serves /api, and what is below it, by the API. It does not clean paths as an http.ServeMux does:
// ".." is a room's id.
func withAPI(api, others http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/api" || strings.HasPrefix(r.URL.Path, "/api/") {
			api.ServeHTTP(w, r)
			return
		}
		others.ServeHTTP(w, r)
	})
}
