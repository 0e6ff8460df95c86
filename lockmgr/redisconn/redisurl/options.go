package redisurl

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"net"
)

// Options add to a URL, for example secrets that should not be in it. The zero value adds nothing.
type Options struct {
	// Password is for the URL's user, or Redis' default user. The URL must have none.
	Password string
	// SentinelPassword is for the Sentinels' user. The URL must name Sentinels, and have no sentinel_password.
	SentinelPassword string

	// RootCAs certify the servers, including Sentinels; nil stands for the system's authorities. Certificate is shown
	// to the servers; nil for none. Both need a URL that begins with rediss.
	RootCAs     *x509.CertPool
	Certificate *tls.Certificate

	// Dial, if not nil, opens all connections, including those to Sentinels. It is for tests of networks. The URL
	// must not begin with rediss.
	Dial Dialer
}

// Dialer opens a connection, as [net.Dialer.DialContext] does.
type Dialer func(ctx context.Context, network, addr string) (net.Conn, error)

// Contradictions between a URL and Options.
var (
	ErrPassword         = errors.New("the URL has a password already, or names the embedded Redis, which has none")
	ErrSentinelPassword = errors.New("the URL has a sentinel_password already, or names no Sentinels")
	ErrNoTLS            = errors.New("TLS needs a URL that begins with rediss")
	ErrDial             = errors.New("one's own connections have no TLS, and do not lead to the embedded Redis")
)

func (o *Options) refuseEmbedded() error {
	switch {
	case o.Password != "":
		return ErrPassword
	case o.SentinelPassword != "":
		return ErrSentinelPassword
	case o.RootCAs != nil || o.Certificate != nil:
		return ErrNoTLS
	case o.Dial != nil:
		return ErrDial
	}
	return nil
}

func (db *DB) add(opts Options) error {
	s := db.shared()
	if opts.Password != "" {
		if *s.password != "" {
			return ErrPassword
		}
		*s.password = opts.Password
	}
	if opts.SentinelPassword != "" {
		if db.sentinel == nil || db.sentinel.SentinelPassword != "" {
			return ErrSentinelPassword
		}
		db.sentinel.SentinelPassword = opts.SentinelPassword
	}
	if opts.Dial != nil {
		if s.secure != nil {
			return ErrDial // the client would leave TLS to Dial
		}
		*s.dialer = opts.Dial
	}
	if opts.RootCAs == nil && opts.Certificate == nil {
		return nil
	}
	if s.secure == nil {
		return ErrNoTLS
	}
	s.secure.RootCAs = opts.RootCAs
	if opts.Certificate != nil {
		s.secure.Certificates = []tls.Certificate{*opts.Certificate}
	}
	return nil
}
