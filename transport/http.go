package transport

import (
	"context"
	"embed"
	"errors"
	"net/http"
	"slices"
	"strings"
	"time"

	"roomd/lockmgr/redisconn"
	"roomd/room/coordinator"
	"roomd/transport/internal/session"
	"roomd/transport/protocol"
)

// readyTimeout bounds the ping of Redis for /readyz.
const readyTimeout = 2 * time.Second

// Handler returns the HTTP side: GET /ws, /healthz and /readyz.
func (s *Server) Handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("/ws", only(s.accept, http.MethodGet))
	healthy := func(w http.ResponseWriter, _ *http.Request) { writeText(w, "ok") }
	mux.HandleFunc("/healthz", only(healthy, http.MethodGet, http.MethodHead))
	mux.HandleFunc("/readyz", only(s.ready, http.MethodGet, http.MethodHead))
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		Refuse(w, http.StatusNotFound, protocol.NewError(protocol.CodeBadRequest,
			"game clients connect to /ws; there is nothing at %s", r.URL.Path))
	})
	return SecureHeaders(mux)
}

// ready answers /readyz with 200 if new clients should come to this node, and otherwise with 503.
func (s *Server) ready(w http.ResponseWriter, r *http.Request) {
	ctx, cancel := context.WithTimeout(r.Context(), readyTimeout)
	defer cancel()
	switch err := s.Ready(ctx); {
	case errors.Is(err, errDraining):
		Refuse(w, http.StatusServiceUnavailable, errDraining)
		return
	case err != nil:
		s.rateLimitedLogs.notReady.Happened(err)
		Refuse(w, http.StatusServiceUnavailable, protocol.NewError(protocol.CodeUnavailable, "%s", whyNotReady(err)))
		return
	}
	writeText(w, "ok")
}

// whyNotReady explains err without quoting Redis' own text.
func whyNotReady(err error) string {
	switch {
	case errors.Is(err, coordinator.ErrReplicas):
		return "Redis has fewer replicas than a change waits for (--replicas): each would end as unknown"
	case redisconn.Answered(err):
		return "Redis answers, and refuses what this node asks; its log has the reason"
	}
	return "Redis does not answer"
}

// only passes requests with one of methods to handle, and refuses others.
func only(handle http.HandlerFunc, methods ...string) http.HandlerFunc {
	allow := strings.Join(methods, ", ")
	return func(w http.ResponseWriter, r *http.Request) {
		if slices.Contains(methods, r.Method) {
			handle(w, r)
			return
		}
		w.Header().Set("Allow", allow)
		Refuse(w, http.StatusMethodNotAllowed, protocol.NewError(protocol.CodeBadRequest,
			"%s allows %s, not %s", r.URL.Path, allow, r.Method))
	}
}

func writeText(w http.ResponseWriter, text string) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	_, _ = w.Write([]byte(text + "\n"))
}

const (
	// sealed is the Content-Security-Policy unless a page sets its own: answers load nothing, no page frames them.
	sealed = "default-src 'none'; frame-ancestors 'none'"

	// alwaysTLS makes browsers use https for a year, for this host name only.
	alwaysTLS = "max-age=31536000"
)

// SecureHeaders gives every response of next the headers that keep browsers from misusing it. It sets them before
// next runs, so that a page can widen its Content-Security-Policy and let its files be cached. A WebSocket's
// handshake has none of them: it has no content.
func SecureHeaders(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("Content-Security-Policy", sealed)
		h.Set("Referrer-Policy", "no-referrer") // our URLs contain ?user=
		h.Set("Cache-Control", "no-store")      // answers describe this node, now
		if r.TLS != nil {
			h.Set("Strict-Transport-Security", alwaysTLS)
		}
		next.ServeHTTP(w, r)
	})
}

// ErrorOf turns err into an error of the protocol, unless it is one. Errors unknown to package room get CodeInternal.
func ErrorOf(err error) *protocol.Error { return session.ErrorOf(err) }

// retryAfter is the pause asked of refused clients, in seconds: it spreads a crowd, and is shorter than the grace.
const retryAfter = "5"

// Refuse answers an HTTP request with an error. A status of 429 or 503 gets Retry-After, unless w has it already.
func Refuse(w http.ResponseWriter, status int, e *protocol.Error) {
	busy := status == http.StatusTooManyRequests || status == http.StatusServiceUnavailable
	if busy && w.Header().Get("Retry-After") == "" {
		w.Header().Set("Retry-After", retryAfter)
	}
	w.Header().Set("Content-Type", "application/json; charset=utf-8")
	w.WriteHeader(status)
	_, _ = w.Write(append(protocol.AppendReply(nil, &protocol.Reply{Error: e}), '\n'))
}

// Documents are PROTOCOL.md with its pages, and asyncapi.yaml: enough to write a client in any language.
//
//go:embed PROTOCOL.md protocol/v1/*.md asyncapi.yaml
var Documents embed.FS
