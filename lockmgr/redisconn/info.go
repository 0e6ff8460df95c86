package redisconn

import (
	"cmp"
	"strconv"
	"strings"
)

// Info is what a server reports about itself, by field.
type Info map[string]string

// ParseInfo reads the reply to INFO, or to CLUSTER INFO.
func ParseInfo(text string) Info {
	info := make(Info)
	for line := range strings.Lines(text) {
		if name, value, ok := strings.Cut(strings.TrimSpace(line), ":"); ok {
			info[name] = value
		}
	}
	return info
}

// relatives are the servers that call their versions otherwise. In redis_version they have that of the Redis whose
// commands they know, which stays as it is.
var relatives = []string{"Valkey", "Redict", "Dragonfly"}

// Product returns name and version, such as "Redis 7.0.15" or "Valkey 8.1.1"; "" if the server does not tell.
func (i Info) Product() string {
	for _, name := range relatives {
		if version := i[strings.ToLower(name)+"_version"]; version != "" {
			return name + " " + version
		}
	}
	if i["redis_version"] == "" {
		return ""
	}
	return "Redis " + i["redis_version"]
}

// Mode returns standalone, cluster or sentinel; "" if the server does not tell.
func (i Info) Mode() string { return cmp.Or(i["redis_mode"], i["server_mode"], i["redict_mode"]) }

// MinRedis is the oldest major version of Redis with all commands that locks and rooms use.
const MinRedis = 7

// IsTooOld reports whether the server's commands are known to be those of a Redis before MinRedis.
func (i Info) IsTooOld() bool {
	first, _, _ := strings.Cut(i["redis_version"], ".")
	n, err := strconv.Atoi(first)
	return err == nil && n < MinRedis
}
