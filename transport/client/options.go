package client

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net/http"
	"net/textproto"
	"net/url"
	"strings"
	"time"
	"unicode/utf8"

	"roomd/transport/protocol"
)

// readLimit is the length of the longest frame read from a server, in bytes: the list of a room with
// about a million members.
const readLimit = 64 << 20

// Options say who connects, and which functions get the server's frames. The zero value works with
// a server that needs no user name in the URL.
type Options struct {
	// User is sent as ?user= in the URL, for servers that believe it. Default: not sent.
	User string
	// Token returns the token that says who the user is. [Dial] calls it once and sends the token in
	// the Authorization header; its error ends the attempt. [StaticToken] is a Token that is known
	// already. Default: no token is sent.
	Token func(ctx context.Context) (string, error)
	// Header is added to the request of the handshake. Default: none.
	Header http.Header
	// TLS says whom to trust at a wss:// address, and who this client is. Default: the authorities
	// of the system, and no certificate.
	TLS *tls.Config

	// OnReply is called for every reply, before the request that waits for it returns, and also if
	// none does. Default: not called.
	//
	// OnReply and OnEvent are called one at a time, in the order in which the server sent the
	// frames, from the goroutine that reads the connection. So they must return soon, must not call
	// methods that wait (Close, and all that send a request), and must not change their argument.
	OnReply func(*protocol.Reply)
	// OnEvent is called for every event, as described at OnReply. Default: events are dropped.
	OnEvent func(*protocol.Event)

	// HandshakeTimeout bounds connecting, the WebSocket handshake included. Default: 10 s.
	HandshakeTimeout time.Duration
	// WriteTimeout bounds the sending of one frame. When it runs out, the connection ends.
	// Default: 10 s.
	WriteTimeout time.Duration
	// ReadTimeout is how long the server may send nothing, not even a ping, before the connection
	// ends. It must be longer than the server's time between pings.
	// Default: 90 s.
	ReadTimeout time.Duration
}

// StaticToken returns a value for [Options.Token]: the token given.
func StaticToken(token string) func(context.Context) (string, error) {
	return func(context.Context) (string, error) { return token, nil }
}

// handshakeHeader returns what the request of the handshake has besides its own headers.
func (o *Options) handshakeHeader(ctx context.Context) (http.Header, error) {
	if o.Token == nil {
		return o.Header, nil
	}
	token, err := o.Token(ctx)
	if err != nil {
		return nil, fmt.Errorf("option Token: %w", err)
	}
	if strings.ContainsFunc(token, func(c rune) bool { return c <= ' ' || c > '~' }) {
		return nil, errors.New("option Token: the token has characters that no token has") // net/http would show it
	}
	header := o.Header.Clone()
	if header == nil {
		header = make(http.Header)
	}
	header.Set("Authorization", "Bearer "+token)
	return header, nil
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
	return setDurations([]duration{
		{"HandshakeTimeout", &o.HandshakeTimeout, 10 * time.Second},
		{"WriteTimeout", &o.WriteTimeout, 10 * time.Second},
		{"ReadTimeout", &o.ReadTimeout, 90 * time.Second},
	})
}

// duration is an option, and its default.
type duration struct {
	name  string
	value *time.Duration
	unset time.Duration
}

// setDurations sets the defaults of those that are zero, or returns an error that names a bad one.
func setDurations(all []duration) error {
	for _, d := range all {
		if *d.value < 0 {
			return fmt.Errorf("option %s: %v is negative", d.name, *d.value)
		}
		if *d.value == 0 {
			*d.value = d.unset
		}
	}
	return nil
}

// parseURL parses the address of a server and adds the user to its query. Its errors do not show
// the address, which may hold a token.
func parseURL(address, user string) (*url.URL, error) {
	u, err := url.Parse(address)
	if err != nil {
		var parse *url.Error
		if errors.As(err, &parse) {
			err = parse.Err
		}
		return nil, fmt.Errorf("URL: %w", err)
	}
	if u.Scheme != "ws" && u.Scheme != "wss" {
		return nil, fmt.Errorf("URL: the scheme must be ws or wss, not %q", u.Scheme)
	}
	if u.Host == "" {
		return nil, errors.New("URL: the host is missing")
	}
	if u.User != nil {
		return nil, errors.New("URL: must not hold a user name or password")
	}
	query, err := url.ParseQuery(u.RawQuery)
	if err != nil {
		return nil, errors.New("URL: the query is malformed")
	}
	if user != "" {
		query.Set("user", user)
		u.RawQuery = query.Encode()
	}
	return u, nil
}
