package client

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/textproto"
	"strings"
	"time"
	"unicode/utf8"

	"roomd/lockmgr/redisconn/pause"
	"roomd/transport/protocol"
)

// Options describe the user of a connection, and have the functions that get the server's frames. The zero value
// works with a server that needs no user name in the URL.
type Options struct {
	// User is sent as ?user= in the URL, for servers that trust it. Default: not sent.
	User string
	// Token returns the token that identifies the user. [Dial] calls it once and sends the token in the Authorization
	// header; its error ends the attempt. [StaticToken] is for a token that never changes. Default: no token is sent.
	Token func(ctx context.Context) (string, error)
	// Header is added to the request of the handshake. Default: none.
	Header http.Header
	// TLS has the trusted authorities for a wss:// address, and the client's certificate. Default: the authorities of
	// the system, and no certificate.
	TLS *tls.Config

	// OnReply is called for every reply, before the request that waits for it returns, and even if none waits.
	// Default: not called.
	//
	// The goroutine that reads the connection calls OnReply and OnEvent one at a time, in the order of the server's
	// frames. So they must return soon, must not call methods that wait (Close, and all that send a request), and
	// must not change their argument.
	OnReply func(*protocol.Reply)
	// OnEvent is called for every event; see OnReply. Default: events are dropped.
	OnEvent func(*protocol.Event)

	// HandshakeTimeout limits connecting, including the WebSocket handshake. Default: 10 s.
	HandshakeTimeout time.Duration
	// WriteTimeout limits the sending of one frame. If that takes longer, the connection ends. Default: 10 s.
	WriteTimeout time.Duration
}

// Config says which servers a [Client] connects to, and as which user. Only Addresses are required.
type Config struct {
	// Addresses are the servers', such as "wss://a.game.example/ws". The client starts with any of them, and goes on
	// to the next when a connection fails or ends.
	Addresses []string
	// User, Header and TLS are as in [Options].
	User   string
	Header http.Header
	TLS    *tls.Config
	// Token returns the token that identifies the user. The client calls it for each connection, and again after
	// about 80 % of the token's time, to send the server a newer one. If Token returns [ErrUnauthorized], the client
	// ends together with its connection. With any other error, [Connect] fails, and a connected or reconnecting
	// client calls Token again later. [Client.Lobby] also calls it, perhaps concurrently. Token must not call Close.
	// [StaticToken] is for a token that never changes. Default: no token is sent.
	Token func(ctx context.Context) (string, error)

	// OnUnreachable is called once, with the last error, if the first three attempts of [Connect] fail: perhaps the
	// server does not run yet, or an address is wrong. The client keeps trying. OnUnreachable must return soon, and
	// must not call Close. Default: a warning by [slog.Default].
	OnUnreachable func(err error)

	// HandshakeTimeout and WriteTimeout are as in [Options].
	HandshakeTimeout, WriteTimeout time.Duration
	// BackoffBase is the bound of the first pause before a reconnect; each attempt doubles the bound. A pause is
	// random, from 0 to its bound. Default: 250 ms.
	BackoffBase time.Duration
	// BackoffCap is the largest bound of a pause. It should be shorter than the server's grace. Default: 5 s.
	BackoffCap time.Duration
	// Idle is how long the server may be silent before the client pings it. Default: 6 s, because a server pings a
	// silent client every 5 s. If another session of the user keeps a reconnecting client out (--duplicate reject),
	// the client retries for twice Idle, because that session may be its own old one.
	Idle time.Duration
	// IdleTimeout is how long the server may stay silent after that ping before the client drops the connection.
	// Default: 5 s.
	IdleTimeout time.Duration

	// For tests.
	dial    func(ctx context.Context, address string, opts Options) (*Conn, error)
	dialNet func(ctx context.Context, network, address string) (net.Conn, error) // for the lobby
	random  func() float64
}

// StaticToken returns a value for [Options.Token] that always returns token.
func StaticToken(token string) func(context.Context) (string, error) {
	return func(context.Context) (string, error) { return token, nil }
}

// check sets the defaults, or returns an error that names a field that cannot be used.
func (o *Options) check() error {
	if !utf8.ValidString(o.User) {
		return errors.New("option User: not valid UTF-8")
	}
	for name := range o.Header {
		switch key := textproto.CanonicalMIMEHeaderKey(name); {
		case key == "Upgrade", key == "Connection", strings.HasPrefix(key, "Sec-Websocket-"):
			return fmt.Errorf("option Header: %s belongs to the handshake and cannot be set", key)
		case key == "Authorization" && o.Token != nil:
			return errors.New("option Header: Authorization is set by option Token")
		}
	}
	return cmp.Or(
		setDefault("HandshakeTimeout", &o.HandshakeTimeout, 10*time.Second),
		setDefault("WriteTimeout", &o.WriteTimeout, 10*time.Second),
	)
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
	if c.OnUnreachable == nil {
		c.OnUnreachable = func(err error) {
			slog.Warn("three attempts to connect to roomd have failed; the client goes on trying", "error", err)
		}
	}
	return cmp.Or(
		setDefault("BackoffBase", &c.BackoffBase, 250*time.Millisecond),
		setDefault("BackoffCap", &c.BackoffCap, 5*time.Second),
		setDefault("Idle", &c.Idle, 6*time.Second),
		setDefault("IdleTimeout", &c.IdleTimeout, 5*time.Second),
	)
}

func (c *Config) options() Options {
	return Options{
		User: c.User, Token: c.Token, Header: c.Header, TLS: c.TLS,
		HandshakeTimeout: c.HandshakeTimeout, WriteTimeout: c.WriteTimeout,
	}
}

func (c *Config) backoff() pause.Backoff {
	return pause.Backoff{First: c.BackoffBase, Max: c.BackoffCap, Jitter: 1, Random: c.random}
}

// setDefault sets *d to unset, its default, if it is zero. It returns an error if *d is negative.
func setDefault(name string, d *time.Duration, unset time.Duration) error {
	if *d < 0 {
		return fmt.Errorf("option %s: %v is negative", name, *d)
	}
	*d = cmp.Or(*d, unset)
	return nil
}
