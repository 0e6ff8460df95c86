package node

import (
	"cmp"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"reflect"
	"strconv"
	"time"

	"github.com/alecthomas/kong"

	"roomd/lockmgr/redisconn/redisurl"
	"roomd/room"
	"roomd/room/coordinator"
	"roomd/transport"
	"roomd/transport/internal/reload"
	"roomd/transport/webhook"
)

// config has the flags of a node. Kong makes the flags, their ROOMD_… variables and their help from it.
type config struct {
	listenFlags   `embed:"" group:"Where clients connect:"`
	verifierFlags `embed:"" group:"Who may connect:"`
	redisFlags    `embed:"" group:"Where rooms are kept:"`
	roomFlags     `embed:"" group:"How rooms work:"`
	limitFlags    `embed:"" group:"Limits:"`
	webhookFlags  `embed:"" group:"Who is told of commits:"`
	operateFlags  `embed:"" group:"Operating:"`

	rules room.Rules // of the program
	file  *configFile
}

// Validate checks, for kong, only what other packages do not check, and refuses zeros that they would take for
// defaults. It sets the default of --node-ttl.
func (c *config) Validate(parsed *kong.Context) error {
	if err := checkLeast(parsed.Flags()); err != nil {
		return err
	}
	// The log shall show the value in force.
	c.NodeTTL = cmp.Or(c.NodeTTL, max(coordinator.DefaultNodeTTL, c.LockTTL))
	switch {
	case len(c.Webhook) > 0 && c.Feed == 0:
		return errors.New("--webhook needs --feed and --journal, from which it is told, " +
			"such as --feed 1000000 --journal 1000")
	case c.rules.Seating != nil && c.Capacity != 0:
		return fmt.Errorf("--capacity is %d, but this program has rules of its own for the seats of a room", c.Capacity)
	case c.Capacity > room.MaxSeats:
		return fmt.Errorf("--capacity is %d, it must be from 0 (no limit of its own) to %d", c.Capacity, room.MaxSeats)
	case c.LockPoll >= c.LockTTL:
		return fmt.Errorf("--lock-poll is %v, it must be shorter than --lock-ttl (%v)", c.LockPoll, c.LockTTL)
	case c.Replicas > 0 && c.Redis == redisurl.Embedded:
		return fmt.Errorf("--replicas is %d, and the embedded Redis has no replica: give --redis, too", c.Replicas)
	}
	return c.webhookFlags.validate()
}

// checkLeast returns an error if the value of a flag, a number or a time, is below the flag's tag least.
func checkLeast(flags []*kong.Flag) error {
	for _, flag := range flags {
		tag := flag.Tag.Get("least")
		if tag == "" {
			continue
		}
		value := flag.Target.Int()
		if flag.Target.Type() != reflect.TypeFor[time.Duration]() {
			if least, _ := strconv.ParseInt(tag, 10, 64); value < least {
				return fmt.Errorf("--%s is %d, it must be at least %s", flag.Name, value, tag)
			}
		} else if least, _ := time.ParseDuration(tag); value < int64(least) {
			return fmt.Errorf("--%s is %v, it must be at least %v", flag.Name, time.Duration(value), least)
		}
	}
	return nil
}

func (c *config) rooms() coordinator.Options {
	rules := c.rules
	if rules.Seating == nil {
		rules.Seating = room.Capacity(c.Capacity)
	}
	rules.Limits = room.Limits{MemberData: int(c.MaxMemberData), PrivateData: int(c.MaxPrivateData),
		RoomData: int(c.MaxRoomData), Message: int(c.MaxMessage)}
	if rules.Duplicate = room.Replace; c.Duplicate == "reject" {
		rules.Duplicate = room.Reject
	}
	opts := coordinator.Options{Rules: rules}
	fill(&opts, c)
	opts.Grace = c.grace()
	return opts
}

func (c *config) clients() (opts transport.Options) {
	fill(&opts, c)
	opts.Grace, opts.AllowOrigins = c.grace(), c.AllowOrigin
	for _, n := range c.TrustProxy {
		opts.TrustProxy = append(opts.TrustProxy, netip.Prefix(n))
	}
	return opts
}

