// Package roomd is the program roomd, for a main function of your own: a node with the rules of your game.
//
//	func main() {
//		roomd.Main(room.Rules{Name: "teams/1", Seating: teams{}})
//	}
//
// is all of it, flags, environment, check, token, completion, pages, metrics and signals. The command roomd
// is the same without a rule of its own. For a node inside another program see package node.
package roomd

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/alecthomas/kong"
	kongcompletion "github.com/jotaen/kong-completion"
	"github.com/rs/zerolog"

	"roomd/lockmgr"
	"roomd/room"
	"roomd/transport/node"
	"roomd/transport/reload"
	"roomd/transport/roomd/fileflags"
)

// Main runs roomd with the arguments of the process, and ends the process: with 0 after a signal, 1 if
// something failed, and 2 if it was started wrongly. Of the rules it takes Name, Seating and Starter; the
// flags say the rest. With a Seating, --capacity must not be given: that is then the rules' own matter.
// Start all nodes on one Redis with the same rules. Nodes that meet compare the names of
// theirs, and log a difference.
func Main(rules room.Rules) {
	zerolog.DurationFieldFormat = zerolog.DurationFormatString // with their units
	os.Exit(program{filepath.Base(os.Args[0]), rules}.command(os.Args[1:], os.Stdout, os.Stderr))
}

// program is roomd under its name in the shell, with the rules of a game.
type program struct {
	name  string
	rules room.Rules
}

// cli is the command line.
type cli struct {
	Serve  config    `cmd:"" default:"withargs" help:"Run a node. This is what roomd does if no command is given."`
	Check  checkCmd  `cmd:"" help:"Try a configuration, and say what to change."`
	Import importCmd `cmd:"" help:"Make rooms of the lists of users that an older program has left in Redis."`
	Token  tokenCmd  `cmd:"" help:"Print a token, by which a game client says who it is."`

	Completion completionCmd    `cmd:"" help:"Print a script that completes commands and flags in a shell."`
	Version    kong.VersionFlag `env:"-" help:"Print the version, the revision it was built from, and Go's version."`
}

// completionCmd is "roomd completion".
type completionCmd struct {
	Shell string `arg:"" enum:"bash,zsh,fish" help:"One of ${enum}."`
}

