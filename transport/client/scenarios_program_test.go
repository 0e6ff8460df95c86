package client_test

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"sync"
	"testing"

	"go.uber.org/goleak"

	"roomd/room"
	"roomd/transport/client"
)

// asProgram in the environment makes this test's binary the program that the conformance kit tests.
const asProgram = "ROOMD_CLIENT_AS_PROGRAM"

func TestMain(m *testing.M) {
	if os.Getenv(asProgram) != "" {
		runProgram()
		return
	}
	goleak.VerifyTestMain(m)
}

// runProgram reads and writes the lines of the kit.
func runProgram() {
	subjects := map[string]*subject{}
	var running sync.WaitGroup
	var mu sync.Mutex // held to write
	out := json.NewEncoder(os.Stdout)
	for in := json.NewDecoder(os.Stdin); ; {
		var ask request
		if in.Decode(&ask) != nil {
			break
		}
		s := subjects[ask.Client]
		if s == nil {
			ctx, cancel := context.WithCancel(context.Background())
			s = &subject{ctx: ctx, cancel: cancel, rooms: map[string]*client.Room{}, readers: map[string]*reader{}}
			subjects[ask.Client] = s
		}
		running.Go(func() {
			answer := s.carryOut(ask)
			mu.Lock()
			defer mu.Unlock()
			_ = out.Encode(answer)
		})
	}
	for _, s := range subjects {
		s.close()
	}
	running.Wait()
	if err := goleak.Find(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// request is a line of the kit.
type request struct {
	ID      int
	Client  string
	Do      string
	Room    string
	User    string
	Other   string
	Name    string
	Options struct {
		Addresses                      []string
		User                           string
		Tokens                         []string
		Base, Cap, Idle, Silence, Wait int
		Seat                           *int
		History                        int
		Labels                         map[string]string
		Settings                       room.Settings
	}
	Value   bool
	By      int
	Text    string
	Data    json.RawMessage
	In      *int
	Then    client.Then
	Actions json.RawMessage
	Query   struct {
		Prefix, Contains string
		Labels           map[string]string
		Free             int
		Sort             string
	}
}

// answer is the line for it.
type answer struct {
	ID      int             `json:"id"`
	Result  json.RawMessage `json:"result,omitempty"`
	Error   string          `json:"error,omitempty"`
	Message string          `json:"message,omitempty"`
}
