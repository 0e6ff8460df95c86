package api

import (
	"context"
	"errors"
	"net/http"
	"net/netip"
	"regexp"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json"

	"roomd/room"
	"roomd/transport"
	"roomd/transport/auth"
	"roomd/transport/protocol"
)

// request is one HTTP request, with its caller.
type request struct {
	*http.Request
	api      *API
	operator bool // it came to the operators' address
	network  netip.Prefix
	header   http.Header // of the answer

	room  string        // in the path
	token auth.Identity // zero without a token; an operator without one is an admin

	expect room.Expect // by If-Match
}

func (a *API) serve(at methods, operators bool, running *gate) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		q := &request{Request: r, api: a, operator: operators, network: a.server.NetworkOf(r), header: w.Header()}
		answer, err := q.answer(at, running, w)
		if err != nil {
			answer = q.problem(err)
		}
		answer.write(w)
		if answer.stream != nil {
			answer.stream(r.Context(), w)
		}
	})
}

// answer runs a request, unless the caller may not run it, or too many run already.
func (q *request) answer(at methods, running *gate, w http.ResponseWriter) (*answer, error) {
	if err := q.admitOrigin(); err != nil {
		return nil, err
	}
	leave, refusal := running.enter(q.network)
	if refusal != nil {
		return nil, refusal
	}
	defer leave()
	if at != nil && q.Method == http.MethodOptions {
		return q.options(at), nil
	}
	if q.room = q.PathValue("room"); q.room != "" {
		if err := room.CheckID(q.room); err != nil {
			return nil, err
		}
	}
	op, err := at.find(q)
	if err != nil {
		return nil, err
	}
	if err := q.admit(op); err != nil {
		return nil, err
	}
	if q.expect, err = q.condition(op); err != nil {
		return nil, err
	}
	q.Body = http.MaxBytesReader(w, q.Body, maxBody)
	ctx, cancel := context.WithTimeoutCause(q.Context(), q.api.opts.Timeout,
		room.Refuse(room.ErrBusy, "it took longer than %v; nothing was written", q.api.opts.Timeout))
	defer cancel()
	q.Request = q.WithContext(ctx)
	answer, err := op.run(q)
	return answer, ended(err)
}

// ended turns the bare error of a context into ErrBusy, because it means that nothing was written.
func ended(err error) error {
	bare := errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled)
	if bare && transport.ErrorOf(err).Code == protocol.CodeInternal {
		return room.Refuse(room.ErrBusy, "the request ended before it was its turn; nothing was written")
	}
	return err
}

// answer is the response to a request.
type answer struct {
	status  int
	kind    string // Content-Type; empty means JSON
	version string // ETag; empty for none
	cache   string // Cache-Control; empty means no-store
	body    any    // []byte unchanged, anything else as JSON, nil for none

	stream func(ctx context.Context, w http.ResponseWriter) // writes the rest; nil if there is none
}

// ok answers with a body, and the version of the room in it.
func ok(body any) (*answer, error) {
	a := &answer{status: http.StatusOK, body: body}
	if room, is := body.(interface{ etag() string }); is {
		a.version = room.etag()
	}
	return a, nil
}

func (a *answer) write(w http.ResponseWriter) {
	body, encoded := a.body.([]byte)
	if !encoded && a.body != nil {
		body, _ = json.Marshal(a.body, json.Deterministic(true)) // our own types, of valid UTF-8
		body = append(body, '\n')
	}
	if a.body != nil && a.kind == "" {
		a.kind = "application/json"
	}
	for name, value := range map[string]string{"Content-Type": a.kind, "ETag": a.version, "Cache-Control": a.cache} {
		if value != "" {
			w.Header().Set(name, value)
		}
	}
	w.WriteHeader(a.status)
	_, _ = w.Write(body)
}

// matchable is the form of If-Match: an ETag in quotes, or a version, in quotes or without.
var matchable = regexp.MustCompile(`^(?:"(?:([a-z0-9]+)\.)?(0|[1-9][0-9]*)"|(0|[1-9][0-9]*))$`)

// condition returns the version that If-Match expects. It refuses a change with any other condition, because the caller
// relies on it.
func (q *request) condition(op *operation) (expected room.Expect, err error) {
	if op.method == http.MethodGet {
		return expected, nil // a read depends on no condition
	}
	for _, name := range []string{"If-Match", "If-None-Match", "If-Unmodified-Since"} {
		if len(q.Header[name]) > 0 && !(op.match && name == "If-Match") {
			return expected, badField(name, "does not count for this request; If-Match does for PUT and deal")
		}
	}
	lines := q.Header["If-Match"]
	if len(lines) == 0 {
		return expected, nil
	}
	if found := matchable.FindStringSubmatch(strings.Trim(lines[0], " \t")); found != nil && len(lines) == 1 {
		if version, err := strconv.ParseUint(found[2]+found[3], 10, 63); err == nil {
			return room.ExpectVersion(found[1], version), nil
		}
	}
	return expected, badField("If-Match",
		`must be an ETag of the room, such as "k3v….18", or only its version, such as 18`)
}

// ifNoneMatch reports whether the caller already has the room at version, an ETag.
func (q *request) ifNoneMatch(version string) bool {
	for _, line := range q.Header["If-None-Match"] {
		for tag := range strings.SplitSeq(line, ",") { // no epoch has a comma
			if tag = strings.Trim(tag, " \t"); tag == "*" || strings.TrimPrefix(tag, "W/") == version {
				return true
			}
		}
	}
	return false
}
