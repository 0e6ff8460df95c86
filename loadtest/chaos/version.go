package chaos

import (
	"context"
	"fmt"
	"strings"
	"syscall"

	"roomd/lockmgr/redistest/launch"
)

// version selects one of run.programs.
type version int

const (
	own   version = iota // this one
	other                // Config.OtherProgram: nodes with even numbers start as that
)

// inEnvironment turns a command's flags into environment variables, because a version ignores unknown
// variables.
func inEnvironment(c launch.Command) launch.Command {
	program, flags := c.Program, c.Args
	c.Program = "env" // replaces itself by the program
	c.Args = func(s *launch.Server) ([]string, error) {
		args, err := flags(s)
		var set []string
		for i := 0; i+1 < len(args); i += 2 {
			name := strings.ReplaceAll(strings.TrimPrefix(args[i], "--"), "-", "_")
			set = append(set, "ROOMD_"+strings.ToUpper(name)+"="+args[i+1])
		}
		return append(set, program), err
	}
	return c
}

var updateFault = &Fault{
	Name: "node-update", What: "SIGTERM of a node, which drains; it starts again, as the other version if there is one (--update-from)",
	inject: func(_ context.Context, i *injection) (heal, error) {
		n, updated := i.node(), i.run.cfg.OtherProgram == ""
		if !updated {
			i.on += map[version]string{own: " goes back", other: " is updated"}[n.version]
		}
		n.down = true
		return func(ctx context.Context) error {
			if err := n.server.Wait(ctx); err != nil {
				return fmt.Errorf("%s drains: %w", n.name, err)
			}
			if !updated { // otherwise it failed to start
				n.version = own + other - n.version
				if err := n.server.Become(n.command()); err != nil {
					return err
				}
				updated = true
			}
			return n.heal(ctx)
		}, n.server.Signal(syscall.SIGTERM)
	},
}
