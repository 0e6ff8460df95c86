package webhook

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"

	"roomd/transport/api"
)

// Receiver is a URL, and a filter for the commits sent to it.
type Receiver struct {
	URL    string
	Filter api.FeedFilter
}

// ParseReceiver reads a URL of http or https. A filter may follow after #: rooms=table-*,cup-* and kinds=join,leave,
// joined by &. The errors do not repeat the URL, which may contain a secret.
func ParseReceiver(text string) (r Receiver, err error) {
	u, err := url.Parse(text)
	switch {
	case err != nil:
		return r, errors.New("is no URL")
	case u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || u.Opaque != "":
		return r, errors.New("must be a URL such as https://game.example/roomd")
	case u.User != nil:
		return r, errors.New("must have no user and password; the receiver checks the signature")
	}
	wants, err := url.ParseQuery(u.EscapedFragment())
	if err != nil {
		return r, errors.New("has something behind # that cannot be read; rooms=table-*&kinds=join,leave would do")
	}
	for name, values := range wants {
		list := strings.Split(strings.Join(values, ","), ",")
		switch name {
		case "rooms":
			r.Filter.Rooms = list
		case "kinds":
			r.Filter.Kinds = list
		default:
			return r, fmt.Errorf("has %.20q behind #; there may be rooms and kinds", name)
		}
	}
	if err := r.Filter.Check(); err != nil {
		return r, fmt.Errorf("has something behind # that cannot be used: %w", err)
	}
	u.Fragment, u.RawFragment = "", ""
	r.URL = u.String()
	return r, nil
}

// Host names the receiver in logs and metrics: without path and query, which may contain a secret.
func (r Receiver) Host() string {
	u, err := url.Parse(r.URL)
	if err != nil {
		return "?"
	}
	return u.Scheme + "://" + u.Host
}

// name names the receiver's place in Redis. It does not depend on the filter, which may change.
func (r Receiver) name() string {
	sum := sha256.Sum256([]byte(r.URL))
	return hex.EncodeToString(sum[:12])
}

// Check fails if two receivers have the same URL.
func Check(receivers []Receiver) error {
	all := slices.Clone(receivers)
	slices.SortFunc(all, func(a, b Receiver) int { return cmp.Compare(a.URL, b.URL) })
	for i := 1; i < len(all); i++ {
		if all[i].URL == all[i-1].URL {
			return fmt.Errorf("the same receiver at %s is there twice; one URL is one receiver, whatever stands behind #", all[i].Host())
		}
	}
	return nil
}
