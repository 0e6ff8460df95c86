package api

import (
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"strconv"
	"time"

	"roomd/room"
	"roomd/room/ratelog"
	"roomd/transport"
	"roomd/transport/auth"
	"roomd/transport/protocol"
)

// Codes that only HTTP has.
const (
	codeNotFound = "not_found"          // there is nothing at that path, or no such room
	codeMethod   = "method_not_allowed" // the path has other methods
	codeType     = "unsupported_type"   // the body has the wrong Content-Type, or is encoded
)

// problemType and a code form the type of a problem (RFC 9457).
const problemType = "urn:roomd:problem:"

// problem is the body of a refusal.
type problem struct {
	Type   string `json:"type" pattern:"^urn:roomd:problem:[a-z_]+$" doc:"Ends with the code."`
	Title  string `json:"title"`
	Status int    `json:"status" minimum:"400" maximum:"599"`
	Detail string `json:"detail" maxLength:"512" doc:"For people."`
	Code   string `json:"code"`
	Field  string `json:"field,omitzero" doc:"Which field or parameter cannot be used."`
	Retry  bool   `json:"retry" doc:"The same request may succeed soon."`

	// The current state, in the answer to an If-Match that is not met.
	Room    string  `json:"room,omitzero" pattern:"^[A-Za-z0-9._-]{1,64}$"`
	Epoch   string  `json:"epoch,omitzero"`
	Version uint64  `json:"version,omitzero" minimum:"0"`
	Data    rawJSON `json:"data,omitzero" doc:"The room's data now; where a member's private data were to be replaced, these."`
}

// kinds are the statuses and titles of the codes.
var kinds = map[string]struct {
	status int
	title  string
}{
	protocol.CodeBadRequest:    {http.StatusBadRequest, "The request cannot be used"},
	protocol.CodeUnauthorized:  {http.StatusUnauthorized, "A valid token is needed"},
	protocol.CodeForbidden:     {http.StatusForbidden, "Not allowed"},
	protocol.CodeRoomFull:      {http.StatusConflict, "The room is full"},
	protocol.CodeBanned:        {http.StatusConflict, "The user is banned from the room"},
	protocol.CodeClosed:        {http.StatusConflict, "The room is closed"},
	protocol.CodeSeatTaken:     {http.StatusConflict, "The seat is taken"},
	protocol.CodeDuplicateUser: {http.StatusConflict, "Another session of the user is in the room"},
	protocol.CodeNotMember:     {http.StatusConflict, "Not a member"},
	protocol.CodeConflict:      {http.StatusPreconditionFailed, "The room has changed"},
	protocol.CodeRateLimited:   {http.StatusTooManyRequests, "Too many requests"},
	protocol.CodeTooLarge:      {http.StatusRequestEntityTooLarge, "The body is too large"},
	protocol.CodeBusy:          {http.StatusServiceUnavailable, "The room is busy"},
	protocol.CodeUnavailable:   {http.StatusServiceUnavailable, "Not available"},
	protocol.CodeUnknown:       {http.StatusGatewayTimeout, "The outcome is unknown"},
	protocol.CodeInternal:      {http.StatusInternalServerError, "The server failed"},
	codeNotFound:               {http.StatusNotFound, "Not found"},
	codeMethod:                 {http.StatusMethodNotAllowed, "Method not allowed"},
	codeType:                   {http.StatusUnsupportedMediaType, "Unsupported content type"},
}

func fail(code, format string, args ...any) error { return protocol.NewError(code, format, args...) }

func notFound(format string, args ...any) error { return fail(codeNotFound, format, args...) }

// badField returns an error that names an unusable part of a request.
func badField(field, format string, args ...any) error {
	return &room.InvalidError{Field: field, Problem: fmt.Sprintf(format, args...)}
}

// conflictError says that If-Match is not met, and has the current state.
type conflictError struct {
	error
	now  room.Snapshot
	data string // JSON, "" for none
}

func (e *conflictError) Unwrap() error { return e.error }

// problem returns the answer to a request that failed with err, and logs outages and limits.
func (q *request) problem(err error) *answer {
	e := transport.ErrorOf(err)
	kind, known := kinds[e.Code]
	if !known {
		kind = kinds[protocol.CodeInternal]
	}
	p := problem{Type: problemType + e.Code, Title: kind.title, Status: kind.status, Detail: e.Message, Code: e.Code,
		Retry: e.Retry}
	// Operators are told the key and the remedy; others could do nothing about it.
	if refused, ok := errors.AsType[*room.RefusedError](err); ok && errors.Is(refused, room.ErrForeign) &&
		q.token.Role == auth.RoleAdmin {
		p.Detail = protocol.NewError(e.Code, "%v", refused).Message
	}
	if invalid, ok := errors.AsType[*room.InvalidError](err); ok {
		p.Field = invalid.Field
	}
	if conflict, ok := errors.AsType[*conflictError](err); ok {
		p.Room, p.Epoch, p.Version = q.room, conflict.now.Epoch, conflict.now.Version
		p.Data = jsonOf(conflict.data)
	}
	if trouble := q.api.troubles.byCode[e.Code]; trouble != nil {
		trouble.Happened(err, "method", q.Method, "room", q.room)
	}
	q.setRetry(kind.status, err)
	if kind.status == http.StatusUnauthorized {
		q.header.Set("WWW-Authenticate", "Bearer")
	}
	return &answer{status: kind.status, kind: "application/problem+json", body: p}
}

// Refuse answers a request to the operators' address that was refused before the API. The answer's status is 401 if
// status is 401, otherwise 403.
func (a *API) Refuse(w http.ResponseWriter, r *http.Request, status int, why error) {
	code := protocol.CodeForbidden
	if status == http.StatusUnauthorized {
		code = protocol.CodeUnauthorized
	}
	q := &request{Request: r, api: a, header: w.Header()}
	transport.SecureHeaders(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		q.problem(fail(code, "%v", why)).write(w)
	})).ServeHTTP(w, r)
}

// retryAfter is the pause that a refused caller is asked for.
const retryAfter = 5 * time.Second

// setRetry tells the caller of a 429 or 503 when to try again. It calls Options.Refused if err is a limit's.
func (q *request) setRetry(status int, err error) {
	if status != http.StatusTooManyRequests && status != http.StatusServiceUnavailable {
		return
	}
	wait := retryAfter
	if limit, ok := errors.AsType[*limitError](err); ok {
		q.api.opts.Refused(limit.limit)
		if limit.wait > 0 {
			wait = limit.wait
		}
	}
	q.header.Set("Retry-After", strconv.Itoa(int((wait+time.Second-1)/time.Second)))
}

// troubles are rate-limited logs, because an outage of Redis, or a caller, can cause any number of messages.
type troubles struct {
	logs    *ratelog.Set
	byCode  map[string]*ratelog.Log
	origins *ratelog.Log
}

func newTroubles(log *slog.Logger) *troubles {
	set := ratelog.NewSet(log, ratelog.Quiet)
	byCode := transport.RefusalLogs(set)
	byCode[protocol.CodeRateLimited] = transport.RateLog(set)
	return &troubles{logs: set, byCode: byCode, origins: transport.OriginLog(set)}
}
