package transport

import (
	"cmp"
	"fmt"
	"log/slog"
	"net/netip"
	"time"

	"roomd/room"
	"roomd/transport/auth"
	"roomd/transport/internal/session"
	"roomd/transport/protocol"
)

// Defaults of [Options] that other packages compute with.
const (
	DefaultMaxConnections   = 50_000
	DefaultPingInterval     = 5 * time.Second
	DefaultHandshakeTimeout = 10 * time.Second
)

const (
	defaultAuthTimeout   = 10 * time.Second
	defaultWriteTimeout  = 10 * time.Second
	defaultLeaveTimeout  = 15 * time.Second
	defaultGrace         = 10 * time.Second
	defaultDrainSpread   = 3 * time.Second
	defaultMaxPerAddress = 1000
	defaultMaxRooms      = 64
	defaultMaxNewRooms   = 64
	defaultMaxQueue      = 256 << 10
	defaultRate          = 50
	defaultBurst         = 100
)

// Options say how a [Server] treats its connections. The zero value is ready to use.
type Options struct {
	// AllowOrigins are the web origins, such as https://game.example, whose pages may connect besides the server's
	// own. https://*.game.example allows subdomains of any depth, but not https://game.example. "*" allows all
	// origins, "null" those of files and sandboxes. The hosts are also names of the server: see [Server.AllowsHost].
	AllowOrigins []string

	// Auth verifies the tokens that identify clients. A client that sends no Origin must send its token with the
	// handshake. Nil believes the user in the URL: anyone who can reach such a server can act as anybody.
	Auth *auth.Verifier

	// MaxConnections is how many WebSockets may be open at once; further ones get HTTP 503. Zero means
	// DefaultMaxConnections, 50,000.
	MaxConnections int

	// MaxPerAddress is how many WebSockets of one address may be open at once; further ones get HTTP 429. The
	// addresses of an IPv6 network of 64 bits count as one. Zero means 1000, a negative value sets no limit.
	MaxPerAddress int

	// TrustProxy are the networks of proxies in front of this server: only there X-Forwarded-For names the client.
	// (The server does not read the Forwarded header of RFC 7239.)
	TrustProxy []netip.Prefix

	// HandshakeTimeout bounds the WebSocket handshake, and in package node each HTTP request. Zero means
	// DefaultHandshakeTimeout, 10 s.
	HandshakeTimeout time.Duration

	// AuthTimeout is how long a connection without a token may delay its auth request. Zero means 10 s.
	AuthTimeout time.Duration

	// MaxFrame is the length of the longest request, in bytes; a longer one closes its connection with 1009. Zero
	// means protocol.MaxFrame, 16 KiB.
	MaxFrame int

	// Rate is how many requests a second one connection may send, and all connections of a user on this server
	// together; Burst is how many at once. Further ones get rate_limited, and a client that ignores that is closed
	// with 4009. Zero means 50 and 100; a negative Rate sets no limit. Admins have none.
	Rate, Burst int

	// WriteTimeout is how long a client may read nothing of a write before it is closed with 4008; it may take up to
	// an eighth longer. Zero means 10 s.
	WriteTimeout time.Duration

	// PingInterval is how long a client may be silent before it is pinged. The connection ends if the client sends
	// nothing, not even a pong, for two intervals (or up to an eighth longer), unless it still reads what was sent
	// before the ping (known on Linux only). It also ends if one message takes longer. Zero means 5 s.
	PingInterval time.Duration

	// MaxRooms is how many rooms a connection may be in, or watch, at once; a further one gets bad_request. Zero
	// means 64. Admins have no limit.
	MaxRooms int

	// MaxNewRooms is how many rooms a user may create in a minute, by join or match on this server; a request that
	// would create one more gets rate_limited. Zero means 64, a negative value sets no limit.
	MaxNewRooms int

	// MatchSettings limits the settings of rooms that players create by a match. Nil lets players choose.
	MatchSettings MatchSettings

	// MaxQueue is how many bytes may wait for a slow reader: of replies, before its next request waits, and of
	// changes, before a snapshot replaces them. A single reply or snapshot may be longer. Zero means 256 KiB.
	MaxQueue int

	// Grace is how long a user whose connection has ended keeps the seats, and is shown as away. Zero means 10 s;
	// with a negative value the user leaves at once, as after a close with 1000.
	Grace time.Duration

	// LeaveTimeout bounds one attempt at a leave after the grace; the server retries until it has an answer. Zero
	// means 15 s.
	LeaveTimeout time.Duration

	// Duplicate must be as in the rooms' Rules. With room.Reject the server answers a close only after it has tried
	// to tell the rooms that the user is away, so that the user can come back at once.
	Duplicate room.Duplicate

	// DrainSpread is the time over which Shutdown spreads the closing of connections, so that clients do not
	// reconnect all at once. Zero means 3 s; a negative value closes them at once.
	DrainSpread time.Duration

	// Trace is told events that operators count. Nil tells nobody.
	Trace *Trace

	// Log gets messages for the operator. Nil is silent.
	Log *slog.Logger
}