// fill sets each option that has the same name and kind as a flag.
func fill[T any](opts *T, c *config) {
	options, flags := reflect.ValueOf(opts).Elem(), reflect.ValueOf(c).Elem()
	for field, option := range options.Fields() {
		given := flags.FieldByName(field.Name)
		if given.IsValid() && given.Kind() == option.Kind() && given.CanConvert(option.Type()) {
			option.Set(given.Convert(option.Type()))
		}
	}
}

// nodeConfig makes the parts of a node from its flags. The caller closes parts.Redis. An error names the flag, and is
// a UseError unless a file is the reason.
func nodeConfig(cfg config, log *slog.Logger) (parts Config, err error) {
	parts = cfg.parts(log)
	if parts.Serve.Auth, err = cfg.verifier(log); err != nil {
		return parts, ofFlag(err)
	}
	if parts.TLS, err = cfg.secure(log); err != nil {
		return parts, err
	}
	if parts.Webhooks, err = cfg.webhooks(log); err != nil {
		return parts, err
	}
	parts.Redis, err = cfg.redisFlags.open()
	return parts, err
}

// parts returns the parts of a node that need no file and no URL.
func (c *config) parts(log *slog.Logger) Config {
	return Config{
		Listen: c.Listen, Insecure: c.Insecure, AdminListen: c.AdminListen, Admin: adminPages(),
		Room: c.rooms(), Serve: c.clients(), Log: log, Version: release(), Settings: c.labels(),
	}
}

type listenFlags struct {
	Listen      string   `default:"127.0.0.1:8080" placeholder:"HOST:PORT" help:"Where game clients connect (default ${default})."`
	Insecure    bool     `help:"Without a key for tokens, listen all the same where other machines can reach it. A client is then the user that it names."`
	AllowOrigin []string `placeholder:"ORIGIN" help:"Web origin whose pages may connect besides this server's own, such as https://game.example, or https://*.game.example for all its subdomains. Repeat it, or * for all. Without a key for tokens, a node on loopback answers no requests by other names."`
	TLSCert     *string  `name:"tls-cert" and:"tls" placeholder:"FILE" help:"PEM file with the certificate of this server, and the intermediate ones behind it. Game clients connect to wss:// then. It is read again when it changes."`
	TLSKey      *string  `name:"tls-key" and:"tls" placeholder:"FILE" help:"PEM file with its private key."`
}

func (f *listenFlags) secure(log *slog.Logger) (*tls.Config, error) {
	if f.TLSCert == nil {
		return nil, nil
	}
	config, err := reload.ServeTLS(*f.TLSCert, *f.TLSKey, log)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", ofFile(err, "--tls-cert", *f.TLSCert, "--tls-key"), err)
	}
	return config, nil
}

type redisFlags struct {
	Redis     string `default:"embedded" placeholder:"URL" help:"redis://[user:password@]host:port[/db], rediss://… for TLS, unix:///path/to/socket, redis+sentinel://host:port,…/master, redis+cluster://host:port,…, also with rediss+, or embedded: inside this process, keeping nothing, for trying it out (default ${default})."`
	KeyPrefix string `label:"" placeholder:"PREFIX:" help:"What the names of all keys and channels in Redis begin with, such as eu: for eu:Room:42:Users. Nodes with another prefix are another deployment: several may share one Redis. Ends with a colon. None by default."`
	Replicas  int    `label:"" least:"0" default:"0" placeholder:"0" help:"How many replicas of Redis must have an action before it is acknowledged."`

	Files RedisFiles `embed:""`
}

func (f *redisFlags) open() (*redisurl.DB, error) { return f.Files.Open(f.Redis) }

