package api

import (
	"net/http"

	"roomd/room"
	"roomd/transport/auth"
	"roomd/transport/protocol"
)

// admit returns an error unless the caller may run op in the path's room.
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
		return room.Forbid("this needs an admin token, and the node has no key for tokens; without one, operators may do it at --admin-listen")
	case op.admin && q.token.Role != auth.RoleAdmin:
		return room.Forbid("this needs a token with the role admin")
	}
	return q.allow(q.room, op)
}

// allow returns an error unless the token allows op in a room: changes, and reads for admins, need authority over it.
// [readRoom] itself checks members.
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

// identify sets the caller's identity. With a key, callers need a token; operators are admins without one.
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

// options answers a browser's preflight request for a page.
func (q *request) options(at methods) *answer {
	q.header.Set("Allow", at.allow())
	if q.Header.Get("Origin") != "" && q.Header.Get("Access-Control-Request-Method") != "" && !q.operator {
		q.header.Set("Access-Control-Allow-Methods", at.allow())
		q.header.Set("Access-Control-Allow-Headers", "Authorization, Content-Type, If-Match, If-None-Match")
		q.header.Set("Access-Control-Max-Age", corsAge)
	}
	return &answer{status: http.StatusNoContent}
}
