package redisconn

import "testing"

// Each relative of Redis says in its own way what it is.
func TestInfo(t *testing.T) {
	for text, want := range map[string]struct {
		product, mode string
		old           bool
	}{
		"# Server\r\nredis_version:6.2.14\r\nredis_mode:standalone\r\n":                             {"Redis 6.2.14", "standalone", true},
		"redis_version:7.0.0\r\nredis_mode:cluster\r\n":                                             {"Redis 7.0.0", "cluster", false},
		"redis_version:10.0\r\n":                                                                    {"Redis 10.0", "", false},
		"redis_version:7.2.4\r\nserver_name:valkey\r\nvalkey_version:8.1.1\r\nserver_mode:sentinel": {"Valkey 8.1.1", "sentinel", false},
		"redict_version:7.3.6\r\nredict_mode:standalone\r\nredis_version:7.2.4\r\n":                 {"Redict 7.3.6", "standalone", false},
		"redis_version:7.4.0\r\ndragonfly_version:df-v1.34.1\r\nredis_mode:standalone\r\n":          {"Dragonfly df-v1.34.1", "standalone", false},
		"redis_version:garbage": {"Redis garbage", "", false},
		"":                      {"", "", false},
	} {
		info := ParseInfo(text)
		if info.Product() != want.product || info.Mode() != want.mode || info.IsTooOld() != want.old {
			t.Errorf("%q: %q, %q, old %v", text, info.Product(), info.Mode(), info.IsTooOld())
		}
	}
}
