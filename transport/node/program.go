package node

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/alecthomas/kong"
	"github.com/rs/zerolog"

	"roomd/lockmgr"
	"roomd/lockmgr/redisconn/redisurl"
	"roomd/room"
	"roomd/transport/internal/reload"
)

// Main runs the program roomd with the arguments of the process, and ends the process: with 0 after a signal, 1 after
// a failure, and 2 if it was started wrongly. It uses Name, Seating and Starter of the rules, and flags for the rest.
// With a Seating, --capacity is refused: the rules decide. Start all nodes on one Redis with the same rules; nodes
// compare the names of their rules, and log a difference.
func Main(rules room.Rules) { MainVia(rules, nil) }

// MainVia is Main with dial, if not nil, for all connections to Redis. It is for tests of network failures.
func MainVia(rules room.Rules, dial redisurl.Dialer) {
	zerolog.DurationFieldFormat = zerolog.DurationFormatString // with their units
	os.Exit(program{filepath.Base(os.Args[0]), rules, dial}.command(os.Args[1:], os.Stdout, os.Stderr))
}

// program is roomd with its name in the shell and the rules of a game.
type program struct {
	name  string
	rules room.Rules
	dial  redisurl.Dialer
}

type cli struct {
	Serve config   `cmd:"" default:"withargs" help:"Run a node. This is what roomd does if no command is given."`
	Check checkCmd `cmd:"" help:"Try a configuration, and say what to change."`
	Token tokenCmd `cmd:"" help:"Print a token, by which a game client says who it is."`

	Version kong.VersionFlag `env:"-" help:"Print the version, the revision it was built from, and Go's version."`
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

Every flag is also an environment variable, --lock-ttl is ROOMD_LOCK_TTL, and a key in the YAML
file that --config names: lock-ttl.

It ends with 0 after SIGTERM, SIGINT or SIGHUP, with 1 if something failed, and with 2 if it was
started wrongly.`

func (p program) options() []kong.Option {
	return []kong.Option{
		kong.Name(p.name),
		kong.Description(description),
		kong.DefaultEnvars("ROOMD"),
		kong.PostBuild(p.hideFlags),
		kong.ConfigureHelp(kong.HelpOptions{Compact: true, NoExpandSubcommands: true}),
		kong.Help(func(options kong.HelpOptions, ctx *kong.Context) error {
			if ctx.Selected() == nil { // no command: the help is of a node's flags
				ctx.Model.Flags = append(ctx.Model.Flags, ctx.Model.DefaultCmd.Flags...)
			}
			return kong.DefaultHelpPrinter(options, ctx)
		}),
	}
}

// hideFlags hides, in the help, the flags that the rules replace. Using one still gives an error with the reason.
func (p program) hideFlags(k *kong.Kong) error {
	for _, command := range k.Model.Children {
		for _, flag := range command.Flags {
			flag.Hidden = flag.Hidden || flag.Name == "capacity" && p.rules.Seating != nil
		}
	}
	return nil
}

func (p program) command(args []string, stdout, stderr io.Writer) int {
	err := p.dispatch(args, stdout, stderr)
	if err != nil {
		fmt.Fprintf(stderr, "%s: %v\n", p.name, err)
	}
	return exitCode(err)
}

// parse reads a command line, the environment, and the file named by either. Its error names the line of the file with
// an unusable value.
func (p program) parse(args []string, more ...kong.Option) (*cli, *kong.Context, error) {
	file := &configFile{entries: make(map[string]fileEntry), origins: make(map[string]string)}
	base := config{rules: p.rules, file: file, redisFlags: redisFlags{Files: RedisFiles{Dial: p.dial}}}
	c := &cli{Serve: base, Check: checkCmd{config: base}}
	opts := append(p.options(), kong.Bind(file), kong.Resolvers(kong.ResolverFunc(file.resolve)))
	parsed, err := kong.Must(c, append(opts, more...)...).Parse(args)
	if err != nil {
		return c, nil, file.locate(err)
	}
	for _, step := range parsed.Path {
		if step.Flag != nil && !step.Resolved {
			file.origins[step.Flag.Name] = "the command line"
		}
	}
	return c, parsed, nil
}

func (p program) dispatch(args []string, stdout, stderr io.Writer) error {
	c, parsed, err := p.parse(args, kong.Writers(stdout, stderr), kong.Vars{"version": version()})
	if err != nil {
		return err
	}
	ctx, release := catchSignals()
	defer release()
	switch command, _, _ := strings.Cut(parsed.Command(), " "); command {
	case "check":
		err = c.Check.run(ctx, stdout)
	case "token":
		err = c.Token.print(stdout)
	default:
		err = run(ctx, c.Serve, stderr, func(*Node) {})
	}
	return c.Serve.file.locate(err)
}

// Exit codes.
const (
	exitFailed   = 1
	exitWrongUse = 2
)

// UseError reports an unusable flag; no change of a file can mend it.
type UseError struct{ error }

// Unwrap returns the cause.
func (e UseError) Unwrap() error { return e.error }

// ofFlag turns an error about a flag into a UseError. An error about a file stays, because the file may be mended.
func ofFlag(err error) error {
	if errors.As(err, new(*reload.FileError)) {
		return err
	}
	return UseError{err}
}

func exitCode(err error) int {
	var parse *kong.ParseError
	switch {
	case err == nil:
		return 0
	case errors.As(err, new(*reload.FileError)):
		return exitFailed
	case errors.As(err, &parse), errors.As(err, new(UseError)), errors.Is(err, room.ErrInvalid),
		errors.Is(err, lockmgr.ErrInvalid):
		return exitWrongUse
	}
	return exitFailed
}

// flagOf maps options that other packages check to flags.
var flagOf = map[string]string{
	"AllowOrigins": "--allow-origin", "listen": "--listen", "AdminListen": "--admin-listen",
	"TrustProxy": "--trust-proxy", "MaxFrame": "--max-frame", "Rate": "--rate", "Burst": "--burst",
	"MemberData": "--max-member-data", "PrivateData": "--max-private-data", "RoomData": "--max-room-data",
	"Message": "--max-message",
	"Journal": "--journal", "Feed": "--feed", "KeyPrefix": "--key-prefix", "TTL": "--lock-ttl", "Claim": "--lock-ttl",
	"Poll": "--lock-poll", "LockWait": "--lock-wait", "NodeTTL": "--node-ttl",
}

// others replaces the names of options in the text of an error about another option.
var others = strings.NewReplacer("LockTTL", "--lock-ttl", "Journal must", "--journal must")

// inFlags replaces the option in an error by the flag, which makes the error a UseError. Other errors stay.
func inFlags(err error) error {
	var field, problem string
	if invalid, is := errors.AsType[*room.InvalidError](err); is {
		field, problem = invalid.Field, others.Replace(invalid.Problem)
	} else if text, is := strings.CutPrefix(fmt.Sprint(err), "lockmgr: "); is && errors.Is(err, lockmgr.ErrInvalid) {
		field, problem, _ = strings.Cut(text, " ")
	}
	if flagOf[field] == "" {
		return err
	}
	return UseError{fmt.Errorf("%s %s", flagOf[field], problem)}
}
