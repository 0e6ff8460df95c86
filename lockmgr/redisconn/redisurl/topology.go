package redisurl

import (
	"errors"
	"fmt"
	"net"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
)

const (
	// maxRedirects limits the repetitions of a request to a Cluster, whose client ignores MaxRetries: one for a slot
	// that has moved (MOVED), one for a slot that is moving (ASK), and one for a dead connection.
	maxRedirects = 3

	// reloadInterval is how often a client in use asks which server has which slots. A redirect makes it ask at once,
	// but a dead server does not redirect.
	reloadInterval = time.Second
)

// parts are the parts of a URL that names several servers, which net/url cannot parse.
type parts struct {
	base      string // scheme of a single server: redis or rediss
	user      *url.Userinfo
	addresses []string // at least one
	path      []string
	query     url.Values
}

// split parses a URL; rest is the text after the scheme.
func split(base, rest string) (p parts, err error) {
	p.base = base
	rest, query, _ := strings.Cut(rest, "?")
	if p.query, err = url.ParseQuery(query); err != nil {
		return p, errURL
	}
	addresses, path, _ := strings.Cut(rest, "/")
	if at := strings.LastIndex(addresses, "@"); at >= 0 {
		u, err := url.Parse("redis://" + addresses[:at] + "@host")
		if err != nil {
			return p, errURL
		}
		p.user, addresses = u.User, addresses[at+1:]
	}
	for address := range strings.SplitSeq(addresses, ",") {
		if err := checkAddress(address); err != nil {
			return p, err
		}
		p.addresses = append(p.addresses, address)
	}
	for name := range strings.SplitSeq(strings.Trim(path, "/"), "/") {
		if name, err = url.PathUnescape(name); err != nil {
			return p, errURL
		}
		if name != "" {
			p.path = append(p.path, name)
		}
	}
	return p, nil
}

func checkAddress(address string) error {
	if address == "" {
		return errors.New("an address is missing: host:port, or several with commas between them")
	}
	host, port, err := net.SplitHostPort(address)
	if err != nil || host == "" {
		return fmt.Errorf("address %q is not host:port", address)
	}
	if n, err := strconv.ParseUint(port, 10, 16); err != nil || n == 0 {
		return fmt.Errorf("address %q: port %q is not a number from 1 to 65535", address, port)
	}
	return nil
}

// refuse returns an error for parameters that have another place in the URL, and for those that read from replicas,
// which may lack acknowledged writes.
func (p parts) refuse() error {
	for _, name := range []string{"addr", "db", "master_name", "username", "password"} {
		if p.query.Has(name) {
			return fmt.Errorf("%s is not a parameter: it belongs in front of the ?", name)
		}
	}
	for _, name := range []string{"read_only", "replica_only", "use_disconnected_replicas", "route_by_latency",
		"route_by_latency_tolerance", "route_randomly"} {
		if p.query.Has(name) {
			return fmt.Errorf("%s cannot be used: replicas may lack what was acknowledged", name)
		}
	}
	return nil
}

// single returns the URL in go-redis' form: one address, the others as parameters, and no user.
func (p parts) single() string {
	for _, address := range p.addresses[1:] {
		p.query.Add("addr", address)
	}
	u := url.URL{Scheme: p.base, Host: p.addresses[0], RawQuery: p.query.Encode()}
	return u.String()
}

func (p parts) userPassword() (user, password string) {
	if p.user == nil {
		return "", ""
	}
	password, _ = p.user.Password()
	return p.user.Username(), password
}

func openSentinel(p parts) (*redis.FailoverOptions, error) {
	if err := p.refuse(); err != nil {
		return nil, err
	}
	if len(p.path) == 0 {
		return nil, errors.New("the name of the master is missing; it follows the addresses, " +
			"as in redis+sentinel://host:26379/mymaster")
	}
	db := 0
	if len(p.path) > 1 {
		var err error
		if db, err = strconv.Atoi(strings.Join(p.path[1:], "/")); err != nil || db < 0 {
			return nil, fmt.Errorf("database %q is not a number", strings.Join(p.path[1:], "/"))
		}
	}
	user, password := p.query.Get("sentinel_username"), p.query.Get("sentinel_password")
	p.query.Del("sentinel_username")
	p.query.Del("sentinel_password")
	o, err := redis.ParseFailoverURL(p.single())
	if err != nil {
		return nil, withoutURL(err)
	}
	o.MasterName, o.DB = p.path[0], db
	o.SentinelUsername, o.SentinelPassword = user, password
	o.Username, o.Password = p.userPassword()
	if o.TLSConfig != nil {
		o.TLSConfig.ServerName = "" // each server has its own
	}
	return o, nil
}

func openCluster(p parts) (*redis.ClusterOptions, error) {
	if err := p.refuse(); err != nil {
		return nil, err
	}
	if len(p.path) > 0 {
		return nil, fmt.Errorf("a Redis Cluster has no databases to choose from, and no name: remove %q",
			"/"+strings.Join(p.path, "/"))
	}
	o, err := redis.ParseClusterURL(p.single())
	if err != nil {
		return nil, withoutURL(err)
	}
	o.Username, o.Password = p.userPassword()
	if o.TLSConfig != nil {
		o.TLSConfig.ServerName = "" // each server has its own
	}
	return o, nil
}
