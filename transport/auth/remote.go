package auth

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"roomd/transport/internal/reload"
)

const (
	maxAge       = 5 * time.Minute  // of a set, before it is fetched again
	fetchPause   = 10 * time.Second // between two requests, whatever tokens come
	fetchTimeout = 3 * time.Second
)

// JWKSURL names a JSON Web Key Set by its URL: https, or http on loopback. [New] fails if it cannot be fetched. Later
// it is fetched again for a token that names no key of it, at most every 10 s, and for the first token after 5 minutes.
// While that fails the last usable set stays valid. Redirections are not followed. Addresses of a private network are
// refused unless private is true; a loopback URL may lead to loopback.
func JWKSURL(url string, private bool) KeySource { return KeySource{url: url, private: private} }

// remote is a key set from a URL.
type remote struct {
	url    string
	client *http.Client
	log    *slog.Logger
	last   atomic.Pointer[fetched]

	turn    chan struct{} // has an element during a fetch
	failure string        // guarded by turn: the last fetch's error, as logged; "" after a success
}

// fetched is the last usable set, and when the last fetch ended.
type fetched struct {
	*keys
	tried time.Time
}

func newRemote(source KeySource, log *slog.Logger) (*remote, error) {
	u, err := url.Parse(source.url)
	if err != nil {
		return nil, errors.New("is no URL")
	}
	ip, _ := netip.ParseAddr(u.Hostname())
	loopback := strings.EqualFold(u.Hostname(), "localhost") || ip.Unmap().IsLoopback()
	switch {
	case u.Hostname() == "" || u.Scheme != "https" && (u.Scheme != "http" || !loopback):
		return nil, errors.New("a URL must begin with https://, or on loopback with http://, and name a host")
	case u.User != nil:
		return nil, errors.New("a URL must have no user and password")
	}
	dialer := &net.Dialer{Timeout: fetchTimeout}
	if !source.private {
		dialer.Control = func(_, address string, _ syscall.RawConn) error { return checkPublic(address, loopback) }
	}
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.DialContext, transport.DisableKeepAlives = dialer.DialContext, true
	transport.MaxResponseHeaderBytes = 64 << 10
	return &remote{url: source.url, log: log, turn: make(chan struct{}, 1), client: &http.Client{
		Transport: transport, Timeout: fetchTimeout,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}, nil
}

// special are networks, besides those that package netip knows, that are not of the internet, or contain addresses of
// IPv4 networks.
var special = []netip.Prefix{
	netip.MustParsePrefix("0.0.0.0/8"), netip.MustParsePrefix("100.64.0.0/10"), netip.MustParsePrefix("192.0.0.0/24"),
	netip.MustParsePrefix("198.18.0.0/15"), netip.MustParsePrefix("240.0.0.0/4"), netip.MustParsePrefix("::/96"),
	netip.MustParsePrefix("64:ff9b::/96"), netip.MustParsePrefix("64:ff9b:1::/48"), netip.MustParsePrefix("2002::/16"),
	netip.MustParsePrefix("fec0::/10"),
}

// checkPublic refuses an address, with its port, of a private network. It is called after the name's resolution, so
// that no name can lead elsewhere later.
func checkPublic(address string, loopback bool) error {
	at, err := netip.ParseAddrPort(address)
	if err != nil {
		return err
	}
	ip := at.Addr().Unmap().WithZone("")
	refused := !ip.IsGlobalUnicast() || ip.IsPrivate()
	for _, network := range special {
		refused = refused || network.Contains(ip)
	}
	if refused && !(loopback && ip.IsLoopback()) {
		return fmt.Errorf("%s is a private address; --auth-jwks-private allows it", ip)
	}
	return nil
}

// keysFor returns the set for a token with the header h. It fetches the set first if it is old, or has no such key.
func (r *remote) keysFor(h header) *keys {
	last := r.last.Load()
	found, age := last.find(h.keyID, h.named) != nil, time.Since(last.tried)
	switch {
	case found && age < maxAge:
		return last.keys
	case !found || age > 2*maxAge: // the key may be new, or withdrawn long ago
		r.turn <- struct{}{}
	default:
		select {
		case r.turn <- struct{}{}:
		default: // another call fetches
			return last.keys
		}
	}
	defer func() { <-r.turn }()
	if time.Since(r.last.Load().tried) >= fetchPause {
		r.refresh()
	}
	return r.last.Load().keys
}

// start fetches the first set.
func (r *remote) start() error {
	first, err := r.fetch()
	if err != nil {
		return reload.NewFileError(r.url, err)
	}
	r.last.Store(&fetched{first, time.Now()})
	return nil
}

// refresh fetches the set. The caller has the turn.
func (r *remote) refresh() {
	next, err := r.fetch()
	switch {
	case err != nil:
		next = r.last.Load().keys
		if err.Error() != r.failure {
			r.failure = err.Error()
			r.log.Error("the key set cannot be fetched, the old keys count", "url", r.url, "error", err)
		}
	case r.failure != "":
		r.failure = ""
		r.log.Info("the key set can be fetched again", "url", r.url)
	}
	r.last.Store(&fetched{next, time.Now()})
}

func (r *remote) fetch() (*keys, error) {
	req, err := http.NewRequestWithContext(context.Background(), http.MethodGet, r.url, nil)
	if err != nil {
		return nil, err
	}
	res, err := r.client.Do(req)
	if of, is := errors.AsType[*url.Error](err); is {
		err = of.Err // the error without the URL
	}
	if err != nil {
		return nil, err
	}
	defer res.Body.Close()
	if res.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("the answer is HTTP %d instead of 200; redirections are not followed", res.StatusCode)
	}
	text, err := io.ReadAll(io.LimitReader(res.Body, reload.MaxSize+1))
	if err != nil {
		return nil, err
	}
	if len(text) > reload.MaxSize {
		return nil, fmt.Errorf("longer than %d MiB", reload.MaxSize>>20)
	}
	return parseJWKS(text)
}
