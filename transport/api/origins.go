package api

import (
	"net/http"

	"roomd/transport/protocol"
)

// corsAge is how long a browser need not ask again what a page of another origin may send, in
// seconds.
const corsAge = "600"

// admitOrigin keeps pages of other sites out, and lets pages of allowed origins read the answer. No
// cookie says who the caller is, so a page can do no more than whoever has its token.
func (q *request) admitOrigin() error {
	if q.operator {
		return nil // it has checks of its own
	}
	q.header.Set("Vary", "Authorization, Origin")
	if !q.api.server.AllowsOrigin(q.Request) {
		err := fail(protocol.CodeForbidden, "pages of the origin %.200q may not ask this; --allow-origin allows it", q.Header.Get("Origin"))
		q.api.troubles.origins.Happened(err)
		return err
	}
	if origin := q.Header.Get("Origin"); origin != "" {
		q.header.Set("Access-Control-Allow-Origin", origin)
		q.header.Set("Access-Control-Expose-Headers", "ETag, Retry-After, WWW-Authenticate")
	}
	return nil
}

// options answers what a browser asks before it sends the request of a page.
func (q *request) options() *answer {
	q.header.Set("Allow", q.route.allow())
	if q.Header.Get("Origin") != "" && q.Header.Get("Access-Control-Request-Method") != "" && !q.operator {
		q.header.Set("Access-Control-Allow-Methods", q.route.allow())
		q.header.Set("Access-Control-Allow-Headers", "Authorization, Content-Type, If-Match, If-None-Match")
		q.header.Set("Access-Control-Max-Age", corsAge)
	}
	return &answer{status: http.StatusNoContent}
}
