package node

import (
	"bytes"
	"errors"
	"fmt"

	"roomd/lockmgr/redisconn/redisurl"
	"roomd/transport/internal/reload"
)

// RedisFiles are the flags that name files of secrets and certificates for Redis, and Dial.
type RedisFiles struct {
	RedisPasswordFile         *string `placeholder:"FILE" help:"File with the password of the URL's user, which other users of the machine would see in the URL. A line break at its end does not count."`
	RedisSentinelPasswordFile *string `placeholder:"FILE" help:"File with the password of the Sentinels. Their user is sentinel_username in the URL."`
	RedisCA                   *string `name:"redis-ca" placeholder:"FILE" help:"PEM file with the authorities that certify Redis, in place of the system's. This and the next two need a rediss URL, and count for Sentinels, too."`
	RedisCert                 *string `and:"redis-tls" placeholder:"FILE" help:"PEM file with the certificate that Redis gets to see of this node."`
	RedisKey                  *string `and:"redis-tls" placeholder:"FILE" help:"PEM file with its private key."`

	Dial redisurl.Dialer `kong:"-"` // opens the connections; may be nil
}

// Open reads the files, and opens the Redis of the flag --redis. It returns a [UseError] if the flags contradict each
// other.
func (f *RedisFiles) Open(url string) (*redisurl.DB, error) {
	opts, err := f.options()
	if err != nil {
		return nil, err
	}
	db, err := redisurl.OpenWith(url, opts)
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
			return nil, UseError{fmt.Errorf("%s and --redis: %w", contradiction.flag, err)}
		}
	}
	return nil, UseError{fmt.Errorf("--%w", err)} // redisurl's error begins with redis
}

func firstGiven(one string, value *string, other string) string {
	if value != nil {
		return one
	}
	return other
}

func (f *RedisFiles) options() (opts redisurl.Options, err error) {
	opts.Dial = f.Dial
	if opts.Password, err = passwordFile("--redis-password-file", f.RedisPasswordFile); err != nil {
		return opts, err
	}
	if opts.SentinelPassword, err = passwordFile("--redis-sentinel-password-file",
		f.RedisSentinelPasswordFile); err != nil {
		return opts, err
	}
	if f.RedisCA != nil {
		if opts.RootCAs, err = reload.Authorities(*f.RedisCA); err != nil {
			return opts, fmt.Errorf("--redis-ca: %w", err)
		}
	}
	if f.RedisCert != nil && f.RedisKey != nil { // kong requires both or neither
		if opts.Certificate, err = reload.Pair(*f.RedisCert, *f.RedisKey); err != nil {
			return opts, fmt.Errorf("%s: %w", ofFile(err, "--redis-cert", *f.RedisCert, "--redis-key"), err)
		}
	}
	return opts, nil
}

// ofFile returns which of two flags names the file in err.
func ofFile(err error, one, path, other string) string {
	var of *reload.FileError
	if errors.As(err, &of) && of.Path != path {
		return other
	}
	return one
}

// passwordFile returns the password in a file, or "" if the flag is not given.
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
