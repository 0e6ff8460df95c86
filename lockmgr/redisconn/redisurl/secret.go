package redisurl

import (
	"errors"
	"net/url"
	"strings"
)

var (
	errScheme = errors.New(`neither "embedded" nor a URL that begins with redis://, rediss://, unix://, redis+sentinel:// or redis+cluster://`)

	// Where the password ends is not known in these two cases, so the error repeats
	// nothing of the URL.
	errAt  = errors.New("an @ stands behind a /, ? or #: in a user or a password those are written %2F, %3F and %23, and elsewhere an @ is written %40")
	errURL = errors.New("cannot be read as a URL: look at host and port, and escape what is special in a user or a password (%40 for @)")
)

// misplacedAt reports whether the @ that ends user and password is not where a URL
// has it, before the first /, ? or #, so that a part of a password would be taken
// for an address. rest is what follows the scheme.
func misplacedAt(rest string) bool {
	end := strings.IndexAny(rest, "/?#")
	return end >= 0 && strings.Contains(rest[end:], "@")
}

// redact returns a URL, or what was meant to be one, without user, password and
// parameters.
func redact(rawURL string) string {
	scheme, rest, ok := strings.Cut(rawURL, "://")
	if ok {
		scheme += "://"
	} else {
		scheme, rest = "", rawURL
	}
	if misplacedAt(rest) {
		return scheme + "…"
	}
	if at := strings.LastIndex(rest, "@"); at >= 0 {
		rest = "…@" + rest[at+1:]
	}
	if address, _, found := strings.Cut(rest, "?"); found {
		rest = address + "?…"
	}
	return scheme + rest
}

// withoutURL returns the error of a parser without the URL that it quotes.
func withoutURL(err error) error {
	var parse *url.Error
	if errors.As(err, &parse) {
		return errURL
	}
	return errors.New(strings.TrimPrefix(err.Error(), "redis: "))
}
