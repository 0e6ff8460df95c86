package redisurl

import (
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"roomd/lockmgr/redistest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestEmbedded(t *testing.T) {
	db, err := Open(Embedded)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	a, b := db.NewClient(), db.NewClient()
	defer a.Close()
	defer b.Close()
	if err := a.Set(t.Context(), "k", "v", time.Minute).Err(); err != nil {
		t.Fatal(err)
	}
	if got := b.Get(t.Context(), "k").Val(); got != "v" {
		t.Fatalf("the other client reads %q", got)
	}
	if !db.IsEmbedded() {
		t.Error("IsEmbedded is false")
	}
}

func TestRealURL(t *testing.T) {
	server := redistest.Start(t)
	db, err := Open(server.URL())
	if err != nil {
		t.Fatal(err)
	}
	client := db.NewClient()
	defer client.Close()
	if err := client.Ping(t.Context()).Err(); err != nil {
		t.Fatal(err)
	}
}

func TestURLOverridesDefaults(t *testing.T) {
	db, err := Open("redis://127.0.0.1:1/2?read_timeout=7s&pool_size=3&max_retries=9")
	if err != nil {
		t.Fatal(err)
	}
	o := db.opts
	if o.ReadTimeout != 7*time.Second || o.PoolSize != 3 || o.MaxRetries != 9 || o.DB != 2 || !o.ContextTimeoutEnabled {
		t.Errorf("options are %+v", o)
	}
	if o.WriteTimeout != ioTimeout || o.DialTimeout != dialTimeout {
		t.Errorf("defaults are gone: %+v", o)
	}
}

func TestBadURLs(t *testing.T) {
	for _, bad := range []string{
		"", "localhost:6379", "http://x", "redis+other://x", "redis+cluster://:secret@a:1/2", "redis+cluster://", "redis+sentinel://:secret@a:1,b:2", "redis+sentinel://:secret@a:1,,b:2/m",
		"redis+sentinel://a:1/m/x?sentinel_password=secret", "redis+cluster://:secret@a:1?nonsense=1", "redis+cluster://u:se cret%zz@h", "redis://:secret@host:port",
		"redis://:secret@h/notanumber", "redis://:secret@h?nonsense=1", "ftp://u:secret@h", "redis://u:se cret%zz@h",
	} {
		_, err := Open(bad)
		if err == nil {
			t.Errorf("Open(%q) gave no error", bad)
		} else if strings.Contains(err.Error(), "secret") || strings.Contains(err.Error(), "cret%") {
			t.Errorf("Open(%q) tells the password: %v", bad, err)
		}
	}
}

func TestTopologies(t *testing.T) {
	db, err := Open("redis+sentinel://u:p%40ss@a:1,b:2,c:3/mymaster/5?read_timeout=7s&sentinel_password=sp")
	if err != nil {
		t.Fatal(err)
	}
	o := db.sentinel
	if o.MasterName != "mymaster" || len(o.SentinelAddrs) != 3 || o.DB != 5 || o.Username != "u" || o.Password != "p@ss" ||
		o.SentinelPassword != "sp" || o.SentinelUsername != "" || o.ReadTimeout != 7*time.Second || o.WriteTimeout != ioTimeout ||
		o.MaxRetries != 1 || !o.ContextTimeoutEnabled {
		t.Errorf("%+v", o)
	}
	if got := db.String(); got != "Redis mymaster of the sentinels at a:1, b:2, c:3" {
		t.Error(got)
	}
	db, err = Open("rediss+cluster://:pw@a:1,b:2?pool_size=9")
	if err != nil {
		t.Fatal(err)
	}
	if c := db.cluster; len(c.Addrs) != 2 || c.Password != "pw" || c.PoolSize != 9 || c.TLSConfig == nil || !c.ContextTimeoutEnabled {
		t.Errorf("%+v", c)
	}
	if got := db.String(); got != "Redis Cluster at a:1, b:2" {
		t.Error(got)
	}
}

func TestRealTopologies(t *testing.T) {
	sentinel := redistest.StartSentinel(t)
	cluster := redistest.StartCluster(t)
	for _, url := range []string{
		"redis+sentinel://" + strings.Join(sentinel.Addrs(), ",") + "/" + sentinel.MasterName(),
		"redis+cluster://" + strings.Join(cluster.Addrs(), ","),
	} {
		db, err := Open(url)
		if err != nil {
			t.Fatal(err)
		}
		client := db.NewClient()
		defer client.Close()
		if err := client.Set(t.Context(), "k", "v", 0).Err(); err != nil {
			t.Errorf("%s: %v", db, err)
		}
	}
}
