package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"roomd/loadtest/size"
	"roomd/loadtest/size/measure"
)

// errPrediction ends the program after the comparison has said where.
var errPrediction = errors.New("a prediction is further from what was measured than it may be")

type sizeCmd struct {
	Players  int64     `default:"1000000" help:"Players who are connected, each in one room (${default})."`
	PerRoom  int       `default:"4" help:"Players of a room (${default})."`
	Watchers int       `default:"0" help:"Watchers of a room, besides (${default})."`
	Actions  size.Rate `default:"0.2/s" help:"How often a player acts: 0.2/s, 12/min or 720/h (${default})."`
	Journal  int       `default:"0" help:"As of the nodes: commits of a room that are kept (${default})."`
	Feed     int       `default:"0" help:"As of the nodes: commits of all rooms that are kept (${default})."`
	Replicas int       `default:"0" help:"As of the nodes: replicas that must have an action before it is acknowledged (${default})."`
	Profile  string    `default:"cluster" help:"The Redis: standalone, which is one master, or cluster (${default})."`

	Cores          int        `default:"4" help:"Cores of a machine with a node (${default})."`
	Memory         size.Bytes `default:"8GiB" help:"Memory of such a machine (${default})."`
	RedisMemory    size.Bytes `default:"8GiB" help:"Memory that a master may use for data, which is its maxmemory (${default})."`
	MaxConnections int        `default:"50000" help:"As of the nodes: connections of a node (${default})."`
	Utilization    float64    `default:"0.6" help:"To which share processors and memory may be used (${default})."`

	Constants     bool   `xor:"do" help:"Print what single things cost, with units, and where that was measured."`
	ConstantsFile string `placeholder:"FILE" help:"Compute with the costs of this file, which --calibrate has written."`
	Calibrate     string `xor:"do" placeholder:"FILE" help:"Measure the costs on this machine, and write them."`
	Check         bool   `xor:"do" help:"Run loads at fixed rates on one to three masters and one to four nodes, and compare with what is computed."`
	JSON          bool   `name:"json" help:"Print JSON."`

	TrialPlayers int           `default:"4000" hidden:"" help:"Players of --calibrate and --check."`
	TrialRate    float64       `default:"4000" hidden:"" help:"Actions of all in a second of --calibrate."`
	TrialRounds  int           `default:"3" hidden:"" help:"Readings of a trial, and how often all trials are done; the median counts."`
	TrialRound   time.Duration `default:"1500ms" hidden:"" help:"How long each takes."`
}

func (c *sizeCmd) Help() string {
	return `Says how many nodes and masters of Redis players need, how much memory, network and open files,
and which of that decides.

Examples:

  roomload size --players 1000000 --per-room 4 --actions 0.2/s
  roomload size --players 20000 --actions 12/min --profile standalone --cores 2 --memory 4GiB
  roomload size --per-room 8 --watchers 20 --journal 1000 --replicas 1 --json | jq .nodes.count
  roomload size --constants
  roomload size --calibrate costs.json && roomload size --constants-file costs.json --check

All of it is computed: actions × what an action costs, and so on. What single things cost was
measured on one machine, which --constants names. On a quiet machine of yours
  --calibrate FILE   measures that again, in about ten minutes, and --constants-file FILE
                     computes with it
  --check            runs players at tables at 500 to 4,000 actions/s on up to three masters
                     and four nodes, in about six minutes, and prints predicted beside
                     measured. It ends with 1 if a prediction is off by more than 25 %
Both start redis-server, nodes and clients on this machine, and need 6,000 open files.

An action is any request that changes a room: of ten, four set data, two are ready, two are
messages, one leaves and one joins. Players are spread over the nodes at random. At higher
load a node and Redis do more in one go, so an action costs less than computed here. TCP, IP and
TLS are not in the network's figures, and TLS not in those of processors.`
}

func (c *sizeCmd) load() size.Load {
	return size.Load{
		Players: c.Players, PerRoom: c.PerRoom, Watchers: c.Watchers, Actions: float64(c.Actions), Journal: c.Journal, Feed: c.Feed, Profile: c.Profile, Replicas: c.Replicas,
		Cores: c.Cores, Memory: int64(c.Memory), RedisMemory: int64(c.RedisMemory), MaxConnections: c.MaxConnections, Utilization: c.Utilization,
	}
}

// Validate is called by kong.
func (c *sizeCmd) Validate() error {
	switch {
	case c.TrialPlayers < 128 || c.TrialRounds < 1:
		return wrongFlag(fmt.Errorf("trial-players is %d and trial-rounds %d, they must be at least 128 and 1", c.TrialPlayers, c.TrialRounds))
	case c.TrialRound <= 0:
		return wrongFlag(fmt.Errorf("trial-round is %v, it must be more than zero", c.TrialRound))
	case !(c.TrialRate >= 10):
		return wrongFlag(fmt.Errorf("trial-rate is %v, it must be at least 10", c.TrialRate))
	}
	_, err := c.load().Plan(size.Measured()) // which says what cannot be
	return wrongFlag(err)
}

// Run is called by kong.
func (c *sizeCmd) Run(ctx context.Context, std streams) error {
	cfg := measure.Config{Players: c.TrialPlayers, Rate: c.TrialRate, Rounds: c.TrialRounds, Round: c.TrialRound, Idle: 5 * time.Second, Log: std.stderr, Refusable: 0.02}
	if c.Calibrate != "" {
		return c.calibrate(ctx, cfg)
	}
	costs, err := c.costs()
	if err != nil {
		return err
	}
	switch {
	case c.Constants && c.JSON:
		return costs.Write(std.stdout)
	case c.Constants:
		return costs.WriteTable(std.stdout)
	case c.Check:
		return c.check(ctx, cfg, costs, std)
	}
	plan, err := c.load().Plan(costs)
	if err != nil {
		return wrongFlag(err)
	}
	if c.JSON {
		return indented(std.stdout, plan)
	}
	return c.load().WriteText(std.stdout, plan)
}

// costs returns those to compute with.
func (c *sizeCmd) costs() (*size.Costs, error) {
	if c.ConstantsFile == "" {
		return size.Measured(), nil
	}
	f, err := os.Open(c.ConstantsFile)
	if err != nil {
		return nil, wrongFlag(fmt.Errorf("constants-file: %w", err))
	}
	defer f.Close()
	costs, err := size.Read(f)
	if err != nil {
		return nil, wrongFlag(fmt.Errorf("constants-file %s: %w", c.ConstantsFile, err))
	}
	return costs, nil
}

func (c *sizeCmd) calibrate(ctx context.Context, cfg measure.Config) error {
	f, err := os.OpenFile(c.Calibrate, os.O_WRONLY|os.O_CREATE, 0o644) // before two minutes have gone
	if err != nil {
		return wrongFlag(fmt.Errorf("calibrate: %w", err))
	}
	costs, err := measure.Calibrate(ctx, cfg)
	if err == nil {
		err = f.Truncate(0)
	}
	if err == nil {
		err = costs.Write(f)
	}
	return errors.Join(err, f.Close())
}

func (c *sizeCmd) check(ctx context.Context, cfg measure.Config, costs *size.Costs, std streams) error {
	cfg.Players /= 2
	list, err := measure.Check(ctx, cfg, costs)
	if err != nil {
		return err
	}
	if c.JSON {
		err = indented(std.stdout, list)
	} else {
		err = measure.WriteText(std.stdout, list)
	}
	if err == nil && measure.Worst(list) > measure.Tolerance {
		return errPrediction
	}
	return err
}

func indented(w io.Writer, v any) error {
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	return e.Encode(v)
}
