package redisurl

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"
	"go.uber.org/goleak"

	"roomd/lockmgr/redistest"
)

func TestMain(m *testing.M) {
	redistest.MostlyWaiting()
	goleak.VerifyTestMain(m)
}

func TestEmbedded(t *testing.T) {
	db, err := Open(Embedded)
	redistest.OK(t, err)
	defer db.Close()
	a, b := db.NewClient(), db.NewClient()
	defer a.Close()
	defer b.Close()
	redistest.OK(t, a.Set(t.Context(), "k", "v", time.Minute).Err())
	got := b.Get(t.Context(), "k").Val()
	redistest.FatalIf(t, got != "v", "the other client reads %q", got)
	redistest.ErrorIf(t, !db.IsEmbedded(), "IsEmbedded is false")
}

func TestRealURL(t *testing.T) {
	server := redistest.Start(t)
	db, err := Open(server.URL())
	redistest.OK(t, err)
	client := db.NewClient()
	defer client.Close()
	redistest.OK(t, client.Ping(t.Context()).Err())
}

func TestURLOverridesDefaults(t *testing.T) {
	db, err := Open("redis://127.0.0.1:1/2?read_timeout=7s&pool_size=3&max_retries=9")
	redistest.OK(t, err)
	o := db.opts
	if o.ReadTimeout != 7*time.Second || o.PoolSize != 3 || o.MaxRetries != 9 || o.DB != 2 || !o.ContextTimeoutEnabled {
		t.Errorf("options are %+v", o)
	}
	redistest.ErrorIf(t, o.WriteTimeout != ioTimeout || o.DialTimeout != dialTimeout, "defaults are gone: %+v", o)
}

func TestBadURLs(t *testing.T) {
	for _, bad := range []struct{ url, why string }{
		{"", "embedded"},
		{"localhost:6379", "redis+cluster://"},
		{"u:secret@localhost:6379", "redis+cluster://"},
		{"http://x", "redis+cluster://"},
		{"ftp://u:secret@h", "redis+cluster://"},
		{"redis+other://u:secret@x", "redis+cluster://"},
		{"unix+cluster://u:secret@x", "redis+cluster://"},

		{"redis://:secret@host:port", "port"},
		{"redis://:secret@h/notanumber", "database"},
		{"redis://:secret@h?nonsense=1", "nonsense"},
		{"redis://u:se cret%zz@h", "escape"},
		{"redis://u:123/secret@h:6379", "%2F"},
		{"redis://u:123?secret@h:6379", "%2F"},

		{"redis://:secret", "%40"},
		{"redis://u:secret", "%40"},
		{"redis://u:secret/0", "%40"},
		{"redis://u:secret%40127.0.0.1:1", "%40"},
		{"redis+sentinel://:secret/m", "%40"},
		{"redis+cluster://a:1,u:secret", "%40"},

		{"redis+cluster://", "address"},
		{"redis+cluster://:secret@", "address"},
		{"redis+cluster://:secret@a:1,", "address"},
		{"redis+cluster://:secret@a:1,,b:2", "address"},
		{"redis+cluster://:secret@a:1,b", `"b" is not host:port`},
		{"redis+cluster://:secret@a:1,b:x", `"b:x": port "x"`},
		{"redis+cluster://:secret@a:0", `port "0"`},
		{"redis+cluster://:secret@a:1/2", `"/2"`},
		{"redis+cluster://:secret@a:1?pool_size=many", "pool_size"},
		{"redis+cluster://:secret@a:1?nonsense=secret", "nonsense"},
		{"redis+cluster://:secret@a:1?addr=b:2", "addr"},
		{"redis+cluster://:secret@a:1?read_only=true", "read_only"},
		{"redis+cluster://:secret@a:1?route_randomly=true", "route_randomly"},
		{"redis+cluster://u:123/secret@a:1,b:2", "%2F"},
		{"redis+cluster://u:12#secret@a:1,b:2", "%23"},
		{"redis+cluster://u:se cret%zz@a:1", "escape"},

		{"redis+sentinel://:secret@/m", "address"},
		{"redis+sentinel://:secret@a:1,b:2", "master"},
		{"redis+sentinel://:secret@a:1,b:2/?pool_size=2", "master"},
		{"redis+sentinel://:secret@a:1,b/m", `"b" is not host:port`},
		{"redis+sentinel://:secret@a:1/m/x", `database "x"`},
		{"redis+sentinel://:secret@a:1/m/-1", `database "-1"`},
		{"redis+sentinel://:secret@a:1/m/1/2", `database "1/2"`},
		{"redis+sentinel://a:1/m/x?sentinel_password=secret", `database "x"`},
		{"redis+sentinel://a:1/m?sentinel_password=se@cret", "%40"},
		{"redis+sentinel://a:1/m?sentinel_password=%zzsecret", "escape"},
		{"redis+sentinel://a:1/m?password=secret", "password"},
		{"redis+sentinel://:secret@a:1/m?master_name=n", "master_name"},
		{"redis+sentinel://:secret@a:1/m?db=1", "db"},
		{"redis+sentinel://:secret@a:1/m?route_by_latency=true", "route_by_latency"},
		{"redis+sentinel://:secret@a:1/m?replica_only=true", "replica_only"},
	} {
		db, err := Open(bad.url)
		switch {
		case err == nil:
			t.Errorf("Open(%q) gave no error, but %s", bad.url, db)
		case !strings.Contains(err.Error(), bad.why):
			t.Errorf("Open(%q) does not speak of %s: %v", bad.url, bad.why, err)
		case strings.Contains(err.Error(), "cret"), strings.Contains(err.Error(), "123"), strings.Contains(err.Error(), "zz"):
			t.Errorf("Open(%q) tells the password: %v", bad.url, err)
		}
	}
}

