package api

import (
	"net/http"
	"net/netip"
	"sync"
	"time"

	"golang.org/x/time/rate"

	"roomd/room"
	"roomd/transport"
	"roomd/transport/auth"
	"roomd/transport/protocol"
)

// admit identifies and counts the caller. It returns an error unless the caller may run op in the path's room now.
func (q *request) admit(op *operation) error {
	if err := q.identify(op.open); err != nil {
		if wait := q.api.callers.take(q.network.String()); wait > 0 { // slows down guessing
			return tooMany(wait)
		}
		return err
	}
	if q.operator {
		return q.allow(q.room, op)
	}
	caller := "user " + q.token.User
	if q.token.User == "" {
		caller = q.network.String()
	}
	if wait := q.api.callers.take(caller); wait > 0 {
		return tooMany(wait)
	}
	switch {
	case op.admin && q.api.opts.Auth == nil:
		return room.Forbid("this needs an admin token, and the node has no key for tokens; without one, operators " +
			"may do it at --admin-listen")
	case op.admin && q.token.Role != auth.RoleAdmin:
		return room.Forbid("this needs a token with the role admin")
	}
	return q.allow(q.room, op)
}

// allow returns an error unless the token allows op in a room, if there is one. A read that is not only for admins
// needs the right to watch the room, anything else the right to enter it. [readRoom] checks this itself.
func (q *request) allow(id string, op *operation) error {
	switch {
	case id == "", op.id == "readRoom":
		return nil
	case op.method == http.MethodGet && !op.admin:
		return q.token.May(auth.Watch, id, false)
	}
	return q.token.May(auth.Enter, id, false)
}

// lists reports whether the lobby shows a room to the caller: the token must allow to enter or to watch it.
func (q *request) lists(id string) bool {
	return q.token.May(auth.Enter, id, false) == nil || q.token.May(auth.Watch, id, false) == nil
}

// identify sets the caller's identity. On a node with a key, only operators and open operations need no token. An
// operator's token must be an admin's.
func (q *request) identify(open bool) error {
	if q.operator {
		q.token.Role = auth.RoleAdmin
	}
	if q.api.opts.Auth == nil || open {
		return nil
	}
	tokens := auth.Bearers(q.Header)
	switch {
	case len(tokens) > 1:
		return unauthorized("the request has more than one token")
	case len(tokens) == 0 && q.operator:
		return nil
	case len(tokens) == 0:
		return unauthorized("a token is needed, as Authorization: Bearer TOKEN")
	}
	identity, err := q.api.opts.Auth.Verify(tokens[0])
	if err != nil {
		return unauthorized("%v", err)
	}
	if q.token = identity; q.operator && identity.Role != auth.RoleAdmin {
		return room.Forbid("this needs a token with the role admin")
	}
	return nil
}

func unauthorized(format string, args ...any) error {
	return protocol.NewError(protocol.CodeUnauthorized, format, args...)
}

// corsAge is how long a browser may remember which requests a page of another origin may send, in seconds.
const corsAge = "600"

// admitOrigin refuses pages of other sites, and lets pages of allowed origins read the answer. A page has the rights
// of its token: no cookie identifies the caller.
func (q *request) admitOrigin() error {
	if q.operator {
		return nil // the operators' address has its own checks
	}
	q.header.Set("Vary", "Authorization, Origin")
	if !q.api.server.AllowsOrigin(q.Request) {
		err := fail(protocol.CodeForbidden, "pages of the origin %.200q may not ask this; --allow-origin allows it",
			q.Header.Get("Origin"))
		q.api.troubles.origins.Happened(err)
		return err
	}
	if origin := q.Header.Get("Origin"); origin != "" {
		q.header.Set("Access-Control-Allow-Origin", origin)
		q.header.Set("Access-Control-Expose-Headers", "ETag, Retry-After, WWW-Authenticate")
	}
	return nil
}

// options answers OPTIONS, such as a browser's preflight request for a page.
func (q *request) options(at methods) *answer {
	q.header.Set("Allow", at.allow())
	if q.Header.Get("Origin") != "" && q.Header.Get("Access-Control-Request-Method") != "" && !q.operator {
		q.header.Set("Access-Control-Allow-Methods", at.allow())
		q.header.Set("Access-Control-Allow-Headers", "Authorization, Content-Type, If-Match, If-None-Match")
		q.header.Set("Access-Control-Max-Age", corsAge)
	}
	return &answer{status: http.StatusNoContent}
}

// gate bounds how many requests run at once, in all and per address.
type gate struct {
	total, each int

	mu      sync.Mutex
	running int                  // guarded by mu
	of      map[netip.Prefix]int // guarded by mu: running requests, by address
}

func newGate(total, each int) *gate {
	return &gate{total: total, each: each, of: make(map[netip.Prefix]int)}
}

type limitError struct {
	error
	limit string        // a Limit constant of package transport
	wait  time.Duration // until the next try; zero if unknown
}

func (e *limitError) Unwrap() error { return e.error }

// enter counts a request until leave is called, or returns why it may not run.
func (g *gate) enter(from netip.Prefix) (leave func(), refusal error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	var full *protocol.Error
	switch {
	case g.of[from] >= g.each:
		full = protocol.NewError(protocol.CodeRateLimited, "%d requests from your address run already, the limit",
			g.each)
	case g.running >= g.total:
		full = protocol.NewError(protocol.CodeUnavailable, "%d requests run already, the limit of this node", g.total)
	}
	if full != nil {
		return nil, &limitError{error: full, limit: transport.LimitAPI}
	}
	g.running++
	g.of[from]++
	return func() {
		g.mu.Lock()
		defer g.mu.Unlock()
		g.running--
		if g.of[from]--; g.of[from] == 0 {
			delete(g.of, from)
		}
	}, nil
}

// callers bound the rate of each caller's requests.
type callers struct {
	rate  rate.Limit
	burst int

	mu     sync.Mutex
	byName map[string]*rate.Limiter // guarded by mu: callers whose requests still count
	sweep  int                      // guarded by mu: the number of callers at which idle ones are removed
}

// minSweep is how many callers are kept before idle ones are removed.
const minSweep = 1024

func newCallers(perSecond, burst int) *callers {
	limit := rate.Limit(perSecond)
	if perSecond < 0 {
		limit = rate.Inf
	}
	return &callers{rate: limit, burst: burst, byName: make(map[string]*rate.Limiter), sweep: minSweep}
}

// take counts a request, and returns 0. If there were too many, it counts none, and returns how long to wait.
func (c *callers) take(name string) (wait time.Duration) {
	if c.rate == rate.Inf {
		return 0
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	limiter := c.byName[name]
	if limiter == nil {
		c.forgetLocked()
		limiter = rate.NewLimiter(c.rate, c.burst)
		c.byName[name] = limiter
	}
	reserved := limiter.Reserve()
	if wait = reserved.Delay(); wait > 0 {
		reserved.Cancel()
	}
	return wait
}

// forgetLocked removes callers whose requests no longer count, if the number of callers has doubled since last time.
func (c *callers) forgetLocked() {
	if len(c.byName) < c.sweep {
		return
	}
	for name, limiter := range c.byName {
		if limiter.Tokens() >= float64(c.burst) {
			delete(c.byName, name)
		}
	}
	c.sweep = max(minSweep, 2*len(c.byName))
}

func tooMany(wait time.Duration) error {
	wait = (wait + time.Millisecond - 1).Truncate(time.Millisecond)
	return &limitError{
		limit: transport.LimitAPIRate, wait: wait,
		error: protocol.NewError(protocol.CodeRateLimited, "too many requests; wait %v", wait),
	}
}
