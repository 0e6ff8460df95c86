package bench

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"roomd/lockmgr/redistest"
)

// memoryLoad are clients in rooms of ten, or without a room.
func memoryLoad(clients int, join bool) workload {
	return workload{name: "memory", kind: ofMemory, clients: clients, rooms: clients / roomSize, nodes: 1, join: join}
}

func TestMemory(t *testing.T) {
	t.Parallel()            // it mostly waits
	const connections = 400 // with fewer, what a node keeps by itself outweighs them at times
	b := testBench(t, redistest.Start(t).URL())
	b.heapProfile = filepath.Join(t.TempDir(), "heap")
	for _, join := range []bool{false, true} {
		for _, c := range of(memoryLoad(connections, join)) {
			r := mustCell(t, b, memoryLoad(connections, join), c)
			// A node has a few goroutines more than before at times.
			if m := r.Memory; len(r.wrong()) > 0 || m.Connections != connections || m.Goroutines < 0.8 || m.Goroutines > 1.5 || m.Heap <= 0 || m.Stack <= 0 || m.Freed <= 0 {
				t.Errorf("%s: %v, %+v", c.name, r.wrong(), m)
			}
		}
	}
	if profile, err := os.Stat(b.heapProfile); err != nil || profile.Size() == 0 {
		t.Errorf("the profile: %v", err)
	}
	b.emptied(t)
}

// Clients that are not there would make the others look dear.
func TestMemory_ClientsThatAreCutOff(t *testing.T) {
	b := testBench(t, redistest.Start(t).URL())
	r, err := b.cell(t.Context(), 0, cell{load: memoryLoad(20, false), who: contender{name: dropping}})
	if err != nil || !strings.Contains(r.Failure, "19 connections of 20") {
		t.Errorf("%+v, %v", r, err)
	}
}

func TestMemory_EachConnection(t *testing.T) {
	before := answer{Resident: 10 << 20, Heap: 1 << 20, Goroutines: 7}
	asIs, freed := answer{Resident: 40 << 20}, answer{Resident: 20 << 20, Heap: 6 << 20, Stack: 1 << 20, Goroutines: 1031, Connections: 1024}
	if got := *newMemory(before, asIs, freed); got != (Memory{Connections: 1024, Before: 10, Resident: 30, Freed: 10, Heap: 5, Stack: 1, Goroutines: 1}) {
		t.Errorf("%+v", got)
	}
	if m := newMemory(answer{}, answer{}, answer{}); m.Before.IsKnown() || m.Resident.IsKnown() || m.Goroutines.IsKnown() {
		t.Errorf("nothing is known, and yet %+v", m)
	}
}

// What cannot start says why. A program that does not call Main does not start itself
// without end.
func TestChild(t *testing.T) {
	for server, want := range map[string]string{"nothing": `no server "nothing"`, roomdName: `"nonsense"`} {
		if c, err := openChild(t.Context(), serverConfig{Server: server, Redis: "nonsense"}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %+v, %v", server, c, err)
		}
	}
	c, err := openChild(t.Context(), serverConfig{Server: echoName, Redis: "embedded"})
	redistest.OK(t, err)
	redistest.OK(t, c.Close())
	if a, err := c.ask(nil); err == nil {
		t.Errorf("a child that has ended says %+v", a)
	}
	t.Setenv(childEnv, "{}")
	if _, err := openChild(t.Context(), serverConfig{Server: echoName, Redis: "embedded"}); err == nil {
		t.Error("a child started a child")
	}
}

func TestAffordable(t *testing.T) {
	for _, test := range []struct{ clients, files, want int }{
		{10_000, 0, 10_000},
		{10_000, 20_000, 10_000},
		{50_000, 20_000, 20_000 - 2*1024},
		{10_000, 1024, 1024 - 2*128},
		{10, 100, 1},
	} {
		if got := affordable(test.clients, test.files); got != test.want {
			t.Errorf("%d clients with %d files: %d, want %d", test.clients, test.files, got, test.want)
		}
	}
}