type roomFlags struct {
	LockTTL  time.Duration `label:"" least:"1ns" default:"3s" placeholder:"3s" help:"How long a crashed holder can block a room."`
	LockPoll time.Duration `label:"" least:"1ns" default:"5ms" placeholder:"5ms" help:"Pause between two attempts at a lock that another program holds."`
	LockWait time.Duration `label:"" least:"1ns" default:"10s" placeholder:"10s" help:"How long an action waits for its room before it is refused as busy."`
	MaxBatch int           `label:"" least:"1" default:"256" placeholder:"256" help:"How many actions may share one hold of the lock. 1 takes it for each anew."`
	Capacity int           `least:"0" default:"0" placeholder:"0" help:"How many members a room may have. 0 sets no limit of its own (65536 seats)."`

	MatchSettings matchSettings `placeholder:"JSON" help:"With which settings players may begin rooms by a match: a list, such as '[{\"labels\":{\"mode\":\"duel\"},\"capacity\":2},{\"capacity\":4}]', or @FILE with one. Those count whose labels the match has, and the first is for a match without settings. Players choose unless given."`

	Feed    int `label:"" least:"0" default:"0" placeholder:"0" help:"About how many of the last commits of all rooms a backend can go back in the feed, GET /api/feed. It needs --journal. 0 keeps no feed."`
	Journal int `label:"" least:"0" default:"0" placeholder:"0" help:"About how many of its last commits each room keeps in Redis, for audits. 0 keeps none."`

	Duplicate string        `label:"" default:"replace" enum:"replace,reject" placeholder:"replace" help:"What happens when a user joins a room with a second connection: replace closes the first one (4001), reject refuses the second."`
	Grace     time.Duration `label:"" least:"0s" default:"10s" placeholder:"10s" help:"How long the user of a lost connection, or of a node that has gone, keeps the seats. 0 frees them at once."`
	NodeTTL   time.Duration `label:"" placeholder:"5s" help:"How long a node that has stopped is taken to be alive: 5s, or --lock-ttl if that is longer."`
}

// grace returns the grace for Options, where zero means the default and -1 none.
func (f *roomFlags) grace() time.Duration {
	if f.Grace == 0 {
		return -1
	}
	return f.Grace
}

type operateFlags struct {
	AdminListen string `placeholder:"HOST:PORT" help:"Where operators find their page /admin, /metrics (Prometheus), /debug/pprof/ and /healthz, such as 127.0.0.1:9090. On loopback all of this machine may look; elsewhere an admin token is needed, and so a key. Off unless given."`

	LogLevel   string        `default:"info" enum:"trace,debug,info,warn,error" placeholder:"info" help:"One of ${enum}."`
	LogFormat  string        `default:"console" enum:"console,json" placeholder:"console" help:"One of ${enum}."`
	DrainDelay time.Duration `least:"0s" default:"0s" placeholder:"0s" help:"After SIGTERM: how long /readyz fails before the node stops serving new clients. Longer than two probes of the load balancer."`

	fileFlag `embed:""`
}

