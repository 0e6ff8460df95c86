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
			if m := r.Memory; len(r.wrong()) > 0 || m.Connections != connections || m.Goroutines < 0.8 || m.Goroutines > 1.5 || m.Heap <= 0 {
				t.Errorf("%s: %v, %+v", c.name, r.wrong(), m)
			}
		}
	}
	if profile, err := os.Stat(b.heapProfile); err != nil || profile.Size() == 0 {
		t.Errorf("the profile: %v", err)
	}
	b.emptied(t)
}

// Clients that are not there would make the others look dear. The figures are those of a server that keeps a MiB of each client.
func TestMemory_Broken(t *testing.T) {
	t.Parallel() // it mostly waits
	b := testBench(t, redistest.Start(t).URL())
	for _, join := range []bool{false, true} {
		r, err := b.cell(t.Context(), 0, cell{load: memoryLoad(50, join), who: contender{name: dropping}})
		if err != nil || r.Failure == "" {
			t.Errorf("clients that are dropped: %+v, %v", r, err)
		}
	}
	m := mustCell(t, b, memoryLoad(50, false), contender{name: leaking}).Memory
	if m.Heap < 1000 || m.Heap > 1200 || m.Resident.IsKnown() && (m.Resident < 900 || m.Freed < 900) {
		t.Errorf("%+v", m)
	}
}

// What cannot start says why, and a program that does not call Main does not start itself without end.
func TestChild_CannotStart(t *testing.T) {
	for server, want := range map[string]string{"nothing": `"nothing"`, roomdName: "redis"} {
		if c, err := openChild(t.Context(), task{Server: server, Redis: "nonsense"}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %+v, %v", server, c, err)
		}
	}
	t.Setenv(childEnv, "{}")
	if _, err := openChild(t.Context(), task{Server: echoName, Redis: "embedded"}); err == nil {
		t.Error("a child started a child")
	}
}

// A child ends with its parent's end of the pipe, and a question to one that has ended fails.
func TestChild_Ends(t *testing.T) {
	c, err := openChild(t.Context(), task{Server: echoName, Redis: "embedded"})
	redistest.OK(t, err)
	c.close()
	if _, err := c.ask(question{}); err == nil || !c.cmd.ProcessState.Success() {
		t.Errorf("%v, and it ended with %v", err, c.cmd.ProcessState)
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
