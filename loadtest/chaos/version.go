package chaos

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"syscall"

	"roomd/lockmgr/redistest/launch"
)

// version says which program a node is.
type version int

const (
	own   version = iota // this one
	other                // that of Config.OtherProgram; nodes with even numbers begin as that
)

// build returns what nodes are started as.
func (r *run) build() (programs map[version]string, err error) {
	programs = map[version]string{other: r.cfg.OtherProgram}
	if !hosted {
		return nil, errors.New("chaos: this program starts itself as a node, and does not call chaos.Main")
	}
	programs[own], err = os.Executable()
	return programs, err
}

// inEnvironment returns a command with its flags as variables of roomd's: a version that has no such flag does not mind.
func inEnvironment(c launch.Command) launch.Command {
	program, flags := c.Program, c.Args
	c.Program = "env" // which becomes the program
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

// drain tells a node to end, as an operator does.
func (n *node) drain() error {
	n.down = true
	return n.process.Signal(syscall.SIGTERM)
}

// update has the node start as the other version, if there is one.
func (n *node) update() error {
	if n.programs[other] == "" {
		return nil
	}
	n.version = own + other - n.version
	return n.process.Become(n.command(n.version))
}

var updateFault = &Fault{
	Name: "node-update", What: "SIGTERM of a node, which drains; it starts again, as the other version if there is one (--update-from)", loses: losesNothing,
	inject: func(_ context.Context, i *injection) (func(context.Context) error, error) {
		n, updated := i.node(), false
		if n.programs[other] != "" {
			i.on += map[version]string{own: " goes back", other: " is updated"}[n.version]
		}
		return func(ctx context.Context) error {
			if err := n.process.Wait(ctx); err != nil {
				return fmt.Errorf("node %d drains: %w", n.number, err)
			}
			if !updated { // else it could not start before
				if err := n.update(); err != nil {
					return err
				}
				updated = true
			}
			return n.heal(ctx)
		}, n.drain()
	},
}
