package main

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"regexp"
	"slices"
	"strings"

	"roomd/transport/scenarios"
)

// errNotConform ends the program after its report.
var errNotConform = errors.New("the client does not do what every client must")

type conformCmd struct {
	Client  string `required:"" placeholder:"COMMAND" help:"The client's program and its arguments, separated by spaces."`
	Only    string `name:"run" placeholder:"REGEXP" help:"Only the scenarios whose names match."`
	Verbose bool   `short:"v" help:"Also name the scenarios that pass."`
}

func (c *conformCmd) Help() string {
	return `Examples:

  roomload conform --client 'node transport/page/testdata/conform.js'
  roomload conform --client ./my-client --run 'kick|moved' -v

The client is a program in any language that reads commands from its standard input, and writes answers to its
standard output, each a line of JSON: transport/scenarios/README.md has the table. The kit plays scenarios to it, with a
scripted server and with real nodes, and says what the client had to do and what it did instead.

It ends with 0 if all scenarios pass, with 1 if one does not, and with 2 if it was started wrongly.`
}

// Validate is called by kong.
func (c *conformCmd) Validate() error {
	if len(strings.Fields(c.Client)) == 0 {
		return errors.New("--client is empty, it must be a command")
	}
	chosen, err := c.scenarios()
	if err == nil && len(chosen) == 0 {
		err = fmt.Errorf("%q is in no scenario's name", c.Only)
	}
	if err != nil {
		return fmt.Errorf("--run: %w", err)
	}
	return nil
}

// scenarios returns those that --run chooses.
func (c *conformCmd) scenarios() ([]scenarios.Scenario, error) {
	names, err := regexp.Compile(c.Only)
	if err != nil {
		return nil, err
	}
	other := func(s scenarios.Scenario) bool { return !names.MatchString(s.Name) }
	return slices.DeleteFunc(scenarios.All(), other), nil
}

// Run is called by kong.
func (c *conformCmd) Run(ctx context.Context, std streams) error {
	chosen, err := c.scenarios()
	if err != nil {
		return err
	}
	line := strings.Fields(c.Client)
	cmd := exec.CommandContext(ctx, line[0], line[1:]...)
	cmd.Stderr = std.stderr
	passed, failed := 0, 0
	err = scenarios.Check(ctx, cmd, chosen, func(s scenarios.Scenario, err error) {
		if err != nil {
			failed++
			fmt.Fprintf(std.stdout, "FAIL %s\n     %s\n", s.Name, strings.ReplaceAll(err.Error(), "\n", "\n     "))
			return
		}
		passed++
		if c.Verbose {
			fmt.Fprintf(std.stdout, "ok   %s\n", s.Name)
		}
	})
	if passed+failed == 0 {
		return err // it could not be started
	}
	fmt.Fprintf(std.stdout, "%d scenarios passed, %d failed\n", passed, failed)
	if err == nil && failed > 0 {
		err = errNotConform
	}
	return err
}
