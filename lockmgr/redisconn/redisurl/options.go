package redisurl

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
)

// Options are what a URL cannot say, or should not. The zero value adds nothing.
type Options struct {
	// Password is that of the URL's user, or of Redis' default user. The URL must have none.
	Password string
	// SentinelPassword is that of the Sentinels' user. The URL must have none.
	SentinelPassword string

	// RootCAs certify the servers, the Sentinels included. Nil stands for the authorities of
	// the system. Certificate is what the servers get to see of us; nil for none. Both need a
	// URL that begins with rediss.
	RootCAs     *x509.CertPool
	Certificate *tls.Certificate
}

// What a URL and Options can disagree about.
var (
	ErrPassword         = errors.New("the URL has a password already, or names the embedded Redis, which has none")
	ErrSentinelPassword = errors.New("the URL has a sentinel_password already, or names no Sentinels")
	ErrNoTLS            = errors.New("TLS needs a URL that begins with rediss")
)

func (o *Options) refuseEmbedded() error {
	switch {
	case o.Password != "":
		return ErrPassword
	case o.SentinelPassword != "":
		return ErrSentinelPassword
	case o.RootCAs != nil || o.Certificate != nil:
		return ErrNoTLS
	}
	return nil
}

// add adds opts to what the URL has said.
func (db *DB) add(opts Options) error {
	password, secure := db.places()
	if opts.Password != "" {
		if *password != "" {
			return ErrPassword
		}
		*password = opts.Password
	}
	if opts.SentinelPassword != "" {
		if db.sentinel == nil || db.sentinel.SentinelPassword != "" {
			return ErrSentinelPassword
		}
		db.sentinel.SentinelPassword = opts.SentinelPassword
	}
	if opts.RootCAs == nil && opts.Certificate == nil {
		return nil
	}
	if secure == nil {
		return ErrNoTLS
	}
	secure.RootCAs = opts.RootCAs
	if opts.Certificate != nil {
		secure.Certificates = []tls.Certificate{*opts.Certificate}
	}
	return nil
}

// places returns where the client finds its password, and its TLS, which is nil for none.
func (db *DB) places() (password *string, secure *tls.Config) {
	switch {
	case db.sentinel != nil:
		return &db.sentinel.Password, db.sentinel.TLSConfig
	case db.cluster != nil:
		return &db.cluster.Password, db.cluster.TLSConfig
	}
	return &db.opts.Password, db.opts.TLSConfig
}