type limitFlags struct {
	MaxConnections   int           `label:"" least:"1" default:"50000" placeholder:"50000" help:"How many game clients may be connected; further ones get HTTP 503. Fewer if the process may not have as many files open (ulimit -n)."`
	MaxPerAddress    limit         `label:"" default:"1000" placeholder:"1000" help:"How many of them may have the same address; further ones get HTTP 429. The addresses of an IPv6 network of 64 bits count as one. off sets no limit."`
	TrustProxy       []network     `placeholder:"CIDR" help:"Networks of proxies before this node, such as 10.0.0.0/8,fd00::/8. Of connections from there X-Forwarded-For says whose they are; the right-most address that is not of such a network counts."`
	HandshakeTimeout time.Duration `least:"1ns" default:"10s" placeholder:"10s" help:"How long an HTTP request may take, and so the handshake of a WebSocket. After that the connection is closed."`
	AuthTimeout      time.Duration `least:"1ns" default:"10s" placeholder:"10s" help:"How long a client without a token may take to send one. After that it is closed (4003)."`
	PingInterval     time.Duration `label:"" least:"1s" default:"5s" placeholder:"5s" help:"How long a client may be silent before the node pings it. Who is silent for two of these is shown as away. A phone in a tunnel, too: --grace keeps the seat."`
	MaxFrame         size          `label:"" least:"1" default:"16KiB" placeholder:"16KiB" help:"How long a request may be. A longer one closes its connection (1009)."`
	Rate             rate          `label:"" default:"50/s" placeholder:"50/s" help:"How many requests a client may send, and so may all connections of a user to this node together. Further ones get rate_limited, and who goes on regardless is closed (4009). off sets no limit."`
	Burst            int           `label:"" least:"1" default:"100" placeholder:"100" help:"How many requests they may send at once."`
	MaxRooms         int           `label:"" least:"1" default:"64" placeholder:"64" help:"In how many rooms a connection may be, as a member or watching. A request for a further one gets bad_request."`
	MaxNewRooms      limit         `label:"" default:"64" placeholder:"64" help:"How many rooms a user may begin in a minute, by joining them through this node. Then a join into a room that there is not gets rate_limited. off sets no limit."`
	MaxMemberData    size          `label:"" least:"1" default:"1KiB" placeholder:"1KiB" help:"How many bytes of JSON a member may set."`
	MaxPrivateData   size          `label:"" least:"1" default:"1KiB" placeholder:"1KiB" help:"How many bytes of JSON the private data of a member may have, which only the member and admins are shown."`
	MaxRoomData      size          `label:"" least:"1" default:"8KiB" placeholder:"8KiB" help:"How many bytes of JSON the data of a room may have."`
	MaxMessage       size          `label:"" least:"1" default:"2KiB" placeholder:"2KiB" help:"How many bytes of text or JSON a message may have. What is longer gets bad_request, as with data."`
	MaxQueue         size          `label:"" least:"1" default:"256KiB" placeholder:"256KiB" help:"How many bytes may wait for a client that reads slowly: of replies, until its next request waits, and of changes in its rooms, until a snapshot takes their place. A single reply, or a snapshot, may be longer."`
}

type webhookFlags struct {
	Webhook           []receiver    `placeholder:"URL" sep:" " help:"Send every commit of every room to this URL, in requests signed as Standard Webhooks has it. Repeat it for several receivers. Behind a # may stand which commits it wants: https://game.example/roomd#rooms=table-*&kinds=join,leave. It needs --feed and --journal. The log shows the host only."`
	WebhookSecretFile *string       `placeholder:"FILE" help:"File with the secret that signs these requests: whsec_ and 24 to 64 bytes in base64. With several, one in each line, each signs. It is read again when it changes."`
	WebhookTimeout    time.Duration `least:"100ms" default:"10s" placeholder:"10s" help:"How long a receiver may take to answer. Then the request is sent again."`
}

// maxWebhookTimeout is less than five minutes, the age at which receivers refuse a signature.
const maxWebhookTimeout = time.Minute

func (f *webhookFlags) validate() error {
	if err := webhook.Check(f.receivers()); err != nil {
		return fmt.Errorf("--webhook: %w", err)
	}
	switch {
	case len(f.Webhook) > 0 && f.WebhookSecretFile == nil:
		return errors.New("--webhook needs --webhook-secret-file; make one: " +
			"echo whsec_$(openssl rand -base64 32) >webhook-secret")
	case len(f.Webhook) == 0 && f.WebhookSecretFile != nil:
		return errors.New("--webhook-secret-file is for --webhook, which is not given")
	case f.WebhookTimeout > maxWebhookTimeout:
		return fmt.Errorf("--webhook-timeout is %v, it must be at most %v", f.WebhookTimeout, maxWebhookTimeout)
	}
	return nil
}

func (f *webhookFlags) webhooks(log *slog.Logger) (cfg webhook.Config, err error) {
	if len(f.Webhook) == 0 {
		return cfg, nil
	}
	secrets, err := webhook.SecretFile(*f.WebhookSecretFile, log)
	if err != nil {
		return cfg, fmt.Errorf("--webhook-secret-file: %w", err)
	}
	return webhook.Config{Receivers: f.receivers(), Secrets: secrets, Timeout: f.WebhookTimeout}, nil
}

func (f *webhookFlags) receivers() (all []webhook.Receiver) {
	for _, r := range f.Webhook {
		all = append(all, r.Receiver)
	}
	return all
}