// Help is shown by kong below the description.
func (*completionCmd) Help() string {
	return `It prints a script by which the shell asks roomd for commands, flags and values:

  bash  source <(roomd completion bash)    in ~/.bashrc
  zsh   source <(roomd completion zsh)     in ~/.zshrc, after compinit
  fish  roomd completion fish | source     in ~/.config/fish/config.fish`
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
func options(name string) []kong.Option {
	return []kong.Option{
		kong.Name(name),
		kong.Description(description),
		kong.DefaultEnvars("ROOMD"),
		kong.ConfigureHelp(kong.HelpOptions{Compact: true, NoExpandSubcommands: true}),
		kong.Help(func(options kong.HelpOptions, ctx *kong.Context) error {
			if ctx.Selected() == nil {
				addDefaults(ctx.Model)
			}
			return kong.DefaultHelpPrinter(options, ctx)
		}),
	}
}

// addDefaults adds the flags of a node to those of no command, because roomd runs one then. It is for help
// and completion: the parser knows that by itself.
func addDefaults(model *kong.Application) {
	model.Flags = append(model.Flags, model.DefaultCmd.Flags...)
}

// hideFlags hides from help and completion what the rules decide. Who gives it all the same hears why not.
func (p program) hideFlags(model *kong.Application) {
	for _, command := range model.Children {
		for _, flag := range command.Flags {
			flag.Hidden = flag.Hidden || flag.Name == "capacity" && p.rules.Seating != nil
		}
	}
}

// command is roomd, and returns its exit code.
func (p program) command(args []string, stdout, stderr io.Writer) int {
	ctx, stop := untilSignal()
	defer stop()
	err := p.dispatch(ctx, args, stdout, stderr)
	if err != nil {
		fmt.Fprintf(stderr, "%s: %v\n", p.name, err)
	}
	return exitCode(err)
}

func (p program) dispatch(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	c := cli{Serve: config{rules: p.rules}, Check: checkCmd{config: config{rules: p.rules}}, Import: importCmd{config: config{rules: p.rules}}}
	parser, err := kong.New(&c, append(options(p.name), kong.Writers(stdout, stderr), kong.Vars{"version": version()})...)
	if err != nil {
		return err
	}
	p.hideFlags(parser.Model)
	if typed := strings.Fields(os.Getenv("COMP_LINE")); len(typed) > 0 { // a shell asks what may come next
		if !slices.ContainsFunc(parser.Model.Children, func(n *kong.Node) bool { return slices.Contains(typed, n.Name) }) {
			addDefaults(parser.Model)
		}
		kongcompletion.Register(parser, kongcompletion.WithExitFunc(func(int) {}))
		return nil
	}
	parsed, err := parser.Parse(args)
	if err != nil {
		return err
	}
	switch command, _, _ := strings.Cut(parsed.Command(), " "); command {
	case "check":
		return c.Check.run(ctx, stdout)
	case "import":
		return c.Import.run(ctx, stdout, stderr)
	case "token":
		return c.Token.print(stdout)
	case "completion":
		parser.Exit = func(int) {} // the library's command would end the process
		return (&kongcompletion.Completion{Shell: c.Completion.Shell, Code: true}).Run(parsed)
	}
	return run(ctx, c.Serve, stderr, func(*node.Node) {})
}

// What roomd ends with.
const (
	exitFailed   = 1
	exitWrongUse = 2
)

// useError says that a flag has a value that cannot be used.
type useError struct{ error }

func (e useError) Unwrap() error { return e.error }

// ofFlag makes a useError of what is wrong with the value of a flag, unless that is a file: its
// content may be otherwise next time.
func ofFlag(err error) error {
	if errors.As(err, new(*reload.FileError)) {
		return err
	}
	return useError{err}
}

func exitCode(err error) int {
	var parse *kong.ParseError
	switch {
	case err == nil:
		return 0
	case errors.As(err, &parse), errors.As(err, new(useError)), errors.As(err, new(fileflags.UseError)), errors.Is(err, room.ErrInvalid), errors.Is(err, lockmgr.ErrInvalid):
		return exitWrongUse
	}
	return exitFailed
}

// flagOf is by which flag an operator knows an option that the packages behind check.
var flagOf = map[string]string{
	"AllowOrigins": "--allow-origin", "listen": "--listen", "AdminListen": "--admin-listen",
	"TrustProxy": "--trust-proxy", "MaxFrame": "--max-frame", "Rate": "--rate", "Burst": "--burst",
	"MemberData": "--max-member-data", "PrivateData": "--max-private-data", "RoomData": "--max-room-data", "Message": "--max-message",
	"KeyPrefix": "--key-prefix", "TTL": "--lock-ttl", "Claim": "--lock-ttl", "Poll": "--lock-poll", "LockWait": "--lock-wait", "NodeTTL": "--node-ttl",
}

// inFlags names the flag in an error that names an option.
func inFlags(err error) error {
	var invalid *room.InvalidError
	if errors.As(err, &invalid) && flagOf[invalid.Field] != "" {
		return useError{fmt.Errorf("%s %s", flagOf[invalid.Field], invalid.Problem)}
	}
	if text, isLock := strings.CutPrefix(fmt.Sprint(err), "lockmgr: "); isLock && errors.Is(err, lockmgr.ErrInvalid) {
		field, problem, _ := strings.Cut(text, " ")
		if flagOf[field] != "" {
			return useError{fmt.Errorf("%s %s", flagOf[field], problem)}
		}
	}
	return err
}
