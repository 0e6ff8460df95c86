// Package api is roomd's HTTP API: the lobby for everybody, and authority over rooms for admins.
//
// Start with [New]. [API.Public] is for the game clients' address, where a token grants rights; [API.Operators] for
// an address that only operators reach. The routes, and the description at /api/openapi.yaml, come from one table.
//
// # What it promises
//
//   - Without a key for tokens nobody has authority through API.Public. With one, a caller needs a valid token for
//     everything except the description, and sees only rooms that the token allows.
//   - A body with an unknown field, a repeated field, or anything behind it is refused, and changes nothing; likewise
//     an unknown query parameter.
//   - An error is a problem document (RFC 9457), with the code of the WebSocket protocol where there is one. Only
//     with the code "unknown" may something have been written.
//   - The number of requests that run at once is limited, in all and per address. Further ones are refused at once.
//
// The package starts no goroutines.
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

// Rooms is the part of a *coordinator.Coordinator that an API needs.
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

// Server is the part of a *transport.Server that an API needs.
type Server interface {
	Read(ctx context.Context, id string) (room.Snapshot, error)
	AllowsOrigin(r *http.Request) bool
	NetworkOf(r *http.Request) netip.Prefix

	// Reserve seats all of the users in a room, or none.
	Reserve(ctx context.Context, id string, users ...string) (room.Result, error)
	// Match seats all of the users together in one room that fits w, or none of them.
	Match(ctx context.Context, w coordinator.Wanted, users ...string) (id string, result room.Result, err error)
	// Move moves all of the users to another room, or none. It returns both rooms after the move.
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
	// Auth verifies the tokens of callers. Nil means that nobody has a token: everybody may read rooms and the lobby,
	// and only operators may do anything else.
	Auth *auth.Verifier

	// Rate is how many requests a second a user, or without tokens an address, may send; Burst is how many at once.
	// Further ones get HTTP 429. Zero means 50 and 100, a negative Rate no limit. Operators have none.
	Rate, Burst int

	// Timeout bounds a request; it must be shorter than the limits of the HTTP server. Zero means 8 s.
	Timeout time.Duration

	// Refused is called when a limit refuses a request, with a Limit constant of package transport. It may be nil.
	Refused func(limit string)

	// Log gets messages for the operator. Nil is silent.
	Log *slog.Logger
}

// withDefaults returns o with its defaults, or an error that names an option that cannot be used.
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
	watching *gate           // watchers of the lobby and the feed
	open     context.Context // ends with EndWatches
	end      context.CancelFunc

	described []byte // the content of /api/openapi.yaml
}

// New returns an API of rooms. If rooms or server is nil, or an option cannot be used, the error names it.
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

// Public returns the API for everybody.
func (a *API) Public() http.Handler { return transport.SecureHeaders(a.mux(false)) }

// Operators returns the API with authority over all rooms. A token, if sent, must be an admin's for the room.
func (a *API) Operators() http.Handler { return transport.SecureHeaders(a.mux(true)) }

// EndWatches ends the requests that watch the lobby or the feed, which have no end of their own.
func (a *API) EndWatches() { a.end() }

// Close ends the logs. Call it when no request runs any more.
func (a *API) Close() { a.troubles.logs.Close() }
