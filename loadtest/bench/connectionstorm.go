package bench

import (
	"context"
	"fmt"
	"time"

	"roomd/loadtest/bench/worker"
	"roomd/loadtest/internal/tally"
	"roomd/loadtest/report"
	"roomd/lockmgr/redisconn/pause"
)

const (
	stormName  = "storm"
	stormDelay = 500 * time.Millisecond // until all processes know when to begin

	calmPause = time.Second

	// After the storm the server may use so much more than before. The runtime of Go keeps its
	// descriptors of goroutines, and its tables of the memory that was in use.
	stormFactor     = 1.2
	stormMemory     = 16 << 20 // bytes
	stormGoroutines = 50

	// defaultPatience is how long that may take: a node keeps copies of idle rooms for a minute.
	defaultPatience = 150 * time.Second
)

// Storm is the outcome of many clients who connect at the same instant, join, and leave later.
type Storm struct {
	Connections int           `json:"connections"`
	Processes   int           `json:"processes"`
	In          int           `json:"in"`            // clients whose join was acknowledged
	Latency     tally.Latency `json:"in_latency_ms"` // from the instant until then
	Left        int           `json:"left"`          // clients whose leave was acknowledged

	// Clients who got an answer other than that, by kind, and those who got none.
	Refused map[string]int64 `json:"refused"`
	Failed  map[string]int64 `json:"failed"`

	Before    StormMemory   `json:"before"`
	Peak      report.Figure `json:"peak_mib"`
	Connected StormMemory   `json:"connected"`
	After     StormMemory   `json:"after"`
	Back      report.Figure `json:"back_s"` // until memory and goroutines were back; null if they were not
	Failure   string        `json:"failure,omitempty"`
}

// StormMemory is what the server uses at one point.
type StormMemory struct {
	Resident   report.Figure `json:"resident_mib"`
	Freed      report.Figure `json:"freed_mib"` // resident after a collection that gives memory back
	Heap       report.Figure `json:"heap_mib"`  // in use then
	Stack      report.Figure `json:"stack_mib"` // in use then
	Goroutines int           `json:"goroutines"`
}

func newStormMemory(asIs, freed worker.Memory) StormMemory {
	return StormMemory{mib(asIs.Resident), mib(freed.Resident), mib(freed.Heap), mib(freed.Stack), freed.Goroutines}
}

// mib returns bytes as MiB; 0 is not known.
func mib(bytes int64) report.Figure {
	return report.Per(float64(bytes)/(1<<20), float64(min(1, bytes)))
}

// measureStorm runs the storm on a node. It returns an error if ctx has ended.
func (b *bench) measureStorm(ctx context.Context) (*Storm, error) {
	s := &Storm{Connections: b.afford(), Refused: make(map[string]int64), Failed: make(map[string]int64), Peak: mib(0), Back: mib(0)}
	prefix := b.begin(stormName)
	err := b.tryStorm(ctx, worker.Node, prefix, s)
	err, stopped := b.finish(ctx, prefix, err)
	if stopped != nil {
		return nil, stopped
	}
	if err != nil {
		s.Failure = err.Error()
	}
	fmt.Fprintf(b.log, "%d of %d are in, p99 %s ms\n", s.In, s.Connections, s.Latency.P99.Text("%.0f"))
	return s, nil
}

// tryStorm runs the storm, and fills s in as far as it comes.
func (b *bench) tryStorm(ctx context.Context, kind, prefix string, s *Storm) error {
	p, err := b.openProcesses(ctx, kind, prefix, s.Connections)
	if err != nil {
		return err
	}
	defer p.close()
	s.Processes = len(p.swarms)
	before, err := p.warm(ctx, s.Connections, true)
	if err != nil {
		return err
	}
	s.Before = newStormMemory(before, before)
	o, err := p.connect(ctx, 0, s.Connections, worker.ConnectConfig{Join: true, AllTogether: true, At: time.Now().Add(stormDelay)})
	if err != nil {
		return err
	}
	s.In = worker.Done(o)
	s.count(o)
	s.Latency = o.Latency()
	if s.Connected, s.Peak, err = p.usage(ctx); err != nil {
		return err
	}
	if o, err = p.leave(ctx); err != nil {
		return err
	}
	s.Left = worker.Done(o)
	s.count(o)
	if err := s.calm(ctx, p, before, b.patience); err != nil || b.heapProfile == "" {
		return err
	}
	return p.server.WriteHeapProfile(ctx, b.heapProfile)
}

// count adds the answers that were not hoped for.
func (s *Storm) count(t *tally.Tally) {
	_, failures := t.Errors()
	addKinds(s.Refused, t.Refusals())
	addKinds(s.Failed, failures)
}

