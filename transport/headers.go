package transport

import "net/http"

const (
	// sealed is the Content-Security-Policy of what is no page: it loads nothing, and no page
	// shows it in a frame. A page that needs more sets its own in place of it.
	sealed = "default-src 'none'; frame-ancestors 'none'"

	// alwaysTLS makes browsers come by https for a year. It binds this host name only.
	alwaysTLS = "max-age=31536000"
)

// SecureHeaders gives every response of next the headers that keep browsers from misusing it. They
// are set before next runs, so that a page can widen its Content-Security-Policy, and let its files
// be cached. The answer that makes a WebSocket has none of them: it has no content.
func SecureHeaders(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("Content-Security-Policy", sealed)
		h.Set("Referrer-Policy", "no-referrer") // ?user= is in our URLs
		h.Set("Cache-Control", "no-store")      // what is true now, of this node
		if r.TLS != nil {
			h.Set("Strict-Transport-Security", alwaysTLS)
		}
		next.ServeHTTP(w, r)
	})
}
