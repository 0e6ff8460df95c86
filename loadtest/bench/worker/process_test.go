package worker

import (
	"context"
	"errors"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func TestServer_CannotStart(t *testing.T) {
	for kind, want := range map[string]string{"nothing": `"nothing"`, dying: "has ended", Node: "redis"} {
		s, err := StartServer(t.Context(), ServerConfig{Kind: kind, Redis: "nonsense"})
		if err == nil {
			s.Close()
		}
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", kind, err, want)
		}
	}
}

// A program that does not call Main must not start itself without end.
func TestLaunch_FromAChild(t *testing.T) {
	t.Setenv(childEnv, "1")
	if _, err := launch(t.Context()); err == nil {
		t.Error("it did")
	}
}

// The end of ctx stops the wait for a child that is busy, and close ends the child.
func TestCall_Stopped(t *testing.T) {
	s, err := StartSwarm(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	silent, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer silent.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if _, err := s.Connect(ctx, ConnectConfig{Address: "ws://" + silent.Addr().String() + "/ws", N: 1}); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("%v", err)
	}
	s.Close()
	if state := s.process.cmd.ProcessState; state == nil || !state.Success() {
		t.Errorf("the child ended with %v", state)
	}
	if _, err := s.Leave(t.Context()); err == nil {
		t.Error("a process that has ended answers")
	}
}

// A node in a process of its own, and clients in others, see each other.
func TestSwarm(t *testing.T) {
	server, err := StartServer(t.Context(), ServerConfig{Kind: Node, Redis: "embedded", Name: "node"})
	if err != nil {
		t.Fatal(err)
	}
	defer server.Close()
	swarm, err := StartSwarm(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer swarm.Close()
	o, err := swarm.Connect(t.Context(), ConnectConfig{Address: server.URL, N: 20, Room: "r", RoomSize: 10, Join: true})
	if err != nil || Done(o) != 20 || len(o.Refusals()) > 0 || o.FirstError() != nil {
		t.Fatalf("%v, %+v", err, o)
	}
	if m, err := server.Memory(t.Context(), true); err != nil || m.Connections != 20 || m.Heap == 0 || m.Goroutines < 20 {
		t.Errorf("%v, %+v", err, m)
	}
	file := filepath.Join(t.TempDir(), "heap")
	if err := server.WriteHeapProfile(t.Context(), file); err != nil {
		t.Error(err)
	}
	if text, err := os.ReadFile(file); err != nil || len(text) == 0 {
		t.Errorf("the profile: %v", err)
	}
	if o, err := swarm.Leave(t.Context()); err != nil || len(o.Refusals()) > 0 || o.FirstError() != nil {
		t.Errorf("%v, %+v", err, o)
	}
}
