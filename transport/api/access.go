package api

import (
	"net/http"
	"strings"

	"roomd/room"
	"roomd/transport/auth"
	"roomd/transport/protocol"
)

// admit returns an error unless the caller may do what the method does, in the room that the path
// names.
func (q *request) admit(m method) error {
	if err := q.identify(m.open); err != nil {
		if wait := q.api.callers.take(q.network.String()); wait > 0 { // who guesses tokens
			return tooMany(wait)
		}
		return err
	}
	if q.operator {
		return q.allow(q.room)
	}
	caller := "user " + q.token.User
	if q.token.User == "" {
		caller = q.network.String()
	}
	if wait := q.api.callers.take(caller); wait > 0 {
		return tooMany(wait)
	}
	switch {
	case m.admin && q.api.opts.Auth == nil:
		return room.Forbid("this needs an admin token, and the node has no key for tokens; without one, operators may do it at --admin-listen")
	case m.admin && q.token.Role != auth.RoleAdmin:
		return room.Forbid("this needs a token with the role admin")
	}
	return q.allow(q.room)
}

// allow returns an error unless the caller may see or change a room, as far as rooms are limited.
func (q *request) allow(id string) error {
	if id == "" || q.token.User == "" || q.token.Allows(id) {
		return nil
	}
	return room.Forbid("the token does not allow room %s", id)
}

// identify finds out who the caller is. Where there is a key, a caller needs a token, except an
// operator, whose role is known. What is open is for everybody.
func (q *request) identify(open bool) error {
	if q.api.opts.Auth == nil {
		return nil
	}
	tokens := bearers(q.Header)
	switch {
	case len(tokens) > 1:
		return unauthorized("the request has more than one token")
	case len(tokens) == 0 && (q.operator || open):
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

func bearers(h http.Header) (tokens []string) {
	for _, credentials := range h["Authorization"] {
		if scheme, token, _ := strings.Cut(credentials, " "); strings.EqualFold(scheme, "Bearer") {
			tokens = append(tokens, strings.TrimSpace(token))
		}
	}
	return tokens
}

func unauthorized(format string, args ...any) error {
	return protocol.NewError(protocol.CodeUnauthorized, format, args...)
}
