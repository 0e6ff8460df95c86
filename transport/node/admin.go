package node

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/pprof"
	"strings"

	"roomd/room"
	"roomd/room/ratelog"
	"roomd/transport"
	"roomd/transport/api"
	"roomd/transport/auth"
	"roomd/transport/page"
)

// maxAdmins limits the connections of operators. Beyond that the listener evicts.
const maxAdmins = 16

// admin serves operators on an address of its own. On loopback everybody on this machine is an operator; elsewhere a
// request needs an admin token.
type admin struct {
	listener net.Listener
	named    string // the address as configured
	loopback bool   // only this machine can reach the address
	http     *http.Server
	verifier *auth.Verifier // nil: there are no tokens
	refused  *ratelog.Log
	evicted  *ratelog.Log
	errors   *ratelog.Log
}

// listenAdmin listens on addr, and serves nothing yet. It returns nil if addr is empty.
func listenAdmin(addr string, verifier *auth.Verifier, log *slog.Logger) (*admin, error) {
	if addr == "" {
		return nil, nil
	}
	if err := checkAdminListen(addr, verifier != nil); err != nil {
		return nil, err
	}
	l, err := net.Listen("tcp", addr)
	if err != nil {
		return nil, fmt.Errorf("--admin-listen: %w", err)
	}
	return &admin{
		listener: l, named: addr, loopback: isLoopback(l.Addr().String()), verifier: verifier,
		refused: ratelog.New(log, slog.LevelWarn, "requests to the admin address are refused", ratelog.Quiet),
		evicted: ratelog.New(log, slog.LevelWarn, "connections to the admin address are closed to make room",
			ratelog.Quiet),
		errors: ratelog.New(log, slog.LevelWarn, "HTTP of the admin address", ratelog.Quiet),
	}, nil
}

// checkAdminListen refuses an address that other machines can reach, if there are no tokens.
func checkAdminListen(addr string, tokens bool) error {
	host, _, err := net.SplitHostPort(addr)
	switch {
	case err != nil:
		return &room.InvalidError{Field: "AdminListen", Problem: "is not host:port: " + err.Error()}
	case tokens || isLoopback(host):
		return nil
	}
	return &room.InvalidError{Field: "AdminListen",
		Problem: addr + " can be reached from other machines, where an admin token is needed: give a key for tokens (--auth-secret-file), or listen on 127.0.0.1"}
}

// AdminAddr returns the host:port for operators, or "" if there is none.
func (n *Node) AdminAddr() string {
	if n.admin == nil {
		return ""
	}
	return n.admin.listener.Addr().String()
}

// serve starts answering. /healthz is for everybody, the page's files for everybody who could have a token, and the
// rest for operators.
func (a *admin) serve(others, metrics http.Handler, rooms *api.API) {
	mux := http.NewServeMux()
	files := a.protectBy(a.checkReader, page.Admin(), refuseText)
	mux.Handle("GET /admin", files)
	mux.Handle("GET /admin/", files)
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("ok\n")) })
	mux.Handle("GET /metrics", a.protect(metrics, refuseText))
	if others == nil {
		others = http.NotFoundHandler()
	}
	mux.Handle("/", a.protect(others, refuseText))
	bounded := &listener{TCPListener: a.listener.(*net.TCPListener), max: maxAdmins, evicted: a.evicted}
	a.http = newHTTP(withAPI(a.protect(rooms.Operators(), rooms.Refuse), transport.SecureHeaders(mux)),
		transport.DefaultHandshakeTimeout, a.errors)
	a.http.RegisterOnShutdown(rooms.EndWatches)
	a.http.ConnState = bounded.connState
	go func() { _ = a.http.Serve(bounded) }() // ends with shutdown
}

