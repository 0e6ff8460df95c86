package loadtest

import (
	"fmt"
	"net/url"
	"time"

	"roomd/lockmgr/redisconn/redisurl"
)

// Config says what to run. Its zero value is refused; see the fields.
type Config struct {
	// Targets are the ws:// or wss:// URLs of nodes that run already. None: Run
	// starts Nodes of its own.
	Targets []string

	// Nodes is how many nodes Run starts. Ignored with Targets.
	Nodes int

	// Redis is where the nodes that Run starts keep the rooms, and where the
	// lists are read at the end; see redisurl. With Targets it may be empty or
	// redisurl.Embedded, and then only the nodes are asked.
	Redis string

	Clients  int           // players, a connection each
	Rooms    int           // rooms they share, fresh ones
	Capacity int           // of each room, 0 for none; of the Targets, if given
	Duration time.Duration // how long they play

	// Progress, if not nil, is called about four times a second.
	Progress func(Progress)
}

// Progress is where a run stands.
type Progress struct {
	Elapsed    time.Duration
	Actions    int64 // acknowledged joins and leaves so far
	Violations int
}

func (c Config) validate() error {
	for _, target := range c.Targets {
		if u, err := url.Parse(target); err != nil || u.Host == "" || u.Scheme != "ws" && u.Scheme != "wss" {
			return fmt.Errorf("target: %q is not a ws:// or wss:// URL", target)
		}
	}
	for _, f := range []struct {
		name       string
		value, min int
	}{{"clients", c.Clients, 1}, {"rooms", c.Rooms, 1}, {"capacity", c.Capacity, 0}, {"nodes", c.Nodes, 1}} {
		if f.name == "nodes" && len(c.Targets) > 0 {
			continue
		}
		if f.value < f.min {
			return fmt.Errorf("%s: %d, it must be at least %d", f.name, f.value, f.min)
		}
	}
	if c.Duration <= 0 {
		return fmt.Errorf("duration: %v, it must be more than zero", c.Duration)
	}
	return nil
}

// readsStore reports whether the lists can be read from Redis at the end.
func (c Config) readsStore() bool {
	return len(c.Targets) == 0 || c.Redis != "" && c.Redis != redisurl.Embedded
}
