package main

import (
	"fmt"
	"time"

	"github.com/alecthomas/kong"

	"roomd/room"
	"roomd/room/coordinator"
	"roomd/transport"
)

// config is what flags and environment say of a node. Kong makes the flags, their ROOMD_…
// variables and the help of it.
type config struct {
	Listen      string   `default:"127.0.0.1:8080" placeholder:"HOST:PORT" help:"Where game clients connect (default ${default})."`
	Insecure    bool     `help:"Without a key for tokens, listen all the same where other machines can reach it. A client is then the user that it names."`
	AllowOrigin []string `placeholder:"ORIGIN" help:"Web origin whose pages may connect besides this server's own, such as https://game.example. Repeat it, or * for all."`

	verifierFlags

	Redis string `default:"embedded" placeholder:"URL" help:"redis://[:password@]host:port[/db], rediss://… for TLS, unix:///path/to/socket, redis+sentinel://host:port,…/master, redis+cluster://host:port,…, or embedded: inside this process, keeping nothing, for trying it out (default ${default})."`

	LockTTL  time.Duration `default:"3s" placeholder:"3s" help:"How long a crashed holder can block a room."`
	LockPoll time.Duration `default:"5ms" placeholder:"5ms" help:"Pause between two attempts at a held lock."`
	LockWait time.Duration `default:"10s" placeholder:"10s" help:"How long an action waits for its room before it is refused as busy."`
	MaxBatch int           `default:"256" placeholder:"256" help:"How many actions may share one hold of the lock. 1 takes it for each anew."`
	Capacity int           `default:"0" placeholder:"0" help:"How many members a room may have. 0 sets no limit of its own (65536 seats)."`

	Duplicate string        `default:"replace" enum:"replace,reject" placeholder:"replace" help:"What happens when a user joins a room with a second connection: replace closes the first one (4001), reject refuses the second."`
	Grace     time.Duration `default:"10s" placeholder:"10s" help:"How long the user of a lost connection, or of a node that has gone, keeps the seats. 0 frees them at once."`
	NodeTTL   time.Duration `placeholder:"5s" help:"How long a node that has stopped is taken to be alive: 5s, or --lock-ttl if that is longer."`
	Replicas  int           `default:"0" placeholder:"0" help:"How many replicas of Redis must have an action before it is acknowledged."`

	MaxConnections int  `default:"50000" placeholder:"50000" help:"How many game clients may be connected; further ones get HTTP 503. Fewer if the process may not have as many files open (ulimit -n)."`
	MaxQueue       size `default:"256KiB" placeholder:"256KiB" help:"How many bytes may wait for a client that reads slowly: of replies, until its next request waits, and of changes in its rooms, until it is closed (4008). A single reply may be longer."`

	LogLevel  string `default:"info" enum:"trace,debug,info,warn,error" placeholder:"info" help:"One of ${enum}."`
	LogFormat string `default:"console" enum:"console,json" placeholder:"console" help:"One of ${enum}."`
}

const description = `Coordinates who is in which game room when many clients act at once.

Game clients connect by WebSocket to ws://HOST:PORT/ws?user=NAME and send
  {"id":1,"action":"join","room":"42"}
Run any number of nodes on one Redis; they act as one.

With a key (--auth-...) a token says who a client is, instead of ?user=. To try it:
  openssl rand -hex 32 >secret
  roomd --auth-secret-file secret
  roomd token --auth-secret-file secret --user NAME
  wscat -s roomd.v1 -H "Authorization: Bearer TOKEN" -c ws://HOST:PORT/ws

Every flag is also an environment variable: --lock-ttl is ROOMD_LOCK_TTL.

It ends with 0 after SIGTERM or SIGINT, with 1 if something failed, and with 2 if it was
started wrongly.`

// options tell kong what the struct tags cannot.
func options() []kong.Option {
	return []kong.Option{
		kong.Name("roomd"),
		kong.Description(description),
		kong.DefaultEnvars("ROOMD"),
		kong.ConfigureHelp(kong.HelpOptions{Compact: true, NoExpandSubcommands: true}),
		kong.Help(printHelp),
	}
}

// printHelp shows the flags of a node also where no command is given, because roomd runs one then.
func printHelp(options kong.HelpOptions, ctx *kong.Context) error {
	if root := ctx.Model.Node; ctx.Selected() == nil {
		root.Flags = append(root.Flags, root.DefaultCmd.Flags...)
	}
	return kong.DefaultHelpPrinter(options, ctx)
}

// Validate is called by kong. What the packages behind check themselves is left
// to them; but there a zero means the default, and here it would be a mistake.
func (c *config) Validate() error {
	for _, f := range []struct {
		flag  string
		value time.Duration
	}{{"lock-ttl", c.LockTTL}, {"lock-poll", c.LockPoll}, {"lock-wait", c.LockWait}} {
		if f.value <= 0 {
			return fmt.Errorf("--%s is %v, it must be more than zero", f.flag, f.value)
		}
	}
	if c.MaxBatch < 1 {
		return fmt.Errorf("--max-batch is %d, it must be at least 1", c.MaxBatch)
	}
	if c.NodeTTL != 0 && c.NodeTTL < c.LockTTL {
		return fmt.Errorf("--node-ttl is %v, it must not be shorter than --lock-ttl (%v)", c.NodeTTL, c.LockTTL)
	}
	if c.Grace < 0 {
		return fmt.Errorf("--grace is %v, it must not be negative", c.Grace)
	}
	if c.Replicas < 0 {
		return fmt.Errorf("--replicas is %d, it must not be negative", c.Replicas)
	}
	if c.MaxConnections < 1 {
		return fmt.Errorf("--max-connections is %d, it must be at least 1", c.MaxConnections)
	}
	if c.MaxQueue < 1 {
		return fmt.Errorf("--max-queue is %d, it must be at least 1", c.MaxQueue)
	}
	if _, err := c.source(); err != nil {
		return err
	}
	if c.Capacity < 0 || c.Capacity > room.MaxSeats {
		return fmt.Errorf("--capacity is %d, it must be from 0 (no limit of its own) to %d", c.Capacity, room.MaxSeats)
	}
	return nil
}

// rooms returns what the coordinator is told.
func (c *config) rooms() coordinator.Options {
	opts := coordinator.Options{
		Rules:    room.Rules{Seating: room.Capacity(c.Capacity)},
		LockTTL:  c.LockTTL,
		LockPoll: c.LockPoll,
		LockWait: c.LockWait,
		MaxBatch: c.MaxBatch,
		NodeTTL:  c.NodeTTL,
		Grace:    c.grace(),
		Replicas: c.Replicas,
	}
	if c.Duplicate == "reject" {
		opts.Rules.Duplicate = room.Reject
	}
	return opts
}

// clients returns what the server of clients is told.
func (c *config) clients() transport.Options {
	return transport.Options{
		AllowOrigins:   c.AllowOrigin,
		Grace:          c.grace(),
		MaxConnections: c.MaxConnections,
		MaxQueue:       int(c.MaxQueue),
	}
}

// grace returns the grace as options have it, where zero is the default.
func (c *config) grace() time.Duration {
	if c.Grace == 0 {
		return -1
	}
	return c.Grace
}
