// Package scenarios has a list of scenarios that every client of roomd must pass, and a scripted server: [Run] plays
// the list against a client, which may be written in any language.
//
// A test gives Run its client as a [Subject]. The subject carries out these commands of a program. An argument that
// begins with {, [ or " is JSON. An answer is "ok" unless the list says something else, or "error CODE" with the code
// of the error.
//
//	connect OPTIONS            as type Options; answers when connected
//	join ROOM [{"seat":2}]     or {"history":5}; likewise watch (with history), leave, unwatch, and: ready ROOM
//	                           true|false, set ROOM DATA, setMember ROOM DATA, setPrivate ROOM DATA,
//	                           setPrivateOf ROOM USER DATA, say ROOM TEXT, sayTo ROOM USER TEXT, propose ROOM MOVE
//	timer ROOM NAME MS [THEN]  sets a timer; MS null cancels it
//	swap ROOM USER USER        and shuffle ROOM, txn ROOM ACTIONS
//	update ROOM N              adds N to the room's data, which is a number, 0 if there is none
//	users ROOM                 answers as view, without seat
//	close                      closes the client
//	view ROOM                  {"epoch","version","users","settings","host","data","private","seat"}; seat only of a
//	                           member; host, data, private by user, and the names of timers only if there are some;
//	                           settings without zero values. "none": there is no such room
//	iterate ROOM NAME          begins to iterate over the room's changes. It has begun when the answer comes
//	next NAME                  the next change as the protocol has it, and epoch and version; of a snapshot only
//	                           {"type","epoch","version"}. "end" if the iteration is over
//	lobby QUERY                begins to follow the lobby: {"prefix","contains","labels","free","sort"}
//	list                       the client's next list, {"rooms":["ID COUNT/CAPACITY"],"stale":true}, stale only if it
//	                           is; or the error that ends it, and then "end"
//	unlist                     ends following the lobby
//	state                      the state, and behind a space the code of the client's error, if it has one
//	ended ROOM                 the code of the error of the room that is, or was, there, and behind a space the
//	                           reason if the code is lost. "no" as long as the room goes on
//
// Codes are the server's. The client's own are unknown, timeout, left, unwatched, lost, client_closed, replaced
// (closed with 4001) and disconnected (closed with another code that is the client's fault).
//
// The server runs a goroutine for each connection, which ends with the scenario.
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
	// Do carries out a command, and returns the answer. Several calls run at once. It returns at the end of ctx at
	// the latest, then with any answer.
	Do(ctx context.Context, command string, args ...string) string
}

// Options are the argument of the command connect, in JSON. Times are in milliseconds.
type Options struct {
	// User is the value of ?user=, empty if there are tokens.
	User string `json:"user,omitzero"`
	// Tokens are the results of the callback for tokens, one after the other; the last one again and again. None means
	// that there is no callback.
	Tokens []string `json:"tokens,omitzero"`
	// Base and Cap are those of the back-off.
	Base int `json:"base"`
	Cap  int `json:"cap"`
	// Idle is the silence after which the client pings, and Silence how long it then waits for an answer.
	Idle    int `json:"idle"`
	Silence int `json:"silence"`
	// Wait is how long a request waits for a connection. After that it fails with the code timeout.
	Wait int `json:"wait"`
}

// quick are the options of a scenario that says nothing else.
var quick = Options{Base: 5, Cap: 50, Idle: 10_000, Silence: 5_000, Wait: 10_000}

// Run plays every scenario of the list, each against a new subject. connect makes the subjects, and must end each
// with its test.
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
	p := &player{life: ctx, server: server, subject: connect(server.urls()), answers: map[string]chan string{},
		version: 2}
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
