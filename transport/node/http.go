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
	// requestTimeout bounds an HTTP request with its body, and then its answer. A
	// connection that has become a WebSocket has other bounds.
	requestTimeout = 10 * time.Second

	idleTimeout = 2 * time.Minute
	maxHeader   = 16 << 10
)

// serve begins to accept connections, no more than most at a time.
func (n *Node) serve(log *slog.Logger, most int) {
	n.surplus = episode.New(log, slog.LevelWarn, "connections that are not WebSockets are closed to make room", episode.Quiet)
	n.errors = episode.New(log, slog.LevelWarn, "HTTP", episode.Quiet)
	door := &gate{TCPListener: n.listener.(*net.TCPListener), max: most, evicted: n.surplus}
	n.http = newHTTP(n.server.Handler(), n.errors)
	n.http.ConnState = door.changed
	go func() { n.failed <- n.http.Serve(door) }() // ends with Shutdown
}

// newHTTP returns a server that waits for nobody without end.
func newHTTP(handler http.Handler, log *episode.Log) *http.Server {
	return &http.Server{
		Handler:        handler,
		ReadTimeout:    requestTimeout,
		WriteTimeout:   requestTimeout,
		IdleTimeout:    idleTimeout,
		MaxHeaderBytes: maxHeader,
		ErrorLog:       stdlog.New(lines{log}, "", 0),
	}
}

// lines takes what net/http logs.
type lines struct{ log *episode.Log }

func (l lines) Write(line []byte) (int, error) {
	l.log.Happened(errors.New(strings.TrimSpace(string(line))))
	return len(line), nil
}
