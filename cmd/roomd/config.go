package main

import (
	"github.com/alecthomas/kong"

	"roomd/room"
	"roomd/room/coordinator"
	"roomd/transport"
)

// config is what flags and environment say of a node. Kong makes the flags, their ROOMD_…
// variables and the help of it.
type config struct {
	listenFlags   `embed:"" group:"Where clients connect:"`
	verifierFlags `embed:"" group:"Who may connect:"`
	redisFlags    `embed:"" group:"Where rooms are kept:"`
	roomFlags     `embed:"" group:"How rooms work:"`
	limitFlags    `embed:"" group:"Limits:"`
	operateFlags  `embed:"" group:"Operating:"`
}

const description = `Coordinates who is in which game room when many clients act at once.

Game clients connect by WebSocket to ws://HOST:PORT/ws?user=NAME (wss:// with --tls-cert) and send
  {"id":1,"action":"join","room":"42"}
Run any number of nodes on one Redis; they act as one.

With a key (--auth-...) a token says who a client is, instead of ?user=. To try it:
  openssl rand -hex 32 >secret
  roomd --auth-secret-file secret
  roomd token --auth-secret-file secret --user NAME
  wscat -s roomd.v1 -H "Authorization: Bearer TOKEN" -c ws://HOST:PORT/ws

Every flag is also an environment variable: --lock-ttl is ROOMD_LOCK_TTL.

It ends with 0 after SIGTERM, SIGINT or SIGHUP, with 1 if something failed, and with 2 if it was
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

// Validate is called by kong. What the packages behind check themselves is left to them; but
// there a zero means the default, and here it would be a mistake.
func (c *config) Validate() error {
	for _, validate := range []func() error{
		c.listenFlags.validate, c.verifierFlags.validate, c.redisFlags.validate, c.roomFlags.validate,
		c.limitFlags.validate, c.operateFlags.validate,
	} {
		if err := validate(); err != nil {
			return err
		}
	}
	return nil
}

// rooms returns what the coordinator is told.
func (c *config) rooms() coordinator.Options {
	opts := coordinator.Options{
		Rules: room.Rules{Seating: room.Capacity(c.Capacity), Limits: room.Limits{
			MemberData: int(c.MaxMemberData), RoomData: int(c.MaxRoomData), Message: int(c.MaxMessage),
		}},
		LockTTL:  c.LockTTL,
		LockPoll: c.LockPoll,
		LockWait: c.LockWait,
		MaxBatch: c.MaxBatch,
		NodeTTL:  c.NodeTTL,
		Grace:    c.grace(),
		Replicas: c.Replicas,
		Journal:  c.Journal,
	}
	if c.Duplicate == "reject" {
		opts.Rules.Duplicate = room.Reject
	}
	return opts
}

// clients returns what the server of clients is told.
func (c *config) clients() transport.Options {
	opts := transport.Options{
		AllowOrigins: c.AllowOrigin,
		Grace:        c.grace(),
	}
	c.limits(&opts)
	return opts
}
