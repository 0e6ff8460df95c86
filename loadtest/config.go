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

// Config says what to run. Each field with a help text is a flag of roomload; the text gives its meaning and
// default.
type Config struct {
	// Targets are the URLs of running nodes. Without any, Run starts Nodes of its own.
	Targets    []string `name:"target" placeholder:"ws://…" help:"A running node, as ws://host:port/ws. Repeat it for several. Players keep to its rate; with --rate off they act as fast as they can. For more than 1000 clients it needs --max-per-address off. Without a target roomload starts nodes for the run."`
	SecretFile string   `name:"auth-secret-file" type:"path" placeholder:"FILE" help:"The secret of the targets, as of their --auth-secret-file: players get tokens that it signs."`
	Nodes      int      `default:"1" help:"How many nodes to start (${default})."`

	// Redis is a URL of package redisurl. With Targets it may be empty or redisurl.Embedded; Run then asks only
	// the nodes.
	Redis     string        `default:"embedded" placeholder:"URL" help:"Where those nodes keep the rooms, and where roomload reads the lists at the end: redis://… or embedded (${default}). With --target, the Redis of those nodes, if roomload can reach it."`
	KeyPrefix string        `placeholder:"PREFIX:" help:"What the names of all keys in Redis begin with, as of the nodes' --key-prefix."`
	Clients   int           `default:"200" help:"Players, with one connection each (${default})."`
	Rooms     int           `default:"10" help:"Rooms, which all players share (${default})."`
	Capacity  int           `default:"0" help:"Seats of a room; 0 sets no limit (${default}). With --target, the capacity that those nodes have, to check it."`
	Duration  time.Duration `default:"10s" help:"How long the players play (${default})."`

	// Mix has some of MixNames, or all or none. Empty means only joins and leaves.
	Mix []string `default:"all" placeholder:"NAME,…" help:"What happens besides joins and leaves, separated by commas: ready, data, private, timer, say, host, match, configure, kick, close, seats, deal, party, move; all or none (${default}). What an administrator does, from configure on, needs --redis, also with --target."`

	// Progress, if not nil, is called about four times a second.
	Progress func(Progress) `kong:"-"`

	// how long a player may wait at the end for the event of a room's last commit; zero means 10 s
	catchUp time.Duration
}

const defaultCatchUp = 10 * time.Second

// Progress is the state of a run.
type Progress struct {
	Elapsed    time.Duration
	Actions    int64 // acknowledged so far, without reads
	Violations int
}

// Validate returns an error if a value cannot be used. The error starts with the field's name in lower case,
// and its value.
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

// CheckKeyPrefix returns an error like that of Validate if prefix cannot be a KeyPrefix.
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