func mustOpen(t *testing.T, rawURL string) *DB {
	t.Helper()
	db, err := Open(rawURL)
	redistest.OK(t, err)
	return db
}

func TestString(t *testing.T) {
	for url, want := range map[string]string{
		"redis://u:secret@a:1/2":                               "Redis at a:1, database 2",
		"redis+cluster://u:secret@a:1":                         "Redis Cluster at a:1",
		"rediss+cluster://u:secret@a:1,b:2/?read_timeout=1s":   "Redis Cluster at a:1, b:2",
		"redis+cluster://[::1]:1,[fe80::2]:2":                  "Redis Cluster at [::1]:1, [fe80::2]:2",
		"redis+sentinel://u:secret@a:1,b:2,c:3/m/5":            "Redis of Sentinel m at a:1, b:2, c:3",
		"rediss+sentinel://a:1/m/?sentinel_password=%40secret": "Redis of Sentinel m at a:1",
	} {
		got := mustOpen(t, url).String()
		redistest.ErrorIf(t, got != want, "%s is %q, want %q", url, got, want)
	}
}

func TestSentinelURL(t *testing.T) {
	o := mustOpen(t, "redis+sentinel://u:p%40%2Fs@a:1,b:2,c:3/my%2Fmaster/5?read_timeout=7s&max_retries=9&pool_size=3&sentinel_username=su&sentinel_password=s%40p").sentinel
	if o.MasterName != "my/master" || !slices.Equal(o.SentinelAddrs, []string{"a:1", "b:2", "c:3"}) || o.DB != 5 {
		t.Errorf("where: %+v", o)
	}
	if o.Username != "u" || o.Password != "p@/s" || o.SentinelUsername != "su" || o.SentinelPassword != "s@p" || o.TLSConfig != nil {
		t.Errorf("who: %+v", o)
	}
	redistest.ErrorIf(t, o.ReadTimeout != 7*time.Second || o.MaxRetries != 9 || o.PoolSize != 3, "parameters: %+v", o)
	o = mustOpen(t, "rediss+sentinel://a:1,b:2/m?skip_verify=true").sentinel
	if o.ReadTimeout != ioTimeout || o.WriteTimeout != ioTimeout || o.DialTimeout != dialTimeout || o.PoolSize != poolSize ||
		o.MaxRetries != maxRetries || o.DialerRetries != 1 || !o.ContextTimeoutEnabled {
		t.Errorf("defaults: %+v", o)
	}
	redistest.ErrorIf(t, o.TLSConfig == nil || o.TLSConfig.ServerName != "" || !o.TLSConfig.InsecureSkipVerify,
		"TLS: %+v", o.TLSConfig)
}

