// Package scenarios is the conformance kit: it plays scenarios against a client of roomd in any language. The client is
// a program, which carries out commands; README.md says which, for whoever writes a client.
//
// Most scenarios have a scripted server (list.txt), which says what no node would say when a test wants it. The others
// have real nodes, with an embedded Redis (nodes.txt).
//
// [Check] runs goroutines, which end with it.
package scenarios

import (
	"context"
	_ "embed"
	"fmt"
	"os/exec"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
)

// patience bounds each step of a scenario.
const patience = 15 * time.Second

// told is how many steps an error tells before the one that failed.
const told = 6

//go:embed list.txt
var list string

//go:embed nodes.txt
var nodes string

// Scenario is a story of a client: what its program asks for, what happens, and what it has to do and to show.
type Scenario struct {
	Name  string
	file  string
	steps []step
}

// All returns all scenarios.
func All() (all []Scenario) {
	for _, file := range [][2]string{{"list.txt", list}, {"nodes.txt", nodes}} {
		of, err := parse(file[0], file[1])
		if err != nil {
			panic(err) // a test reads them, too
		}
		all = append(all, of...)
	}
	return all
}

// together is how many scenarios are played at once: they mostly wait.
const together = 4

// Check starts a client's program, plays scenarios to it, several at once, and ends it. It calls tell with the outcome
// of each, one after the other. The error says why the program could not be started, or what was wrong with its lines
// or its end. The command's standard input and output are taken; what it writes to standard error is for people.
func Check(ctx context.Context, cmd *exec.Cmd, scenarios []Scenario, tell func(s Scenario, err error)) error {
	program, err := start(cmd)
	if err != nil {
		return err
	}
	var telling sync.Mutex
	var all errgroup.Group
	all.SetLimit(together)
	for _, s := range scenarios {
		all.Go(func() error {
			err := s.play(ctx, program)
			telling.Lock()
			defer telling.Unlock()
			tell(s, err)
			return nil
		})
	}
	_ = all.Wait()
	return program.close()
}

// play plays the scenario to a new client of the program. The error says what the client did instead, and where.
func (s Scenario) play(ctx context.Context, program *program) error {
	ctx, cancel := context.WithCancelCause(ctx)
	stop := context.AfterFunc(program.life, func() { cancel(context.Cause(program.life)) })
	defer stop()
	p := &player{life: ctx, program: program, client: program.newClient(), answers: map[string]chan string{}, version: 2}
	defer func() {
		cancel(nil)
		p.close()
		p.calls.Wait()
	}()
	if s.steps[0].verb != "nodes" {
		p.server = startServer(ctx)
		p.addresses = p.server.urls()
	}
	for n, step := range s.steps {
		if err := p.play(ctx, step); err != nil {
			return s.failed(n, err)
		}
	}
	return p.finish(ctx)
}

// failed returns the error of step n, which tells also the steps before it.
func (s Scenario) failed(n int, err error) error {
	var text strings.Builder
	for i, step := range s.steps[max(0, n-told) : n+1] {
		if i == min(n, told) {
			fmt.Fprintf(&text, "%s:%d: ", s.file, step.line)
		}
		text.WriteString(strings.TrimSpace(step.verb+" "+step.text) + "\n")
	}
	return fmt.Errorf("%s%s: %w", &text, verbs[s.steps[n].verb].means, err)
}
