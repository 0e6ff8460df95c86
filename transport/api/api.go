package api

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/netip"
	"time"

	"roomd/room"
	"roomd/room/coordinator"
	"roomd/transport"
	"roomd/transport/auth"
)

// Rooms is what an API needs of a *coordinator.Coordinator.
type Rooms interface {
	Do(ctx context.Context, id string, a room.Action) (room.Result, error)
	Lobby(ctx context.Context) (*coordinator.Lobby, error)
	Journal(ctx context.Context, id, after string, limit int) ([]coordinator.JournalEntry, error)

	Node() string
	Nodes(ctx context.Context) ([]coordinator.NodeInfo, error)
	Drain(ctx context.Context, node string) error
}

// Server is what an API needs of a *transport.Server.
type Server interface {
	Read(ctx context.Context, id string) (room.Snapshot, error)
	AllowsOrigin(r *http.Request) bool
	NetworkOf(r *http.Request) netip.Prefix

	// Reserve seats all of the users in a room, or none.
	Reserve(ctx context.Context, id string, users ...string) (room.Result, error)
	// Move takes all of the users from one room to another, or none. It returns what both are then.
	Move(ctx context.Context, from, to string, users ...string) (left, joined room.Result, err error)
}

// Defaults of [Options].
const (
	defaultRate       = 50
	defaultBurst      = 100
	defaultMaxBody    = 64 << 10
	defaultMaxRunning = 64
	defaultMaxOfOne   = 16
	defaultTimeout    = 8 * time.Second
)

// Options say how an [API] treats its callers. The zero value is ready to use.
type Options struct {
	// Auth verifies the tokens of callers. Nil means that nobody has a token: everybody may read,
	// and only operators may change something.
	Auth *auth.Verifier

	// Rate is how many requests a second a user may send, or an address where there are no tokens;
	// Burst is how many at once. Further ones get HTTP 429. Zero means 50 and 100; a negative Rate
	// sets no limit. It does not bind operators.
	Rate, Burst int

	// MaxBody is the length of the longest body of a request, in bytes; a longer one gets HTTP 413.
	// Zero means 64 KiB.
	MaxBody int

	// MaxRunning is how many requests run at once, and MaxOfOne of them for the same address. Further
	// ones get HTTP 503 or 429. The addresses of an IPv6 network of 64 bits count as one. Operators
	// have as many again. Zero means 64 and 16.
	MaxRunning, MaxOfOne int

	// Timeout is how long a request may take. It must be shorter than the time after which the HTTP
	// server ends the connection. Zero means 8 s.
	Timeout time.Duration

	// Refused is called with a Limit constant of package transport when that refuses a request. Nil
	// is not called.
	Refused func(limit string)

	// Log gets what an operator should know. Nil is silent.
	Log *slog.Logger
}

func (o Options) withDefaults() Options {
	for _, n := range []struct {
		field *int
		value int
	}{
		{&o.Rate, defaultRate}, {&o.Burst, defaultBurst}, {&o.MaxBody, defaultMaxBody},
		{&o.MaxRunning, defaultMaxRunning}, {&o.MaxOfOne, defaultMaxOfOne},
	} {
		if *n.field == 0 {
			*n.field = n.value
		}
	}
	if o.Timeout == 0 {
		o.Timeout = defaultTimeout
	}
	if o.Refused == nil {
		o.Refused = func(string) {}
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	return o
}

func (o Options) validate() error {
	for name, n := range map[string]int{
		"Burst": o.Burst, "MaxBody": o.MaxBody, "MaxRunning": o.MaxRunning, "MaxOfOne": o.MaxOfOne, "Timeout": int(o.Timeout),
	} {
		if n < 0 {
			return &room.InvalidError{Field: name, Problem: fmt.Sprintf("must be more than zero, not %d", n)}
		}
	}
	return nil
}

// API answers HTTP requests about rooms. It is safe for concurrent use.
type API struct {
	rooms    Rooms
	server   Server
	opts     Options
	callers  *callers
	troubles *troubles
}

// New returns an API of rooms. It returns an error that names the field if an option cannot be used.
func New(rooms Rooms, server Server, opts Options) (*API, error) {
	if rooms == nil || server == nil {
		return nil, errors.New("api: rooms or server is nil")
	}
	opts = opts.withDefaults()
	if err := opts.validate(); err != nil {
		return nil, err
	}
	return &API{
		rooms: rooms, server: server, opts: opts,
		callers: newCallers(opts.Rate, opts.Burst), troubles: newTroubles(opts.Log),
	}, nil
}

// Public returns the API for everybody.
func (a *API) Public() http.Handler { return a.handler(false) }

// Operators returns the API for operators: whoever gets there has authority over all rooms, except
// with a token, which has to be an admin's and allow the room.
func (a *API) Operators() http.Handler { return a.handler(true) }

func (a *API) handler(operators bool) http.Handler {
	running := newGate(a.opts.MaxRunning, a.opts.MaxOfOne)
	return transport.SecureHeaders(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		q := &request{Request: r, api: a, operator: operators, network: a.server.NetworkOf(r), header: w.Header()}
		answer, err := q.answer(running, w)
		if err != nil {
			answer = q.problem(err)
		}
		answer.write(w)
	}))
}

// Close ends what is logged. Call it when no request runs any more.
func (a *API) Close() { a.troubles.close() }