// MatchSettings are the settings that players may give a room created by a match, if the match has all their labels. A
// player sends one of them, or gets the first; if there is none, the match creates no room. The room gets the labels
// of the match. Nil lets players choose all settings except keep and closed, which are for admins.
type MatchSettings = session.MatchSettings

func (o Options) withDefaults() Options {
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	o.Trace = o.Trace.filled()
	o.MaxConnections = cmp.Or(o.MaxConnections, DefaultMaxConnections)
	o.MaxPerAddress = cmp.Or(o.MaxPerAddress, defaultMaxPerAddress)
	o.MaxRooms, o.MaxNewRooms = cmp.Or(o.MaxRooms, defaultMaxRooms), cmp.Or(o.MaxNewRooms, defaultMaxNewRooms)
	o.MaxFrame, o.MaxQueue = cmp.Or(o.MaxFrame, protocol.MaxFrame), cmp.Or(o.MaxQueue, defaultMaxQueue)
	o.Rate, o.Burst = cmp.Or(o.Rate, defaultRate), cmp.Or(o.Burst, defaultBurst)
	o.HandshakeTimeout = cmp.Or(o.HandshakeTimeout, DefaultHandshakeTimeout)
	o.AuthTimeout = cmp.Or(o.AuthTimeout, defaultAuthTimeout)
	o.WriteTimeout = cmp.Or(o.WriteTimeout, defaultWriteTimeout)
	o.LeaveTimeout = cmp.Or(o.LeaveTimeout, defaultLeaveTimeout)
	o.PingInterval, o.Grace = cmp.Or(o.PingInterval, DefaultPingInterval), cmp.Or(o.Grace, defaultGrace)
	o.DrainSpread = cmp.Or(o.DrainSpread, defaultDrainSpread)
	return o
}

func (o Options) validate() error {
	for name, n := range map[string]int{
		"MaxConnections": o.MaxConnections, "MaxRooms": o.MaxRooms, "MaxQueue": o.MaxQueue, "Burst": o.Burst,
	} {
		if n < 0 {
			return &room.InvalidError{Field: name, Problem: fmt.Sprintf("must be more than zero, not %d", n)}
		}
	}
	for name, d := range map[string]time.Duration{
		"HandshakeTimeout": o.HandshakeTimeout,
		"AuthTimeout":      o.AuthTimeout,
		"WriteTimeout":     o.WriteTimeout,
		"PingInterval":     o.PingInterval,
		"LeaveTimeout":     o.LeaveTimeout,
	} {
		if d < 0 {
			return &room.InvalidError{Field: name, Problem: fmt.Sprintf("must be more than zero, not %v", d)}
		}
	}
	if err := o.MatchSettings.Check(); err != nil {
		return &room.InvalidError{Field: "MatchSettings", Problem: err.Error()}
	}
	return o.validateLimits()
}

// A join fits into minFrame. Each connection may keep maxFrame bytes in memory. A rate above maxRate is no limit.
const (
	minFrame = 1 << 10
	maxFrame = 16 << 20
	maxRate  = 1_000_000
)

func (o Options) validateLimits() error {
	switch {
	case o.MaxFrame < minFrame || o.MaxFrame > maxFrame:
		return &room.InvalidError{Field: "MaxFrame",
			Problem: fmt.Sprintf("must be from %d to %d bytes, not %d", minFrame, maxFrame, o.MaxFrame)}
	case o.Rate > maxRate:
		return &room.InvalidError{Field: "Rate", Problem: fmt.Sprintf("must be at most %d, not %d", maxRate, o.Rate)}
	case o.Burst > maxRate:
		return &room.InvalidError{Field: "Burst", Problem: fmt.Sprintf("must be at most %d, not %d", maxRate, o.Burst)}
	}
	for _, network := range o.TrustProxy {
		if !network.IsValid() || network.Addr().Is4In6() {
			return &room.InvalidError{Field: "TrustProxy",
				Problem: fmt.Sprintf("must be networks such as 10.0.0.0/8 or fd00::/8, not %v", network)}
		}
	}
	return nil
}
