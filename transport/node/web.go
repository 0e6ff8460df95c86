package node

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	stdlog "log"
	"net"
	"net/http"
	"strings"
	"time"

	"roomd/room/ratelog"
	"roomd/transport"
	"roomd/transport/api"
	"roomd/transport/page"
	"roomd/transport/protocol"
)

const (
	idleTimeout = 2 * time.Minute
	maxHeader   = 16 << 10
)

// site is an address with the HTTP server that answers there.
type site struct {
	*listener
	secure *tls.Config  // nil for plain HTTP
	http   *http.Server // nil before serve
}

// openSite listens at an address, which a flag names, and answers nothing yet.
func openSite(flag, addr string) (*site, error) {
	l, err := net.Listen("tcp", addr)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", flag, err)
	}
	return &site{listener: &listener{TCPListener: l.(*net.TCPListener)}}, nil
}

// start answers requests until shutdown, which also ends the API's watches. An error that stops it goes to failed.
func (s *site) start(handler http.Handler, complaints *ratelog.Log, rooms *api.API, failed chan<- error) {
	s.http = newHTTP(handler, s.timeout, complaints)
	s.http.RegisterOnShutdown(rooms.EndWatches)
	s.http.ConnState, s.http.ConnContext, s.http.TLSConfig = s.connState, s.connContext, s.secure
	go func() { // ends with shutdown
		if s.secure != nil {
			failed <- s.http.ServeTLS(s, "", "")
		} else {
			failed <- s.http.Serve(s)
		}
	}()
}

// shutdown waits for the running requests until ctx ends, then cuts them off.
func (s *site) shutdown(ctx context.Context) {
	switch {
	case s == nil:
	case s.http == nil:
		_ = s.Close()
	case s.http.Shutdown(ctx) != nil:
		_ = s.http.Close()
	}
}

// serve starts answering game clients, and operators if they have an address.
func (n *Node) serve(cfg *Config) {
	trace := cfg.Serve.Trace
	n.public.secure, n.public.max = cfg.TLS, n.most.total
	n.public.evicted = n.logs.Warn("connections that are not WebSockets are closed to make room")
	n.public.timeout = cmp.Or(cfg.Serve.HandshakeTimeout, transport.DefaultHandshakeTimeout)
	if trace != nil && trace.Refused != nil {
		n.public.late = func() { trace.Refused(transport.LimitHandshake) }
	}
	all := withAPI(n.api.Public(), n.withPage(cfg))
	if cfg.Serve.Auth == nil && isLoopback(n.Addr()) {
		all = n.byOwnName(all, cfg.Listen)
	}
	n.public.start(ofClient(all, n.server.NetworkOf), n.logs.Warn("HTTP"), n.api, n.failed)
	if n.admin == nil {
		return
	}
	n.admin.max, n.admin.timeout = maxAdmins, transport.DefaultHandshakeTimeout
	n.admin.evicted = n.logs.Warn("connections to the admin address are closed to make room")
	guard := &guard{verifier: cfg.Serve.Auth, named: cfg.AdminListen, loopback: isLoopback(n.AdminAddr()),
		refused: n.logs.Warn("requests to the admin address are refused")}
	n.admin.start(guard.pages(cfg.Admin, n.metrics.Handler(), n.api), n.logs.Warn("HTTP of the admin address"), n.api,
		make(chan error, 1))
}

// newHTTP returns a server that limits every wait for a client. timeout limits a TLS handshake, a request with its
// body, and then the response; it does not apply to WebSockets.
func newHTTP(handler http.Handler, timeout time.Duration, log *ratelog.Log) *http.Server {
	http1 := new(http.Protocols)
	http1.SetHTTP1(true) // also over TLS, because WebSocket needs it
	return &http.Server{
		Handler:                      handler,
		DisableGeneralOptionsHandler: true, // OPTIONS * goes to the handler, too
		Protocols:                    http1,
		ReadTimeout:                  timeout,
		WriteTimeout:                 timeout,
		IdleTimeout:                  idleTimeout,
		MaxHeaderBytes:               maxHeader,
		ErrorLog:                     stdlog.New(httpLog{log}, "", 0),
	}
}

