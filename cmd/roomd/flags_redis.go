package main

import (
	"bytes"
	"errors"
	"fmt"

	"roomd/lockmgr/redisconn/redisurl"
	"roomd/transport/certfile"
	"roomd/transport/reload"
)

// redisFlags say where the rooms are kept.
type redisFlags struct {
	Redis    string `default:"embedded" placeholder:"URL" help:"redis://[user:password@]host:port[/db], rediss://… for TLS, unix:///path/to/socket, redis+sentinel://host:port,…/master, redis+cluster://host:port,…, also with rediss+, or embedded: inside this process, keeping nothing, for trying it out (default ${default})."`
	Replicas int    `default:"0" placeholder:"0" help:"How many replicas of Redis must have an action before it is acknowledged."`

	RedisPasswordFile         *string `placeholder:"FILE" help:"File with the password of the URL's user, which other users of the machine would see in the URL. A line break at its end does not count."`
	RedisSentinelPasswordFile *string `placeholder:"FILE" help:"File with the password of the Sentinels. Their user is sentinel_username in the URL."`
	RedisCA                   *string `name:"redis-ca" placeholder:"FILE" help:"PEM file with the authorities that certify Redis, in place of the system's. This and the next two need a rediss URL, and count for Sentinels, too."`
	RedisCert                 *string `placeholder:"FILE" help:"PEM file with the certificate that Redis gets to see of this node."`
	RedisKey                  *string `placeholder:"FILE" help:"PEM file with its private key."`
}

func (f *redisFlags) validate() error {
	if f.Replicas < 0 {
		return fmt.Errorf("--replicas is %d, it must not be negative", f.Replicas)
	}
	if f.Replicas > 0 && f.Redis == redisurl.Embedded {
		return fmt.Errorf("--replicas is %d, and the embedded Redis has no replica: give --redis, too", f.Replicas)
	}
	return together("--redis-cert", f.RedisCert, "--redis-key", f.RedisKey)
}

// together returns an error if one of two flags is given, and the other is not.
func together(one string, a *string, other string, b *string) error {
	switch {
	case a != nil && b == nil:
		return fmt.Errorf("%s needs %s: a certificate and its private key go together", one, other)
	case a == nil && b != nil:
		return fmt.Errorf("%s needs %s: a certificate and its private key go together", other, one)
	}
	return nil
}

// open reads the files that the flags name, and opens the Redis. A useError says that the flags do
// not go together.
func (f *redisFlags) open() (*redisurl.DB, error) {
	opts, err := f.options()
	if err != nil {
		return nil, err
	}
	db, err := redisurl.OpenWith(f.Redis, opts)
	if err == nil {
		return db, nil
	}
	for _, contradiction := range []struct {
		err  error
		flag string
	}{
		{redisurl.ErrPassword, "--redis-password-file"},
		{redisurl.ErrSentinelPassword, "--redis-sentinel-password-file"},
		{redisurl.ErrNoTLS, firstGiven("--redis-ca", f.RedisCA, "--redis-cert")},
	} {
		if errors.Is(err, contradiction.err) {
			return nil, useError{fmt.Errorf("%s and --redis: %w", contradiction.flag, err)}
		}
	}
	return nil, useError{fmt.Errorf("--redis: %w", err)}
}

func firstGiven(one string, value *string, other string) string {
	if value != nil {
		return one
	}
	return other
}

func (f *redisFlags) options() (opts redisurl.Options, err error) {
	if opts.Password, err = passwordFile("--redis-password-file", f.RedisPasswordFile); err != nil {
		return opts, err
	}
	if opts.SentinelPassword, err = passwordFile("--redis-sentinel-password-file", f.RedisSentinelPasswordFile); err != nil {
		return opts, err
	}
	if f.RedisCA != nil {
		if opts.RootCAs, err = certfile.Pool(*f.RedisCA); err != nil {
			return opts, fmt.Errorf("--redis-ca: %w", err)
		}
	}
	if f.RedisCert != nil {
		if opts.Certificate, err = certfile.Pair(*f.RedisCert, *f.RedisKey); err != nil {
			return opts, fmt.Errorf("%s: %w", flagOfFile(err, "--redis-cert", *f.RedisCert, "--redis-key"), err)
		}
	}
	return opts, nil
}

// flagOfFile returns the one of two flags that names the file which err is about.
func flagOfFile(err error, one, path, other string) string {
	var of *reload.FileError
	if errors.As(err, &of) && of.Path != path {
		return other
	}
	return one
}

// passwordFile returns the password in a file, or "" if flag is not given.
func passwordFile(flag string, path *string) (string, error) {
	if path == nil {
		return "", nil
	}
	text, err := reload.Read(*path)
	if err != nil {
		return "", fmt.Errorf("%s: %w", flag, err)
	}
	text = reload.TrimLine(text)
	switch {
	case len(text) == 0:
		err = errors.New("the file has no password")
	case bytes.ContainsAny(text, "\r\n\x00"):
		err = errors.New("a password is one line of text")
	}
	if err != nil {
		return "", fmt.Errorf("%s: %w", flag, reload.NewFileError(*path, err))
	}
	return string(text), nil
}