// shutdown waits for the running requests until ctx ends, then cuts them off.
func (a *admin) shutdown(ctx context.Context) {
	if a == nil {
		return
	}
	if a.http == nil {
		_ = a.listener.Close()
	} else if a.http.Shutdown(ctx) != nil {
		_ = a.http.Close()
	}
	a.refused.Close()
	a.evicted.Close()
	a.errors.Close()
}

func refuseText(w http.ResponseWriter, _ *http.Request, status int, why error) {
	if status == http.StatusUnauthorized {
		w.Header().Set("WWW-Authenticate", "Bearer")
	}
	http.Error(w, why.Error(), status)
}

// protect passes requests of operators to next, and others to refuse.
func (a *admin) protect(next http.Handler, refuse func(w http.ResponseWriter, r *http.Request, status int,
	why error)) http.Handler {
	return a.protectBy(a.check, next, refuse)
}

func (a *admin) protectBy(check func(r *http.Request) (status int, why error), next http.Handler,
	refuse func(w http.ResponseWriter, r *http.Request, status int, why error)) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		status, why := check(r)
		if why == nil {
			next.ServeHTTP(w, r)
			return
		}
		a.refused.Happened(why)
		refuse(w, r, status, why)
	})
}

var (
	errForeignPage = errors.New("pages of other sites may not look at this")
	errForeignHost = errors.New("ask for this by the address or localhost, or with an admin token")
	errNoToken     = errors.New("an admin token is needed, as Authorization: Bearer TOKEN")
	errNoAdmin     = errors.New("the token's role is not admin")
)

// check returns why a request is refused. With a token it may use any host name, because no other site's page knows
// the token. Without one it must come from this machine to a loopback address, and not by a name: a page could have
// pointed its own name here (DNS rebinding). A proxy's request is refused too, because the proxy's client may be
// anybody.
func (a *admin) check(r *http.Request) (status int, why error) {
	if site := r.Header.Get("Sec-Fetch-Site"); site == "cross-site" || site == "same-site" || !isOfOwnPage(r) {
		return http.StatusForbidden, errForeignPage
	}
	if r.Header.Get("Authorization") != "" && a.verifier != nil {
		tokens := auth.Bearers(r.Header)
		if len(tokens) != 1 {
			return http.StatusUnauthorized, errNoToken
		}
		switch who, err := a.verifier.Verify(tokens[0]); {
		case err != nil:
			return http.StatusUnauthorized, err
		case who.Role != auth.RoleAdmin:
			return http.StatusForbidden, errNoAdmin
		}
		return 0, nil
	}
	local := a.loopback && isLocal(r)
	switch {
	case !local && a.verifier == nil:
		return http.StatusForbidden, errForeignHost
	case !local:
		return http.StatusUnauthorized, errNoToken
	case !isOwnHost(r.Host, a.named):
		return http.StatusForbidden, errForeignHost
	}
	return 0, nil
}

// checkReader is check for files without secrets. A browser that opens a page cannot send a token; the page asks its
// user for one. Without tokens, check decides.
func (a *admin) checkReader(r *http.Request) (status int, why error) {
	status, why = a.check(r)
	if errors.Is(why, errNoToken) {
		return 0, nil
	}
	return status, why
}

// isOfOwnPage reports whether a request comes from no page, or from one of the same host and port.
func isOfOwnPage(r *http.Request) bool {
	origin := r.Header.Get("Origin")
	return origin == "" || origin == "http://"+r.Host || origin == "https://"+r.Host
}

// isLocal reports whether a request comes from this machine, and not through a proxy on it.
func isLocal(r *http.Request) bool {
	for header := range r.Header {
		switch header {
		case "Forwarded", "X-Real-Ip", "Via", "Cf-Connecting-Ip", "True-Client-Ip":
			return false
		}
		if strings.HasPrefix(header, "X-Forwarded-") {
			return false
		}
	}
	to, _ := r.Context().Value(http.LocalAddrContextKey).(net.Addr)
	return to != nil && isLoopback(to.String()) && isLoopback(r.RemoteAddr)
}

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