func TestClusterURL(t *testing.T) {
	o := mustOpen(t, "redis+cluster://u:p%40%3Fs@a:1,b:2?write_timeout=7s&max_redirects=9&pool_size=3").cluster
	if !slices.Equal(o.Addrs, []string{"a:1", "b:2"}) || o.Username != "u" || o.Password != "p@?s" || o.TLSConfig != nil {
		t.Errorf("where and who: %+v", o)
	}
	redistest.ErrorIf(t, o.WriteTimeout != 7*time.Second || o.MaxRedirects != 9 || o.PoolSize != 3,
		"parameters: %+v", o)
	o = mustOpen(t, "rediss+cluster://:p@a:1,b:2/").cluster
	if o.ReadTimeout != ioTimeout || o.WriteTimeout != ioTimeout || o.DialTimeout != dialTimeout || o.PoolSize != poolSize ||
		o.MaxRedirects != maxRedirects || o.DialerRetries != 1 || !o.ContextTimeoutEnabled ||
		o.MaintNotificationsConfig.Mode != maintnotifications.ModeDisabled || o.ClusterStateReloadInterval != reloadInterval {
		t.Errorf("defaults: %+v", o)
	}
	redistest.ErrorIf(t, o.TLSConfig == nil || o.TLSConfig.ServerName != "", "TLS: %+v", o.TLSConfig)
}

// connect opens a URL twice, writes with one client and reads with the other.
func connect(t *testing.T, rawURL string) redis.UniversalClient {
	t.Helper()
	db := mustOpen(t, rawURL)
	a, b := db.NewClient(), db.NewClient()
	t.Cleanup(func() { _, _ = a.Close(), b.Close() })
	err := a.Set(t.Context(), "k", rawURL, time.Minute).Err()
	redistest.FatalIf(t, err != nil, "%s: %v", db, err)
	got, err := b.Get(t.Context(), "k").Result()
	redistest.FatalIf(t, got != rawURL, "%s: the other client reads %q, %v", db, got, err)
	return a
}

func TestRealCluster(t *testing.T) {
	t.Parallel()
	cluster := redistest.StartCluster(t)
	client := connect(t, "redis+cluster://"+strings.Join(cluster.Addrs(), ",")+"?dial_timeout=1s")
	_, ok := client.(*redis.ClusterClient)
	redistest.ErrorIf(t, !ok, "the client is a %T", client)
}

// With passwords of their own for Redis and for the sentinels, and a database.
func TestRealSentinel(t *testing.T) {
	t.Parallel()
	sentinel := redistest.StartSentinel(t)
	for _, s := range sentinel.Sentinels() {
		redistest.OK(t, s.Client().Do(t.Context(), "ACL", "SETUSER", "watcher", "on", ">s@cret", "+@all").Err())
	}
	redistest.OK(t, sentinel.Primary().Client().Do(t.Context(), "ACL", "SETUSER", "player", "on", ">p@ss/word", "+@all", "~*", "&*").Err())
	addresses := strings.Join(sentinel.Addrs(), ",")
	client := connect(t, "redis+sentinel://player:p%40ss%2Fword@"+addresses+"/"+sentinel.MasterName()+"/3?sentinel_username=watcher&sentinel_password=s%40cret")
	_, ok := client.(*redis.Client)
	redistest.ErrorIf(t, !ok, "the client is a %T", client)
	n := sentinel.Primary().Client().Exists(t.Context(), "k").Val()
	redistest.ErrorIf(t, n != 0, "it wrote to another database")
	wrong := mustOpen(t, "redis+sentinel://player:p%40ss%2Fword@"+addresses+"/nobody").NewClient()
	defer wrong.Close()
	err := wrong.Ping(t.Context()).Err()
	redistest.ErrorIf(t, err == nil, "there is no master of that name")
}
