package loadtest

import (
	"errors"
	"fmt"
	"net/url"
	"time"

	"roomd/lockmgr/redisconn/redisurl"
	"roomd/room"
	"roomd/room/coordinator"
)

// Config says what to run. The zero value is invalid; see the fields.
type Config struct {
	// Targets are the ws:// or wss:// URLs of running nodes. If there are none, Run
	// starts Nodes of its own.
	Targets []string

	// Nodes is how many nodes Run starts. Ignored with Targets.
	Nodes int

	// Redis is the URL of the Redis where the nodes keep the rooms, and where Run reads
	// the lists at the end; see redisurl. With Targets it may be empty or
	// redisurl.Embedded. Then Run asks the nodes only.
	Redis string

	// KeyPrefix begins the names of all keys, as in coordinator.Options: of the nodes that Run starts, or of the Targets.
	KeyPrefix string

	Clients  int           // players, with one connection each
	Rooms    int           // new rooms, which all players share
	Capacity int           // of each room, as set on the Targets if given; 0 means no limit
	Duration time.Duration // how long the players play

	// Mix is what happens besides joins and leaves, of MixNames. What an administrator does needs
	// Redis. Empty means nothing else.
	Mix []string

	// SecretFile has the secret of the Targets, by which tokens of players are signed. Empty: they believe names.
	SecretFile string

	// Progress, if not nil, is called about four times a second.
	Progress func(Progress)

	// catchUp is how long a player may wait at the end for the event of a room's last
	// commit. Zero means 10 s.
	catchUp time.Duration
}

const defaultCatchUp = 10 * time.Second

// Progress is the state of a run.
type Progress struct {
	Elapsed    time.Duration
	Actions    int64 // acknowledged so far, without reads
	Violations int
}

// Validate returns an error if a value cannot be used. The error begins with the name of
// the field, in small letters, and its value.
func (c Config) Validate() error {
	for _, target := range c.Targets {
		if u, err := url.Parse(target); err != nil || u.Host == "" || u.Scheme != "ws" && u.Scheme != "wss" {
			return fmt.Errorf("target is %q, it must be a ws:// or wss:// URL", target)
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
			return fmt.Errorf("%s is %d, it must be at least %d", f.name, f.value, f.min)
		}
	}
	if c.Duration <= 0 {
		return fmt.Errorf("duration is %v, it must be more than zero", c.Duration)
	}
	if err := CheckMix(c.Mix); err != nil {
		return err
	}
	if c.SecretFile != "" && len(c.Targets) == 0 {
		return fmt.Errorf("auth-secret-file is %q, and there are no targets whose secret it could be", c.SecretFile)
	}
	if err := CheckKeyPrefix(c.KeyPrefix); err != nil {
		return err
	}
	if !c.readsStore() || c.Redis == redisurl.Embedded {
		return nil
	}
	_, err := redisurl.Open(c.Redis)
	return err
}

// CheckKeyPrefix returns an error, which begins with the name of the field as that of Validate does, if prefix can be no
// KeyPrefix.
func CheckKeyPrefix(prefix string) error {
	if invalid, ok := errors.AsType[*room.InvalidError](coordinator.CheckKeyPrefix(prefix)); ok {
		return errors.New("key-prefix " + invalid.Problem)
	}
	return nil
}

// readsStore reports whether Run can read the lists from Redis at the end.
func (c Config) readsStore() bool {
	return len(c.Targets) == 0 || c.Redis != "" && c.Redis != redisurl.Embedded
}
