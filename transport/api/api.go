package api

import (
	"cmp"
	"context"
	"errors"
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
	NextLobby(ctx context.Context, before *coordinator.Lobby) (now *coordinator.Lobby, ids []string, err error)
	// Now returns the time by the clock that all nodes share, in ms since 1970.
	Now() int64

	Journal(ctx context.Context, id, after string, limit int) ([]coordinator.JournalEntry, error)
	HasFeed() bool
	Feed(ctx context.Context, after string, limit int, shows func(id string) bool) (coordinator.FeedPage, error)
	AwaitFeed(ctx context.Context, after string) error

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
	// Match seats all of the users together in a room that has what is wanted, or in none.
	Match(ctx context.Context, w coordinator.Wanted, users ...string) (id string, result room.Result, err error)
	// Move takes all of the users from one room to another, or none. It returns what both are then.
	Move(ctx context.Context, from, to string, users ...string) (left, joined room.Result, err error)
}

// Limits of requests.
const (
	defaultRate    = 50
	defaultBurst   = 100
	defaultTimeout = 8 * time.Second

	maxBody    = 64 << 10 // bytes
	maxRunning = 64       // requests at once
	maxOfOne   = 16       // of these, for the same address
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

	// Timeout is how long a request may take. It must be shorter than the time after which the HTTP
	// server ends the connection. Zero means 8 s.
	Timeout time.Duration

	// Refused is called with a Limit constant of package transport when that refuses a request. Nil is not called.
	Refused func(limit string)

	// Log gets what an operator should know. Nil is silent.
	Log *slog.Logger
}

// withDefaults returns an error that names the field if an option cannot be used.
func (o Options) withDefaults() (Options, error) {
	if o.Burst < 0 || o.Timeout < 0 {
		return o, &room.InvalidError{Field: map[bool]string{true: "Burst", false: "Timeout"}[o.Burst < 0],
			Problem: "must be more than zero"}
	}
	o.Rate, o.Burst, o.Timeout = cmp.Or(o.Rate, defaultRate), cmp.Or(o.Burst, defaultBurst),
		cmp.Or(o.Timeout, defaultTimeout)
	if o.Refused == nil {
		o.Refused = func(string) {}
	}
	o.Log = cmp.Or(o.Log, slog.New(slog.DiscardHandler))
	return o, nil
}

// API answers HTTP requests about rooms. It is safe for concurrent use.
type API struct {
	rooms    Rooms
	server   Server
	opts     Options
	callers  *callers
	troubles *troubles
	watching *gate           // those who watch the lobby
	open     context.Context // ends with EndWatches
	end      context.CancelFunc

	described []byte // what /api/openapi.yaml is
}

// New returns an API of rooms. It returns an error that names the field if an option cannot be used.
func New(rooms Rooms, server Server, opts Options) (*API, error) {
	if rooms == nil || server == nil {
		return nil, errors.New("api: rooms or server is nil")
	}
	opts, err := opts.withDefaults()
	if err != nil {
		return nil, err
	}
	a := &API{
		rooms: rooms, server: server, opts: opts, watching: newGate(maxWatching, maxWatchers),
		callers: newCallers(opts.Rate, opts.Burst), troubles: newTroubles(opts.Log), described: openAPI(),
	}
	a.open, a.end = context.WithCancel(context.Background())
	return a, nil
}

// SetRate puts another Rate and Burst in force, as Options have them, from the next request on.
func (a *API) SetRate(perSecond, burst int) {
	a.callers.set(cmp.Or(perSecond, defaultRate), cmp.Or(burst, defaultBurst))
}

// Public returns the API for everybody.
func (a *API) Public() http.Handler { return transport.SecureHeaders(a.mux(false)) }

// Operators returns the API for operators: whoever gets there has authority over all rooms, except
// with a token, which has to be an admin's and allow the room.
func (a *API) Operators() http.Handler { return transport.SecureHeaders(a.mux(true)) }

// EndWatches ends the requests of those who watch the lobby, which have no end of their own.
func (a *API) EndWatches() { a.end() }

// Close ends what is logged. Call it when no request runs any more.
func (a *API) Close() { a.troubles.logs.Close() }
