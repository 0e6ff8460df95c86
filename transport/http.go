package transport

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"strings"
	"time"

	"roomd/transport/protocol"
)

// readyTimeout bounds the question of /readyz to Redis.
const readyTimeout = 2 * time.Second

// Handler returns the HTTP side: GET /ws, /healthz and /readyz.
func (s *Server) Handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("/ws", only(s.accept, http.MethodGet))
	mux.HandleFunc("/healthz", only(func(w http.ResponseWriter, _ *http.Request) { writeText(w, "ok") }, http.MethodGet, http.MethodHead))
	mux.HandleFunc("/readyz", only(s.ready, http.MethodGet, http.MethodHead))
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		refuse(w, http.StatusNotFound, protocol.NewError(protocol.CodeBadRequest, "game clients connect to /ws; there is nothing at %s", r.URL.Path))
	})
	return SecureHeaders(mux)
}

// ready says whether new clients should be sent to this node.
func (s *Server) ready(w http.ResponseWriter, r *http.Request) {
	ctx, cancel := context.WithTimeout(r.Context(), readyTimeout)
	defer cancel()
	switch err := s.Ready(ctx); {
	case errors.Is(err, errDraining):
		refuse(w, http.StatusServiceUnavailable, errDraining)
		return
	case err != nil:
		s.troubles.notReady.Happened(err)
		refuse(w, http.StatusServiceUnavailable, protocol.NewError(protocol.CodeUnavailable, "Redis does not answer"))
		return
	}
	writeText(w, "ok")
}

// only refuses requests with other methods.
func only(handle http.HandlerFunc, methods ...string) http.HandlerFunc {
	allow := strings.Join(methods, ", ")
	return func(w http.ResponseWriter, r *http.Request) {
		if slices.Contains(methods, r.Method) {
			handle(w, r)
			return
		}
		w.Header().Set("Allow", allow)
		refuse(w, http.StatusMethodNotAllowed, protocol.NewError(protocol.CodeBadRequest, "%s allows %s, not %s", r.URL.Path, allow, r.Method))
	}
}

func writeText(w http.ResponseWriter, text string) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	_, _ = w.Write([]byte(text + "\n"))
}
