package bench

import (
	"context"
	"fmt"

	"roomd/loadtest/bench/worker"
	"roomd/loadtest/report"
)

const (
	memoryName = "memory"
	memoryGoal = 12 // KiB of a connection with a room, freed
)

// memoryServers are measured in this order, each in a process of its own.
var memoryServers = []memoryServer{
	{name: "gorilla", kind: worker.Echo},
	{name: "roomd, idle", kind: worker.Node},
	{name: "roomd, in a room", kind: worker.Node, join: true},
}

// memoryServer is a server with clients that are connected and quiet.
type memoryServer struct {
	name, kind string
	join       bool // each client is in a room of ten
}

// Memory is what a connection costs in memory.
type Memory struct {
	Connections int                      `json:"connections"`
	Servers     map[string]*MemoryResult `json:"servers"`
}

// MemoryResult is what one server used. The figures of a connection are the differences to before,
// divided by their number.
type MemoryResult struct {
	Connections int           `json:"connections"` // that the server has
	Before      report.Figure `json:"before_mib"`  // resident, freed
	Resident    report.Figure `json:"resident_kib_per_connection"`
	Freed       report.Figure `json:"freed_kib_per_connection"` // resident after a collection that gives memory back
	Heap        report.Figure `json:"heap_kib_per_connection"`  // in use then
	Stack       report.Figure `json:"stack_kib_per_connection"` // in use then
	Goroutines  report.Figure `json:"goroutines_per_connection"`
	Failure     string        `json:"failure,omitempty"`
}

// measureMemory measures all servers. It returns an error if ctx has ended.
func (b *bench) measureMemory(ctx context.Context) (*Memory, error) {
	m := &Memory{Connections: b.afford(), Servers: make(map[string]*MemoryResult)}
	for _, s := range memoryServers {
		prefix := b.begin(memoryName + ": " + s.name)
		r, err := b.tryMemory(ctx, s, prefix, m.Connections)
		err, stopped := b.finish(ctx, prefix, err)
		if stopped != nil {
			return nil, stopped
		}
		if err != nil {
			r = newMemoryResult(worker.Memory{}, worker.Memory{}, worker.Memory{})
			r.Failure = err.Error()
		}
		m.Servers[s.name] = r
		fmt.Fprintf(b.log, "%s KiB a connection, %s freed\n", r.Resident.Text("%.1f"), r.Freed.Text("%.1f"))
	}
	return m, nil
}

func (b *bench) tryMemory(ctx context.Context, s memoryServer, prefix string, clients int) (*MemoryResult, error) {
	p, err := b.openProcesses(ctx, s.kind, prefix, clients)
	if err != nil {
		return nil, err
	}
	defer p.close()
	before, err := p.warm(ctx, clients, s.join)
	if err != nil {
		return nil, err
	}
	o, err := p.connect(ctx, 0, clients, worker.ConnectConfig{Join: s.join})
	if err != nil {
		return nil, err
	}
	if worker.Done(o) < clients {
		return nil, fmt.Errorf("%d of %d clients are in; %s", worker.Done(o), clients, tell(o))
	}
	asIs, err := p.settle(ctx)
	if err != nil {
		return nil, err
	}
	freed, err := p.server.Memory(ctx, true)
	if err != nil {
		return nil, err
	}
	if s.join && b.heapProfile != "" {
		if err := p.server.WriteHeapProfile(ctx, b.heapProfile); err != nil {
			return nil, err
		}
	}
	r := newMemoryResult(before, asIs, freed)
	if freed.Connections != clients {
		r.Failure = fmt.Sprintf("the server has %d connections of %d", freed.Connections, clients)
	}
	return r, nil
}

// mib returns bytes as MiB; 0 is not known.
func mib(bytes int64) report.Figure {
	return report.Per(float64(bytes)/(1<<20), float64(min(1, bytes)))
}

func newMemoryResult(before, asIs, freed worker.Memory) *MemoryResult {
	n := float64(freed.Connections)
	each := func(after, before int64) report.Figure {
		if after == 0 { // not known
			return report.Per(0, 0)
		}
		return report.Per(float64(after-before)/1024, n)
	}
	return &MemoryResult{
		Connections: freed.Connections,
		Before:      mib(before.Resident),
		Resident:    each(asIs.Resident, before.Resident),
		Freed:       each(freed.Resident, before.Resident),
		Heap:        each(freed.Heap, before.Heap),
		Stack:       each(freed.Stack, before.Stack),
		Goroutines:  report.Per(float64(freed.Goroutines-before.Goroutines), n),
	}
}

// wrong returns what is wrong with the result; nil is no result.
func (r *MemoryResult) wrong() []string {
	if r == nil || r.Failure == "" {
		return nil
	}
	return []string{r.Failure}
}

func (m *Memory) problems() (lines []string) {
	for _, s := range memoryServers {
		lines = append(lines, problem(memoryName+", "+s.name, m.Servers[s.name].wrong())...)
	}
	return lines
}

func (m *Memory) figures() *figures {
	f := &figures{
		name:  memoryName,
		about: fmt.Sprintf("%d connections, connected and quiet; KiB a connection (goal: %d freed, in a room)", m.Connections, memoryGoal),
		table: report.Table{Columns: []report.Column{
			{Head: ""}, {Head: "resident", About: "memory that the system counts, which an operator sees"}, {Head: "freed", About: "the same after a collection that gives unused memory back"},
			{Head: "heap", About: "in use by values of Go then"}, {Head: "stacks", About: "in use by goroutines' stacks then"},
			{Head: "goroutines", About: "for a connection"}, {Head: "before MiB", About: "resident and freed before the clients came; the other figures are differences to before"},
		}, About: "KiB for each connection; less is better. gorilla is a bare server of gorilla/websocket with the same clients."},
	}
	for _, s := range memoryServers {
		if r := m.Servers[s.name]; r != nil {
			f.table.Rows = append(f.table.Rows, report.Row{Strong: s.join, Cells: []string{s.name, r.Resident.Text("%.1f"), r.Freed.Text("%.1f"), r.Heap.Text("%.1f"), r.Stack.Text("%.1f"),
				r.Goroutines.Text("%.2f"), r.Before.Text("%.1f")}})
		}
		f.table.Notes = append(f.table.Notes, notes(s.name, m.Servers[s.name].wrong())...)
	}
	return f
}
