// Package conform is the conformance kit: it plays scenarios against a client of roomd in any language. The client is
// a [Program], which carries out commands; README.md says which, for whoever writes a client.
//
// Most scenarios have a scripted server (list.txt), which says what no node would say when a test wants it. The others
// have real nodes, with an embedded Redis (nodes.txt).
//
// A scenario's servers run goroutines, which end with it; a Program has two, until [Program.Close].
package conform

import (
	"context"
	_ "embed"
	"fmt"
	"strings"
	"time"
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

// Scenarios returns all scenarios.
func Scenarios() (all []Scenario) {
	for _, file := range [][2]string{{"list.txt", list}, {"nodes.txt", nodes}} {
		of, err := parse(file[0], file[1])
		if err != nil {
			panic(err) // a test reads them, too
		}
		all = append(all, of...)
	}
	return all
}

// Play plays the scenario to a new client of the program. The error says what the client did instead, and where.
func (s Scenario) Play(ctx context.Context, program *Program) error {
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
