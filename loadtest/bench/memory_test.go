package bench

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"roomd/loadtest/bench/worker"
	"roomd/loadtest/internal/process"
	"roomd/lockmgr/redistest"
)

func TestMemory(t *testing.T) {
	t.Parallel()            // it mostly waits
	const connections = 400 // with fewer, what a node keeps by itself outweighs them at times
	b := newBench(t, redistest.Start(t).URL())
	b.connections, b.heapProfile = connections, filepath.Join(t.TempDir(), "heap")
	m, err := b.measureMemory(t.Context())
	redistest.OK(t, err)
	if len(m.Servers) != len(memoryServers) {
		t.Fatalf("%d servers", len(m.Servers))
	}
	for name, r := range m.Servers {
		if wrong := r.wrong(); len(wrong) > 0 {
			t.Errorf("%s: %v", name, wrong)
		}
		// A node has a few goroutines more than before at times.
		if r.Connections != connections || r.Goroutines < 0.8 || r.Goroutines > 1.5 || r.Heap <= 0 {
			t.Errorf("%s: %+v", name, *r)
		}
	}
	if profile, err := os.Stat(b.heapProfile); err != nil || profile.Size() == 0 {
		t.Errorf("the profile: %v", err)
	}
	if n := b.rdb.DBSize(t.Context()).Val(); n != 0 {
		t.Errorf("%d keys are left", n)
	}
	var table bytes.Buffer
	if err := m.figures().writeText(&table); err != nil || !strings.Contains(table.String(), "roomd, in a room") {
		t.Errorf("%v\n%s", err, &table)
	}
}

// Clients that are not there would make the others look dear.
func TestMemory_ServerThatDropsClients(t *testing.T) {
	t.Parallel() // it mostly waits
	b := newBench(t, redistest.Start(t).URL())
	b.connections = 50
	if r, err := b.tryMemory(t.Context(), memoryServer{kind: dropping, join: true}, "x", 50); err == nil || !strings.Contains(err.Error(), "33 of 50 clients are in") {
		t.Errorf("%v, %+v", err, r)
	}
}

// The figures are those of a server that keeps a MiB of each client.
func TestMemory_ServerThatLeaks(t *testing.T) {
	t.Parallel() // it mostly waits
	b := newBench(t, redistest.Start(t).URL())
	r, err := b.tryMemory(t.Context(), memoryServer{kind: leaking}, "x", 50)
	redistest.OK(t, err)
	if r.Heap < 1000 || r.Heap > 1200 || r.Resident.IsKnown() && (r.Resident < 900 || r.Freed < 900) {
		t.Errorf("%+v", *r)
	}
}

func TestMemory_Failed(t *testing.T) {
	r := newMemoryResult(worker.Memory{}, worker.Memory{}, worker.Memory{})
	r.Failure = "no server"
	m := &Memory{Servers: map[string]*MemoryResult{"gorilla": r}}
	if err := (&Report{Memory: m}).Err(); err == nil || !strings.Contains(err.Error(), "memory, gorilla: no server") {
		t.Errorf("%v", err)
	}
	var table bytes.Buffer
	if err := m.figures().writeText(&table); err != nil || !strings.Contains(table.String(), "no server") {
		t.Errorf("%v\n%s", err, &table)
	}
	if err := (&Report{Memory: m}).WriteHTML(io.Discard); err != nil {
		t.Error(err)
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
	var log bytes.Buffer
	b := &bench{connections: 1 << 30, log: &log}
	if n := b.afford(); process.MaxFiles() > 0 && (n >= 1<<30 || !strings.Contains(log.String(), fmt.Sprint(n))) {
		t.Errorf("%d: %s", n, &log)
	}
}
