package node

import (
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/pprof"
	"strings"

	"roomd/room/ratelog"
	"roomd/transport"
	"roomd/transport/api"
	"roomd/transport/auth"
	"roomd/transport/page"
)

// maxAdmins limits the connections of operators. Beyond that the listener evicts.
const maxAdmins = 16

// guard decides who may use the address of --admin-listen. On loopback everybody on this machine may; elsewhere a
// request needs an admin token.
type guard struct {
	named    string         // the address as configured
	loopback bool           // only this machine can reach the address
	verifier *auth.Verifier // nil: there are no tokens
	refused  *ratelog.Log
}

// AdminAddr returns the host:port for operators, or "" if there is none.
func (n *Node) AdminAddr() string {
	if n.admin == nil {
		return ""
	}
	return n.admin.Addr().String()
}

// pages returns the handler of the operators' address. /healthz is for everybody, the page's files are for callers
// that checkReader admits, and the rest is for operators. others, which may be nil, serves further paths.
func (g *guard) pages(others, metrics http.Handler, rooms *api.API) http.Handler {
	mux := http.NewServeMux()
	files := protect(g.checkReader, g.refused, page.Admin(), refuseText)
	mux.Handle("GET /admin", files)
	mux.Handle("GET /admin/", files)
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("ok\n")) })
	mux.Handle("GET /metrics", protect(g.check, g.refused, metrics, refuseText))
	if others == nil {
		others = http.NotFoundHandler()
	}
	mux.Handle("/", protect(g.check, g.refused, others, refuseText))
	return withAPI(protect(g.check, g.refused, rooms.Operators(), rooms.Refuse), transport.SecureHeaders(mux))
}

func refuseText(w http.ResponseWriter, _ *http.Request, status int, why error) {
	if status == http.StatusUnauthorized {
		w.Header().Set("WWW-Authenticate", "Bearer")
	}
	http.Error(w, why.Error(), status)
}

// protect passes requests that check admits to next, and others to refuse.
func protect(check func(r *http.Request) (status int, why error), refused *ratelog.Log, next http.Handler,
	refuse func(w http.ResponseWriter, r *http.Request, status int, why error)) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		status, why := check(r)
		if why == nil {
			next.ServeHTTP(w, r)
			return
		}
		refused.Happened(why)
		refuse(w, r, status, why)
	})
}

var (
	errForeignPage = errors.New("pages of other sites may not look at this")
	errForeignHost = errors.New("ask for this by the address or localhost, or with an admin token")
	errNoToken     = errors.New("an admin token is needed, as Authorization: Bearer TOKEN")
	errNoAdmin     = errors.New("the token's role is not admin")
)

// check returns the HTTP status and the reason of a refusal; why is nil if the request is admitted. With a token a
// request may use any host name, because no other site's page knows the token. Without one it must come from this
// machine to a loopback address, and not by a name: a page could have pointed its own name here (DNS rebinding). It
// must not come from a proxy, because the proxy's client may be anybody.
func (g *guard) check(r *http.Request) (status int, why error) {
	if site := r.Header.Get("Sec-Fetch-Site"); site == "cross-site" || site == "same-site" || !isOfOwnPage(r) {
		return http.StatusForbidden, errForeignPage
	}
	if r.Header.Get("Authorization") != "" && g.verifier != nil {
		tokens := auth.Bearers(r.Header)
		if len(tokens) != 1 {
			return http.StatusUnauthorized, errNoToken
		}
		switch who, err := g.verifier.Verify(tokens[0]); {
		case err != nil:
			return http.StatusUnauthorized, err
		case who.Role != auth.RoleAdmin:
			return http.StatusForbidden, errNoAdmin
		}
		return 0, nil
	}
	local := g.loopback && isLocal(r)
	switch {
	case !local && g.verifier == nil:
		return http.StatusForbidden, errForeignHost
	case !local:
		return http.StatusUnauthorized, errNoToken
	case !isOwnHost(r.Host, g.named):
		return http.StatusForbidden, errForeignHost
	}
	return 0, nil
}

// checkReader is check, but admits a request that only lacks a token: it is for files without secrets. A browser that
// opens a page cannot send a token; the page asks its user for one.
func (g *guard) checkReader(r *http.Request) (status int, why error) {
	status, why = g.check(r)
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