type httpLog struct{ log *ratelog.Log }

func (l httpLog) Write(line []byte) (int, error) {
	l.log.Happened(errors.New(strings.TrimSpace(string(line))))
	return len(line), nil
}

var errForeignName = errors.New("ask for this node by its address or localhost: it has no key for tokens, " +
	"and answers no page by another name, unless --allow-origin names that")

// byOwnName protects a node on loopback without tokens from pages of other sites. Such a page can point its own name
// here (DNS rebinding), and its requests then have the same origin. Probes of supervisors and balancers are for
// everybody.
func (n *Node) byOwnName(next http.Handler, listen string) http.Handler {
	refuse := transport.SecureHeaders(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		transport.Refuse(w, http.StatusForbidden, protocol.NewError(protocol.CodeForbidden, "%v", errForeignName))
	}))
	names := n.logs.Warn("requests by a name that is not this node's are refused")
	answer := withAPI(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		n.api.Refuse(w, r, http.StatusForbidden, errForeignName)
	}), refuse)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		probe := r.URL.Path == "/healthz" || r.URL.Path == "/readyz"
		if probe || isOwnHost(r.Host, listen) || n.server.AllowsHost(r.Host) {
			next.ServeHTTP(w, r)
			return
		}
		names.Happened(errForeignName)
		answer.ServeHTTP(w, r)
	})
}

// isOwnHost reports whether a request's Host is a loopback address or name, or the host that the server listens on.
func isOwnHost(host, listen string) bool {
	named := hostOf(listen)
	return isLoopback(host) || named != "" && strings.EqualFold(hostOf(host), named)
}

func hostOf(addr string) string {
	if host, _, err := net.SplitHostPort(addr); err == nil {
		return host
	}
	return strings.Trim(addr, "[]")
}

// isLoopback reports whether an address, with or without a port, is a loopback name or IP. It is false for the Host
// that most proxies send, and for another site's name that leads here (DNS rebinding).
func isLoopback(addr string) bool {
	host := hostOf(addr)
	ip := net.ParseIP(host)
	return strings.EqualFold(host, "localhost") || ip != nil && ip.IsLoopback()
}

// apiOptions returns the options of the HTTP API: the server's tokens and limits. A request ends before the HTTP
// server would cut it off.
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

// withAPI sends /api and the paths below it to the API. An unclean path gets the API's problem document, not a
// redirection.
func withAPI(api, others http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/api" || strings.HasPrefix(r.URL.Path, "/api/") {
			api.ServeHTTP(w, r)
			return
		}
		others.ServeHTTP(w, r)
	})
}

// withPage serves the page, the page's list without a lock, and the server's own paths.
func (n *Node) withPage(c *Config) http.Handler {
	others := n.server.Handler()
	options := page.Options{Auth: c.Serve.Auth != nil, Stampede: c.Unguarded != nil, Version: c.Version}
	if options.Auth {
		options.Version = "" // visitors without a token need not know the version
	}
	files := page.New(options)
	own := http.NewServeMux()
	own.Handle("/", files)
	own.Handle("/roomd.js", n.shared(files))
	own.Handle("/roomd.d.ts", n.shared(files))
	if c.Unguarded != nil {
		own.Handle("/unguarded", c.Unguarded)
	}
	secured := transport.SecureHeaders(own)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		upgrade := r.Header.Get("Upgrade") != "" // a misdirected game client gets the right path from the server
		if !upgrade && files.Serves(r.URL.Path) || r.URL.Path == "/unguarded" && c.Unguarded != nil {
			secured.ServeHTTP(w, r)
			return
		}
		others.ServeHTTP(w, r)
	})
}

// shared lets pages of allowed origins read an answer, as importing a module requires.
func (n *Node) shared(files http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Vary", "Origin")
		if origin := r.Header.Get("Origin"); origin != "" && n.server.AllowsOrigin(r) {
			w.Header().Set("Access-Control-Allow-Origin", origin)
		}
		files.ServeHTTP(w, r)
	})
}
