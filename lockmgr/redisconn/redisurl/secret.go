package redisurl

import (
	"errors"
	"net"
	"net/url"
	"strconv"
	"strings"
)

var (
	errScheme = errors.New(`neither "embedded" nor a URL that begins with redis://, rediss://, unix://, ` +
		`redis+sentinel:// or redis+cluster://`)

	// In both cases the end of the password is unknown, so the errors repeat no part of the URL.
	errAt = errors.New("an @ follows a /, ? or #: in a user or a password write those as %2F, %3F and %23, " +
		"and elsewhere write an @ as %40")
	errURL = errors.New("cannot be read as a URL: check host and port, and escape special characters in a user or a " +
		"password (%40 for @)")
)

// misplacedAt reports whether an @ follows the first /, ? or #: a part of a password might then be taken for an
// address. rest follows the scheme.
func misplacedAt(rest string) bool {
	end := strings.IndexAny(rest, "/?#")
	return end >= 0 && strings.Contains(rest[end:], "@")
}

// redact returns a URL, even a malformed one, without user, password and parameters.
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
	if !strings.Contains(rest, "@") && !isAddresses(rest) {
		return scheme + "…" // it may be a password whose @ was forgotten
	}
	if at := strings.LastIndex(rest, "@"); at >= 0 {
		rest = "…@" + rest[at+1:]
	}
	if address, _, found := strings.Cut(rest, "?"); found {
		rest = address + "?…"
	}
	return scheme + rest
}

// isAddresses reports whether rest, the part after the scheme, begins with hosts and numeric ports.
func isAddresses(rest string) bool {
	if end := strings.IndexAny(rest, "/?#"); end >= 0 {
		rest = rest[:end]
	}
	for address := range strings.SplitSeq(rest, ",") {
		host, port, err := net.SplitHostPort(address)
		if err != nil {
			host = address
		}
		_, err = strconv.ParseUint(port, 10, 16)
		if port != "" && err != nil || strings.ContainsAny(host, ":%") && net.ParseIP(strings.Trim(host, "[]")) == nil {
			return false
		}
	}
	return true
}

// withoutURL removes the URL that a parser's error quotes.
func withoutURL(err error) error {
	var parse *url.Error
	if errors.As(err, &parse) {
		return errURL
	}
	return errors.New(strings.TrimPrefix(err.Error(), "redis: "))
}
