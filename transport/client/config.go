package client

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net/http"
	"time"
)

// Config says whom a [Client] connects to, and as whom. Only Addresses are required.
type Config struct {
	// Addresses are the servers', such as "wss://a.game.example/ws". The client begins with any of
	// them, and goes on to the next when a connection fails or ends.
	Addresses []string
	// User is sent as ?user= in the URL, for servers that believe it. Default: not sent.
	User string
	// Token returns the token that says who the user is. The client calls it for each connection, and
	// again when about 80 % of the token's time are over, to show the server a newer one. An error
	// that is [ErrUnauthorized] ends the client. With any other, [Connect] fails, and a client that
	// connects again asks later. Token must not call Close. [StaticToken] is a Token that is known
	// already. Default: no token is sent.
	Token func(ctx context.Context) (string, error)
	// Header is added to the request of each handshake. Default: none.
	Header http.Header
	// TLS says whom to trust at a wss:// address, and who this client is. Default: the authorities
	// of the system, and no certificate.
	TLS *tls.Config

	// HandshakeTimeout bounds each attempt to connect, the WebSocket handshake included. Default: 10 s.
	HandshakeTimeout time.Duration
	// WriteTimeout bounds the sending of one frame. When it runs out, the connection ends. Default: 10 s.
	WriteTimeout time.Duration
	// BackoffBase bounds the first pause before the client connects again; the bound doubles with each
	// attempt. A pause is random, from 0 to its bound. Default: 250 ms.
	BackoffBase time.Duration
	// BackoffCap bounds all pauses. It should be shorter than the server's grace. Default: 5 s.
	BackoffCap time.Duration
	// Idle is how long the server may be silent before the client pings it. Default: 10 s.
	Idle time.Duration
	// IdleTimeout is how long the server may be silent after that before the client drops the
	// connection. Default: 5 s.
	IdleTimeout time.Duration

	// For tests.
	dial   func(ctx context.Context, address string, opts Options) (*Conn, error)
	random func() float64
}

// check sets the defaults, or returns an error that names a field that cannot be used.
func (c *Config) check() error {
	if len(c.Addresses) == 0 {
		return errors.New("option Addresses: at least one is required")
	}
	for _, address := range c.Addresses {
		if _, err := parseURL(address, c.User); err != nil {
			return fmt.Errorf("option Addresses: %w", err)
		}
	}
	opts := c.options()
	if err := opts.check(); err != nil {
		return err
	}
	c.HandshakeTimeout, c.WriteTimeout = opts.HandshakeTimeout, opts.WriteTimeout
	if c.dial == nil {
		c.dial = Dial
	}
	return setDurations([]duration{
		{"BackoffBase", &c.BackoffBase, 250 * time.Millisecond},
		{"BackoffCap", &c.BackoffCap, 5 * time.Second},
		{"Idle", &c.Idle, 10 * time.Second},
		{"IdleTimeout", &c.IdleTimeout, 5 * time.Second},
	})
}

// options are those of each connection.
func (c *Config) options() Options {
	return Options{
		User: c.User, Token: c.Token, Header: c.Header, TLS: c.TLS,
		HandshakeTimeout: c.HandshakeTimeout, WriteTimeout: c.WriteTimeout,
	}
}

func (c *Config) backoff() backoff {
	return backoff{base: c.BackoffBase, limit: c.BackoffCap, random: c.random}
}
