package size

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"roomd/room"
)

// The profiles of Redis.
const (
	Standalone = "standalone" // one server, or one behind Sentinels
	Cluster    = "cluster"
)

// Bounds of a Load. They are far beyond what anybody runs, and keep the computation away from where numbers end.
const (
	maxPlayers  = 1_000_000_000
	maxWatchers = 1_000_000
	maxRate     = 1000
	maxJournal  = 1_000_000
	maxFeed     = 100_000_000
	maxReplicas = 5
	maxCores    = 1024
	minMemory   = 1 << 28
	maxMemory   = 1 << 46
	maxClients  = 10_000_000
)

// Load is what is planned for, and on which machines.
type Load struct {
	Players  int64 // connected, each in one room
	PerRoom  int
	Watchers int     // of each room, besides, with a connection each
	Actions  float64 // of a player in a second
	Journal  int
	Feed     int
	Profile  string
	Replicas int

	Cores          int     // of a machine with a node
	Memory         int64   // of such a machine
	RedisMemory    int64   // that a server of Redis may use for data
	MaxConnections int     // of a node
	Utilization    float64 // to which processors and memory may be used
}

// Validate returns an error if a value cannot be used. The error begins with the name of the field, as a flag has it, and its value.
func (l Load) Validate() error {
	for _, v := range []struct {
		name     string
		value    int64
		min, max int64
	}{
		{"players", l.Players, 0, maxPlayers},
		{"per-room", int64(l.PerRoom), 1, room.MaxSeats},
		{"watchers", int64(l.Watchers), 0, maxWatchers},
		{"journal", int64(l.Journal), 0, maxJournal},
		{"feed", int64(l.Feed), 0, maxFeed},
		{"replicas", int64(l.Replicas), 0, maxReplicas},
		{"cores", int64(l.Cores), 1, maxCores},
		{"memory", l.Memory, minMemory, maxMemory},
		{"redis-memory", l.RedisMemory, minMemory, maxMemory},
		{"max-connections", int64(l.MaxConnections), 1, maxClients},
	} {
		if v.value < v.min || v.value > v.max {
			return fmt.Errorf("%s is %d, it must be from %d to %d", v.name, v.value, v.min, v.max)
		}
	}
	switch {
	case !(l.Actions >= 0 && l.Actions <= maxRate):
		return fmt.Errorf("actions is %v/s, it must be from 0/s to %d/s", l.Actions, maxRate)
	case !(l.Utilization > 0 && l.Utilization <= 1):
		return fmt.Errorf("utilization is %v, it must be more than 0 and at most 1", l.Utilization)
	case l.Profile != Standalone && l.Profile != Cluster:
		return fmt.Errorf("profile is %q, it must be %s or %s", l.Profile, Standalone, Cluster)
	case l.Feed > 0 && l.Journal == 0:
		return fmt.Errorf("feed is %d, which needs journal", l.Feed)
	}
	return nil
}

// Rate is how often something happens, in a second.
type Rate float64

var rateUnits = []struct {
	suffix string
	of     time.Duration
}{{"/s", time.Second}, {"/min", time.Minute}, {"/h", time.Hour}}

// UnmarshalText reads 0.2/s, 12/min or 720/h.
func (r *Rate) UnmarshalText(text []byte) error {
	for _, unit := range rateUnits {
		number, found := strings.CutSuffix(string(text), unit.suffix)
		if !found {
			continue
		}
		n, err := strconv.ParseFloat(number, 64)
		if err != nil || !(n >= 0 && n <= 1e9) || strings.ContainsAny(number, "xX_+-nN") {
			break
		}
		*r = Rate(n / unit.of.Seconds())
		return nil
	}
	return fmt.Errorf("%q is not a rate such as 0.2/s, 12/min or 720/h", text)
}

// Bytes is a number of bytes.
type Bytes int64

var byteUnits = []struct {
	suffix string
	shift  int
}{{"KiB", 10}, {"MiB", 20}, {"GiB", 30}, {"TiB", 40}}

// UnmarshalText reads 512MiB, 8GiB or 1TiB.
func (b *Bytes) UnmarshalText(text []byte) error {
	for _, unit := range byteUnits {
		number, found := strings.CutSuffix(string(text), unit.suffix)
		if !found {
			continue
		}
		n, err := strconv.ParseUint(number, 10, 23)
		if err != nil {
			break
		}
		*b = Bytes(n << unit.shift)
		return nil
	}
	return fmt.Errorf("%q is not a size such as 512MiB or 8GiB", text)
}
