package scenarios

import (
	"context"
	"fmt"
	"testing"
	"time"
)

// patience bounds each step of a scenario.
const patience = 15 * time.Second

// Subject is a client under test, and the program that uses it. See the package's description.
type Subject interface {
	// Do carries out a command, and returns the answer. Several calls run at once. It returns at the
	// end of ctx, with any answer.
	Do(ctx context.Context, command string, args ...string) string
}

// Options are the argument of the command connect, in JSON. Times are in milliseconds.
type Options struct {
	// User is for ?user=, and empty if there are tokens.
	User string `json:"user,omitzero"`
	// Tokens are what the callback for tokens returns, one after the other; the last one again and again.
	// None means that there is no callback.
	Tokens []string `json:"tokens,omitzero"`
	// Base and Cap are those of the back-off.
	Base int `json:"base"`
	Cap  int `json:"cap"`
	// Idle is when the heartbeat pings, and Silence how long it then waits.
	Idle    int `json:"idle"`
	Silence int `json:"silence"`
	// Wait is how long a request waits for a connection. After that it fails with the code timeout.
	Wait int `json:"wait"`
}

// quick are the options of a scenario that says nothing else.
var quick = Options{Base: 5, Cap: 50, Idle: 10_000, Silence: 5_000, Wait: 10_000}

// Run plays every scenario of the list, each against a new subject. connect makes the subjects, and must end
// each with its test.
func Run(t *testing.T, connect func(t *testing.T, addresses []string) Subject) {
	all, err := parse(list)
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range all {
		t.Run(s.name, func(t *testing.T) {
			t.Parallel()
			err := play(t.Context(), s, func(addresses []string) Subject { return connect(t, addresses) })
			if err != nil {
				t.Error(err)
			}
		})
	}
}

// play plays one scenario. The error says in which line of the list the subject did something else.
func play(ctx context.Context, s scenario, connect func(addresses []string) Subject) error {
	ctx, cancel := context.WithCancel(ctx)
	server := startServer(ctx)
	p := &player{life: ctx, server: server, subject: connect(server.urls()), answers: map[string]chan string{}, version: 2}
	defer func() {
		cancel()
		server.close()
		p.calls.Wait()
	}()
	for _, step := range s.steps {
		if err := p.play(ctx, step); err != nil {
			return fmt.Errorf("list.txt:%d: %s %s: %w", step.line, step.verb, step.text, err)
		}
	}
	return p.finish(ctx)
}
