package transport

import (
	"fmt"
	"time"

	"github.com/rs/zerolog"
)

// Defaults of [Options].
const (
	DefaultMaxConnections   = 50_000
	DefaultHandshakeTimeout = 10 * time.Second
	DefaultWriteTimeout     = 10 * time.Second
	DefaultPingInterval     = 30 * time.Second
	DefaultLeaveTimeout     = 15 * time.Second
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

	// WriteTimeout is how long one frame may take to be sent before the client
	// counts as gone. Zero means DefaultWriteTimeout.
	WriteTimeout time.Duration

	// PingInterval is the time between two pings. A client that has sent nothing,
	// not even a pong, for two of them counts as gone. Zero means
	// DefaultPingInterval.
	PingInterval time.Duration

	// LeaveTimeout bounds the leaves of a connection that has ended. Zero means
	// DefaultLeaveTimeout.
	LeaveTimeout time.Duration

	// Log takes what an operator should know. The zero value is silent.
	Log zerolog.Logger
}

func (o Options) withDefaults() Options {
	if o.MaxConnections == 0 {
		o.MaxConnections = DefaultMaxConnections
	}
	for _, d := range []struct {
		field *time.Duration
		value time.Duration
	}{
		{&o.HandshakeTimeout, DefaultHandshakeTimeout},
		{&o.WriteTimeout, DefaultWriteTimeout},
		{&o.PingInterval, DefaultPingInterval},
		{&o.LeaveTimeout, DefaultLeaveTimeout},
	} {
		if *d.field == 0 {
			*d.field = d.value
		}
	}
	return o
}

func (o Options) validate() error {
	if o.MaxConnections < 0 {
		return fmt.Errorf("transport: MaxConnections is %d, it must be more than zero", o.MaxConnections)
	}
	for name, d := range map[string]time.Duration{
		"HandshakeTimeout": o.HandshakeTimeout,
		"WriteTimeout":     o.WriteTimeout,
		"PingInterval":     o.PingInterval,
		"LeaveTimeout":     o.LeaveTimeout,
	} {
		if d < 0 {
			return fmt.Errorf("transport: %s is %v, it must be more than zero", name, d)
		}
	}
	return nil
}