// usage returns what the server uses when it is quiet, and the most that was resident so far.
func (p *processes) usage(ctx context.Context) (m StormMemory, peak report.Figure, err error) {
	asIs, err := p.settle(ctx)
	if err != nil {
		return m, peak, err
	}
	freed, err := p.server.Memory(ctx, true)
	return newStormMemory(asIs, freed), mib(asIs.Peak), err
}

// calm waits until the server uses about as much as before, but no longer than patience.
func (s *Storm) calm(ctx context.Context, p *processes, before worker.Memory, patience time.Duration) error {
	start := time.Now()
	asIs, err := p.settle(ctx)
	if err != nil {
		return err
	}
	for {
		now, err := p.server.Memory(ctx, true)
		if err != nil {
			return err
		}
		s.After = newStormMemory(asIs, now)
		waited := time.Since(start)
		if isBack(before, now) {
			s.Back = report.Figure(waited.Seconds())
			return nil
		}
		if waited > patience {
			return nil
		}
		if err := pause.For(ctx, calmPause); err != nil {
			return err
		}
	}
}

// isBack reports whether the server uses about as much as before, and has no clients. Where the
// system does not say what is resident, the heap counts.
func isBack(before, now worker.Memory) bool {
	was, is := before.Resident, now.Resident
	if was == 0 {
		was, is = before.Heap, now.Heap
	}
	return now.Connections == 0 && float64(is) <= stormFactor*float64(was)+stormMemory && now.Goroutines <= before.Goroutines+stormGoroutines
}

// wrong returns what is wrong with the storm.
func (s *Storm) wrong() (list []string) {
	if s.Failure != "" {
		return []string{s.Failure}
	}
	if len(s.Failed) > 0 {
		list = append(list, "without an answer: "+kinds(s.Failed))
	}
	if s.In == 0 {
		list = append(list, "nobody got in")
	}
	if !s.Back.IsKnown() {
		list = append(list, fmt.Sprintf("long after all have left the server still uses %s MiB (before: %s) and has %d goroutines (before: %d)",
			s.After.Freed.Text("%.1f"), s.Before.Freed.Text("%.1f"), s.After.Goroutines, s.Before.Goroutines))
	}
	return list
}

func (s *Storm) problems() []string { return problem(stormName, s.wrong()) }

func (s *Storm) figures() *figures {
	l := latencyTexts(s.Latency)
	f := &figures{
		name:  stormName,
		about: fmt.Sprintf("%d clients in %d processes connect at the same instant, join rooms of %d, and leave", s.Connections, s.Processes, roomSize),
		facts: report.Facts{Rows: []report.Fact{{Name: "in after", Text: fmt.Sprintf("%d clients: p50 %s ms, p99 %s ms, max %s ms", s.In, l[0], l[1], l[3]),
			About: "from the instant until a client's join was acknowledged"}}},
		table: report.Table{Columns: []report.Column{
			{Head: "server"}, {Head: "before", About: "before the clients came"}, {Head: "peak", About: "the most at any time"},
			{Head: "all in", About: "when all were in their rooms, and quiet"}, {Head: "after", About: "after all had left"},
		}, Notes: notes("roomd", s.wrong()), About: "freed is resident memory after a collection that gives unused memory back. It has to come back when the clients have left."},
	}
	if len(s.Refused) > 0 {
		f.facts.Rows = append(f.facts.Rows, report.Fact{Name: "refused", Text: kinds(s.Refused), About: "clients who got a clear answer other than that"})
	}
	f.facts.Rows = append(f.facts.Rows, report.Fact{Name: "left", Text: fmt.Sprintf("%d clients; memory and goroutines were back after %s s", s.Left, s.Back.Text("%.1f"))})
	for _, row := range [][]string{
		{"resident MiB", s.Before.Resident.Text("%.1f"), s.Peak.Text("%.1f"), s.Connected.Resident.Text("%.1f"), s.After.Resident.Text("%.1f")},
		{"freed MiB", s.Before.Freed.Text("%.1f"), "–", s.Connected.Freed.Text("%.1f"), s.After.Freed.Text("%.1f")},
		{"of it heap", s.Before.Heap.Text("%.1f"), "–", s.Connected.Heap.Text("%.1f"), s.After.Heap.Text("%.1f")},
		{"of it stacks", s.Before.Stack.Text("%.1f"), "–", s.Connected.Stack.Text("%.1f"), s.After.Stack.Text("%.1f")},
		{"goroutines", fmt.Sprint(s.Before.Goroutines), "–", fmt.Sprint(s.Connected.Goroutines), fmt.Sprint(s.After.Goroutines)},
	} {
		f.table.Rows = append(f.table.Rows, report.Row{Cells: row})
	}
	return f
}
