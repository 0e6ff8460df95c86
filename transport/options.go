package transport

import (
	"fmt"
	"log/slog"
	"time"

	"roomd/room"
)

// Defaults of [Options].
const (
	DefaultMaxConnections   = 50_000
	DefaultHandshakeTimeout = 10 * time.Second
	DefaultWriteTimeout     = 10 * time.Second
	DefaultPingInterval     = 30 * time.Second
	DefaultLeaveTimeout     = 15 * time.Second
	DefaultGrace            = 10 * time.Second
	DefaultDrainSpread      = 3 * time.Second
	DefaultMaxRooms         = 64
	DefaultMaxQueue         = 256 << 10
)

// Options say how a [Server] treats its connections. The zero value is ready to
// use.
type Options struct {
	// AllowOrigins are the web origins, such as https://game.example, whose pages
	// may connect besides the server's own. "*" allows all of them.
	AllowOrigins []string

	// MaxConnections is how many WebSockets may be open at once; further ones
	// get HTTP 503. Zero means DefaultMaxConnections.
	MaxConnections int

	// HandshakeTimeout bounds the WebSocket handshake. Zero means
	// DefaultHandshakeTimeout.
	HandshakeTimeout time.Duration

	// WriteTimeout is how long one frame, or some short ones, may take to be sent
	// before the client counts as gone, or up to an eighth longer. Zero means
	// DefaultWriteTimeout.
	WriteTimeout time.Duration

	// PingInterval is the time between two pings. A client that has sent nothing,
	// not even a pong, for two of them, or up to an eighth of one longer, counts as
	// gone. Zero means DefaultPingInterval.
	PingInterval time.Duration

	// MaxRooms is how many rooms a connection may be in, or watch, at once; a
	// request for a further one gets bad_request. Zero means DefaultMaxRooms.
	MaxRooms int

	// MaxQueue is how many bytes of replies a connection may have queued, until its
	// further requests wait; and how many bytes of changes in its rooms, until it is
	// closed as too slow. A single reply may be longer. Zero means DefaultMaxQueue.
	MaxQueue int

	// Grace is how long a user whose connection has ended keeps the seats, to
	// come back to them. Zero means DefaultGrace; a negative value lets the user
	// leave at once.
	Grace time.Duration

	// LeaveTimeout bounds one attempt at the leave of a user who has not come
	// back; it is tried again until it has an answer. Zero means
	// DefaultLeaveTimeout.
	LeaveTimeout time.Duration

	// Duplicate is what the Rules of the rooms say. Under room.Reject the server
	// tells the rooms at once when a connection has ended, so that the user can
	// come back within the grace, with another session.
	Duplicate room.Duplicate

	// DrainSpread is the time over which Shutdown spreads the closing of the
	// connections, so that not all clients connect to other nodes in the same
	// instant. Zero means DefaultDrainSpread; a negative value closes them at once.
	DrainSpread time.Duration

	// Log takes what an operator should know. Nil is silent.
	Log *slog.Logger
}

func (o Options) withDefaults() Options {
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.MaxConnections == 0 {
		o.MaxConnections = DefaultMaxConnections
	}
	if o.MaxRooms == 0 {
		o.MaxRooms = DefaultMaxRooms
	}
	if o.MaxQueue == 0 {
		o.MaxQueue = DefaultMaxQueue
	}
	for _, d := range []struct {
		field *time.Duration
		value time.Duration
	}{
		{&o.HandshakeTimeout, DefaultHandshakeTimeout},
		{&o.WriteTimeout, DefaultWriteTimeout},
		{&o.PingInterval, DefaultPingInterval},
		{&o.LeaveTimeout, DefaultLeaveTimeout},
		{&o.Grace, DefaultGrace},
		{&o.DrainSpread, DefaultDrainSpread},
	} {
		if *d.field == 0 {
			*d.field = d.value
		}
	}
	return o
}

func (o Options) validate() error {
	for name, n := range map[string]int{"MaxConnections": o.MaxConnections, "MaxRooms": o.MaxRooms, "MaxQueue": o.MaxQueue} {
		if n < 0 {
			return &room.InvalidError{Field: name, Problem: fmt.Sprintf("must be more than zero, not %d", n)}
		}
	}
	for name, d := range map[string]time.Duration{
		"HandshakeTimeout": o.HandshakeTimeout,
		"WriteTimeout":     o.WriteTimeout,
		"PingInterval":     o.PingInterval,
		"LeaveTimeout":     o.LeaveTimeout,
	} {
		if d < 0 {
			return &room.InvalidError{Field: name, Problem: fmt.Sprintf("must be more than zero, not %v", d)}
		}
	}
	return nil
}
