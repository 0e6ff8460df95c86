package redisurl

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"net"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"

	"roomd/lockmgr/redistest"
	"roomd/lockmgr/redistest/certs"
)

// What the URL and the options say must go together, and no error tells a password.
func TestContradictions(t *testing.T) {
	password, sentinel := Options{Password: "hidden"}, Options{SentinelPassword: "hidden"}
	roots, cert := Options{RootCAs: x509.NewCertPool()}, Options{Certificate: new(tls.Certificate)}
	dial := Options{Dial: new(net.Dialer).DialContext}
	for _, tt := range []struct {
		url  string
		opts Options
		want error
	}{
		{Embedded, password, ErrPassword},
		{"redis://u:secret@h", password, ErrPassword},
		{"redis://:secret@h", password, ErrPassword},
		{"unix://u:secret@/s", password, ErrPassword},
		{"redis+sentinel://u:secret@h:1/m", password, ErrPassword},
		{"redis+cluster://u:secret@h:1", password, ErrPassword},
		{Embedded, dial, ErrDial},
		{"rediss://h", dial, ErrDial},
		{"rediss+sentinel://h:1/m", dial, ErrDial},
		{"rediss+cluster://h:1", dial, ErrDial},
		{Embedded, sentinel, ErrSentinelPassword},
		{"redis://h", sentinel, ErrSentinelPassword},
		{"redis+cluster://h:1", sentinel, ErrSentinelPassword},
		{"redis+sentinel://h:1/m?sentinel_password=secret", sentinel, ErrSentinelPassword},
		{Embedded, roots, ErrNoTLS},
		{Embedded, cert, ErrNoTLS},
		{"redis://h", roots, ErrNoTLS},
		{"redis://u:secret@h", cert, ErrNoTLS},
		{"unix:///s", roots, ErrNoTLS},
		{"redis+sentinel://h:1/m", cert, ErrNoTLS},
		{"redis+cluster://h:1", roots, ErrNoTLS},
	} {
		db, err := OpenWith(tt.url, tt.opts)
		if db != nil || !errors.Is(err, tt.want) || strings.Contains(err.Error(), "hidden") || strings.Contains(err.Error(), "secret") {
			t.Errorf("%s: %v, want %v", tt.url, err, tt.want)
		}
	}
}

// A client finds the password and the certificates, whatever it is a client of.
func TestOptionsOfClients(t *testing.T) {
	opts := Options{Password: "p", RootCAs: x509.NewCertPool(), Certificate: &tls.Certificate{Certificate: [][]byte{{1}}}}
	right := func(user, password string, secure *tls.Config) bool {
		return user == "u" && password == "p" && secure.RootCAs == opts.RootCAs && len(secure.Certificates) == 1 && !secure.InsecureSkipVerify
	}
	for _, url := range []string{"rediss://u@h:1", "rediss+sentinel://u@h:1/m", "rediss+cluster://u@h:1"} {
		db, err := OpenWith(url, opts)
		redistest.OK(t, err)
		client := db.NewClient()
		ok := false
		switch c := client.(type) {
		case *redis.ClusterClient:
			ok = right(c.Options().Username, c.Options().Password, c.Options().TLSConfig)
		case *redis.Client:
			ok = right(c.Options().Username, c.Options().Password, c.Options().TLSConfig)
		}
		redistest.ErrorIf(t, !ok, "%s: %+v", url, client)
		client.Close()
	}
	db, err := OpenWith("redis://u@h:1", Options{Password: "p"})
	redistest.ErrorIf(t, err != nil || db.opts.Username != "u" || db.opts.Password != "p", "without TLS: %v", err)
}

// All connections are of the caller's making: those to a server, to a Cluster's servers, and to Sentinels.
func TestOptionsDial(t *testing.T) {
	for _, url := range []string{"redis://h:1", "redis+sentinel://h:1/m", "redis+cluster://h:1"} {
		dialed := ""
		db, err := OpenWith(url, Options{Dial: func(_ context.Context, network, addr string) (net.Conn, error) {
			dialed = network + " " + addr
			return nil, errors.New("there is no way")
		}})
		redistest.OK(t, err)
		client := db.NewClient()
		err = client.Ping(t.Context()).Err()
		redistest.ErrorIf(t, err == nil || dialed != "tcp h:1", "%s: %v, dialed %q", url, err, dialed)
		client.Close()
	}
}

// TLS with an own authority and a client's certificate reaches a real server, its Sentinel, and a
// Cluster. Without either it does not.
func TestRealTLS(t *testing.T) {
	t.Parallel()
	authority := certs.New(t)
	certFile, keyFile := authority.Issue("client")
	cert, err := tls.LoadX509KeyPair(certFile, keyFile)
	redistest.OK(t, err)
	_, single := redistest.StartTLS(t, authority)
	sentinel := redistest.StartSentinelTLS(t, authority, single, "watchword")
	node, cluster := redistest.StartTLS(t, authority, "--cluster-enabled", "yes", "--tls-cluster", "yes", "--cluster-announce-ip", "127.0.0.1")
	redistest.OK(t, node.Client().Do(t.Context(), "CLUSTER", "ADDSLOTSRANGE", 0, 16383).Err())
	full := Options{RootCAs: authority.Pool, Certificate: &cert}
	for url, opts := range map[string]Options{
		"rediss://" + single:                           full,
		"rediss+sentinel://" + sentinel + "/redistest": {RootCAs: full.RootCAs, Certificate: full.Certificate, SentinelPassword: "watchword"},
		"rediss+cluster://" + cluster:                  full,
	} {
		set := func(opts Options) error {
			db, err := OpenWith(url, opts)
			redistest.OK(t, err)
			client := db.NewClient()
			defer client.Close()
			return client.Set(t.Context(), "k", "v", 0).Err()
		}
		var err error
		for range 50 { // a Cluster needs a moment to be one
			if err = set(opts); err == nil || !strings.Contains(err.Error(), "CLUSTERDOWN") {
				break
			}
		}
		redistest.ErrorIf(t, err != nil, "%s: %v", url, err)
		for what, opts := range map[string]Options{
			"without the authority":   {Certificate: full.Certificate, SentinelPassword: opts.SentinelPassword},
			"without a certificate":   {RootCAs: full.RootCAs, SentinelPassword: opts.SentinelPassword},
			"with a stranger's certs": {RootCAs: certs.New(t).Pool, Certificate: full.Certificate, SentinelPassword: opts.SentinelPassword},
		} {
			err := set(opts)
			redistest.ErrorIf(t, err == nil, "%s %s: it was written", url, what)
		}
	}
	db, err := OpenWith("rediss+sentinel://"+sentinel+"/redistest", full)
	redistest.OK(t, err)
	client := db.NewClient()
	defer client.Close()
	err = client.Ping(t.Context()).Err()
	redistest.ErrorIf(t, err == nil, "a Sentinel told the primary without its password")
}
