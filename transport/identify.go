package transport

import (
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"

	"github.com/gorilla/websocket"

	"roomd/room"
	"roomd/transport/auth"
	"roomd/transport/protocol"
)

// identify returns who asks for a connection, and the access of the connection, which is nil if
// the server asks for no token. A user who has shown no token yet is "".
func (s *Server) identify(r *http.Request) (user string, a *access, err error) {
	named, err := userOf(r, s.opts.Auth == nil)
	if err != nil {
		return "", nil, protocol.NewError(protocol.CodeBadRequest, "%v", err)
	}
	if s.opts.Auth == nil {
		return named, nil, nil
	}
	a = &access{verifier: s.opts.Auth, named: named}
	switch tokens := tokensOf(r); len(tokens) {
	case 0:
		if r.Header.Get("Origin") == "" { // a program can forge one, but a page cannot leave it out
			return "", nil, protocol.NewError(protocol.CodeUnauthorized, "a client without an Origin, which is no browser, must send its token with the handshake: as Authorization: Bearer, or as a subprotocol")
		}
		return "", a, nil
	case 1:
		a.granted, err = a.verify(tokens[0])
		return a.granted.User, a, err
	}
	return "", nil, protocol.NewError(protocol.CodeUnauthorized, "the request has more than one token")
}

// userOf returns the user that ?user= names. If that is required, nothing else says who the client
// is; it is safe only on a server that nobody else can reach, and whoever starts one has to make
// sure of it.
func userOf(r *http.Request, required bool) (string, error) {
	query, err := url.ParseQuery(r.URL.RawQuery)
	if err != nil {
		return "", fmt.Errorf("the query cannot be read: %w", err)
	}
	switch names := query["user"]; {
	case len(names) == 0 && !required:
		return "", nil
	case len(names) != 1:
		return "", errors.New("user must be given once, as in /ws?user=NAME")
	default:
		return room.ParseUser(names[0])
	}
}

// tokensOf returns the tokens in the headers of a request.
func tokensOf(r *http.Request) (tokens []string) {
	tokens = auth.Bearers(r.Header)
	for _, offered := range websocket.Subprotocols(r) {
		if token, is := strings.CutPrefix(offered, protocol.TokenSubprotocol); is {
			tokens = append(tokens, token)
		}
	}
	return tokens
}

// refuseIdentity answers a request that does not say who the client is as it should.
func (s *Server) refuseIdentity(w http.ResponseWriter, err error) {
	e := ErrorOf(err)
	if e.Code != protocol.CodeUnauthorized {
		Refuse(w, http.StatusBadRequest, e)
		return
	}
	s.rateLimitedLogs.refused[e.Code].Happened(e)
	w.Header().Set("WWW-Authenticate", "Bearer")
	Refuse(w, http.StatusUnauthorized, e)
}
