package node

import (
	"errors"
	stdlog "log"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"time"

	"roomd/room/episode"
)

const (
	// requestTimeout bounds an HTTP request with its body, and then the response. It does
	// not bind a connection that has become a WebSocket.
	requestTimeout = 10 * time.Second

	idleTimeout = 2 * time.Minute
	maxHeader   = 16 << 10
)

// serve accepts connections, at most max at a time.
func (n *Node) serve(log *slog.Logger, max int) {
	n.evicted = episode.New(log, slog.LevelWarn, "connections that are not WebSockets are closed to make room", episode.Quiet)
	n.errors = episode.New(log, slog.LevelWarn, "HTTP", episode.Quiet)
	bounded := &listener{TCPListener: n.listener.(*net.TCPListener), max: max, evicted: n.evicted}
	n.http = newHTTP(n.server.Handler(), n.errors)
	n.http.ConnState = bounded.connState
	go func() { n.failed <- n.http.Serve(bounded) }() // ends with Shutdown
}

// newHTTP returns a server whose every wait for a client is bounded.
func newHTTP(handler http.Handler, log *episode.Log) *http.Server {
	return &http.Server{
		Handler:        handler,
		ReadTimeout:    requestTimeout,
		WriteTimeout:   requestTimeout,
		IdleTimeout:    idleTimeout,
		MaxHeaderBytes: maxHeader,
		ErrorLog:       stdlog.New(logLines{log}, "", 0),
	}
}

// logLines turns the lines that net/http logs into an episode.
type logLines struct{ log *episode.Log }

func (l logLines) Write(line []byte) (int, error) {
	l.log.Happened(errors.New(strings.TrimSpace(string(line))))
	return len(line), nil
}
