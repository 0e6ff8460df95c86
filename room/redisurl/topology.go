package redisurl

import (
	"errors"
	"fmt"
	"net/url"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"
)

// Schemes of the topologies; "rediss+…" is the same over TLS.
const (
	sentinelSuffix = "+sentinel"
	clusterSuffix  = "+cluster"
)

// parts are a URL of a topology, taken to pieces by hand: net/url knows one host.
type parts struct {
	base  string // redis or rediss
	user  *url.Userinfo
	hosts []string
	path  []string
	query url.Values
}

func split(rawURL, suffix string) (p parts, err error) {
	scheme, rest, _ := strings.Cut(rawURL, "://")
	p.base = strings.TrimSuffix(scheme, suffix)
	rest, query, _ := strings.Cut(rest, "?")
	if p.query, err = url.ParseQuery(query); err != nil {
		return p, errors.New("the query cannot be read")
	}
	if at := strings.LastIndex(rest, "@"); at >= 0 {
		u, err := url.Parse(p.base + "://" + rest[:at] + "@host")
		if err != nil {
			return p, errors.New("user and password cannot be read; escape what is special in them (%40 for @)")
		}
		p.user, rest = u.User, rest[at+1:]
	}
	hosts, path, _ := strings.Cut(rest, "/")
	for host := range strings.SplitSeq(hosts, ",") {
		if host == "" {
			return p, errors.New("an address is missing: host:port, or several by comma")
		}
		p.hosts = append(p.hosts, host)
	}
	if path = strings.Trim(path, "/"); path != "" {
		p.path = strings.Split(path, "/")
	}
	return p, nil
}

// single returns the URL in the form that go-redis reads: one host, and the others
// as parameters.
func (p parts) single(path string) string {
	query := p.query
	for _, host := range p.hosts[1:] {
		query.Add("addr", host)
	}
	u := url.URL{Scheme: p.base, User: p.user, Host: p.hosts[0], Path: path, RawQuery: query.Encode()}
	return u.String()
}

func openSentinel(rawURL string) (*redis.FailoverOptions, error) {
	p, err := split(rawURL, sentinelSuffix)
	if err != nil {
		return nil, err
	}
	if len(p.path) == 0 || len(p.path) > 2 {
		return nil, errors.New("the master's name is missing: redis+sentinel://host:port,…/NAME or …/NAME/db")
	}
	// Who is named before the @ is a user of Redis, here as in the other URLs; those
	// of the sentinels are parameters.
	user, password := p.query.Get("sentinel_username"), p.query.Get("sentinel_password")
	p.query.Del("sentinel_username")
	p.query.Del("sentinel_password")
	p.query.Set("master_name", p.path[0])
	redisUser := p.user
	p.user = nil
	path := ""
	if len(p.path) == 2 {
		path = "/" + p.path[1]
	}
	o, err := redis.ParseFailoverURL(p.single(path))
	if err != nil {
		return nil, err
	}
	o.SentinelUsername, o.SentinelPassword = user, password
	if redisUser != nil {
		o.Username = redisUser.Username()
		o.Password, _ = redisUser.Password()
	}
	o.ContextTimeoutEnabled = true
	o.MaxRetries = orElse(o.MaxRetries, maxRetries)
	o.PoolSize = orElse(o.PoolSize, poolSize)
	o.DialTimeout, o.ReadTimeout, o.WriteTimeout = orElse(o.DialTimeout, dialTimeout), orElse(o.ReadTimeout, ioTimeout), orElse(o.WriteTimeout, ioTimeout)
	o.DialerRetries = 1
	return o, nil
}

func openCluster(rawURL string) (*redis.ClusterOptions, error) {
	p, err := split(rawURL, clusterSuffix)
	if err != nil {
		return nil, err
	}
	if len(p.path) > 0 {
		return nil, fmt.Errorf("a Redis Cluster has no databases to choose from, but the URL names %q", p.path[0])
	}
	o, err := redis.ParseClusterURL(p.single(""))
	if err != nil {
		return nil, err
	}
	o.ContextTimeoutEnabled = true
	// A cluster client follows redirects and retries by the same count. A slot that
	// moves takes two (ASK, MOVED), a master that is gone one more.
	o.MaxRedirects = orElse(o.MaxRedirects, 3)
	o.PoolSize = orElse(o.PoolSize, poolSize)
	o.DialTimeout, o.ReadTimeout, o.WriteTimeout = orElse(o.DialTimeout, dialTimeout), orElse(o.ReadTimeout, ioTimeout), orElse(o.WriteTimeout, ioTimeout)
	o.DialerRetries = 1
	o.MaintNotificationsConfig = &maintnotifications.Config{Mode: maintnotifications.ModeDisabled}
	return o, nil
}

// orElse returns the default for what the URL left open.
func orElse[T int | time.Duration](value, byDefault T) T {
	if value == 0 {
		return byDefault
	}
	return value
}
