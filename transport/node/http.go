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
	"roomd/transport"
)

const (
	idleTimeout = 2 * time.Minute
	maxHeader   = 16 << 10
)

// serve accepts connections, at most max at a time. The timeout is that of newHTTP; others answers
// what is not for the API.
func (n *Node) serve(log *slog.Logger, max int, timeout time.Duration, trace *transport.Trace, others http.Handler) {
	n.evicted = episode.New(log, slog.LevelWarn, "connections that are not WebSockets are closed to make room", episode.Quiet)
	n.errors = episode.New(log, slog.LevelWarn, "HTTP", episode.Quiet)
	bounded := &listener{TCPListener: n.listener.(*net.TCPListener), max: max, evicted: n.evicted, timeout: timeout}
	if trace != nil && trace.Refused != nil {
		bounded.late = func() { trace.Refused(transport.LimitHandshake) }
	}
	n.http = newHTTP(withAPI(n.api.Public(), others), timeout, n.errors)
	n.http.ConnState = bounded.connState
	if n.tls == nil {
		go func() { n.failed <- n.http.Serve(bounded) }() // ends with Shutdown
		return
	}
	n.http.TLSConfig = n.tls
	go func() { n.failed <- n.http.ServeTLS(bounded, "", "") }()
}

// newHTTP returns a server whose every wait for a client is bounded. The timeout bounds a TLS
// handshake, an HTTP request with its body, and then the response; it does not bind a connection
// that has become a WebSocket.
func newHTTP(handler http.Handler, timeout time.Duration, log *episode.Log) *http.Server {
	http1 := new(http.Protocols)
	http1.SetHTTP1(true) // also by TLS: WebSocket needs it
	return &http.Server{
		Handler:                      handler,
		DisableGeneralOptionsHandler: true, // OPTIONS * is for the handler, too
		Protocols:                    http1,
		ReadTimeout:                  timeout,
		WriteTimeout:                 timeout,
		IdleTimeout:                  idleTimeout,
		MaxHeaderBytes:               maxHeader,
		ErrorLog:                     stdlog.New(logLines{log}, "", 0),
	}
}

// logLines turns the lines that net/http logs into an episode.
type logLines struct{ log *episode.Log }

func (l logLines) Write(line []byte) (int, error) {
	l.log.Happened(errors.New(strings.TrimSpace(string(line))))
	return len(line), nil
}
