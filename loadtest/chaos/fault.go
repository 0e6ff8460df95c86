package chaos

import (
	"context"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"time"

	"roomd/loadtest/report"
)

// The profiles of Redis.
const (
	Standalone = "standalone"
	Sentinel   = "sentinel"
	Cluster    = "cluster"
)

// Profiles has all profiles.
var Profiles = []string{Standalone, Sentinel, Cluster}

// Fault is a kind of fault that a run can inject.
type Fault struct {
	Name     string
	What     string   // description of its effect
	Profiles []string // nil for all

	// loses returns which acknowledged data Redis may lose under a Config. Nil means none.
	loses func(Config) loss
	// splits: see check.Fault. evicts: nodes may take each other for dead.
	splits, evicts bool
	// lasts is the least duration; 0 leaves it to the schedule.
	lasts time.Duration

	// inject starts the fault, and returns a function that ends it.
	inject inject
}

type (
	inject func(ctx context.Context, i *injection) (heal, error)
	heal   func(context.Context) error
)

// mayLose returns what Redis may lose by the fault.
func (f *Fault) mayLose(c Config) loss {
	if f.loses == nil {
		return nothing
	}
	return f.loses(c)
}

// loss is which data Redis may lose.
type loss int

const (
	nothing loss = iota
	theLast      // data since lag before the fault
	everything
)

// lag is how long before a fault the lost data may have been written, because replicas are behind.
const lag = 2 * time.Second

// injection is an injected fault.
type injection struct {
	run    *run
	random *rand.Rand
	on     string // name of its target
}

// Faults are all faults, in the order of the documents.
var Faults = slices.Concat(nodeFaults, redisFaults, failoverFaults, linkFaults)

// in reports whether the fault can be injected in a run.
func (f *Fault) in(c Config) bool { return f.Profiles == nil || slices.Contains(f.Profiles, c.Profile) }

// FaultNamed returns the fault of that name, nil if there is none.
func FaultNamed(name string) *Fault {
	if i := slices.IndexFunc(Faults, func(f *Fault) bool { return f.Name == name }); i >= 0 {
		return Faults[i]
	}
	return nil
}

// Describe returns the names and descriptions of the faults.
func Describe() (list []report.Fact) {
	for _, f := range Faults {
		text := f.What
		if f.Profiles != nil {
			text += " (" + strings.Join(f.Profiles, ", ") + ")"
		}
		list = append(list, report.Fact{Name: f.Name, Text: text})
	}
	return list
}

func (i *injection) node() *node {
	n := i.run.nodes[i.random.IntN(len(i.run.nodes))]
	i.on = n.name
	return n
}

func (i *injection) room() string { return i.run.Rooms()[i.random.IntN(len(i.run.Rooms()))] }

// onPrimary injects a fault into the server that keeps a random room.
func onPrimary(strike func(ctx context.Context, i *injection, s *server) (heal, error)) inject {
	return func(ctx context.Context, i *injection) (heal, error) {
		s, err := i.run.store.primary(ctx, i.room())
		if err != nil {
			return nil, err
		}
		i.on = s.Name
		return strike(ctx, i, s)
	}
}

// repeat calls f at once, and then periodically, until the fault ends.
func repeat(every time.Duration, f func()) (heal, error) {
	end := make(chan struct{})
	var done sync.WaitGroup
	done.Go(func() {
		tick := time.NewTicker(every)
		defer tick.Stop()
		for {
			f()
			select {
			case <-tick.C:
			case <-end:
				return
			}
		}
	})
	return func(context.Context) error {
		close(end)
		done.Wait()
		return nil
	}, nil
}

var nodeFaults = []*Fault{
	{
		Name: "node-kill", What: "SIGKILL of a node; it starts again at the end",
		inject: func(_ context.Context, i *injection) (heal, error) {
			n := i.node()
			// its memory is measured during the whole run
			if i.run.cfg.Duration >= longRun && n.number == 1 && len(i.run.nodes) > 1 {
				n = i.run.nodes[1]
				i.on = n.name
			}
			n.kill()
			return n.heal, nil
		},
	},
	{
		Name: "node-stop", What: "SIGSTOP of a node, for longer than the lock's TTL", evicts: true, lasts: 2 * lockTTL,
		inject: stopNode,
	},
	{
		Name: "node-stop-long", What: "SIGSTOP of a node, until the others have removed its members", evicts: true,
		lasts: eviction + time.Second, inject: stopNode,
	},
	updateFault,
}

func stopNode(_ context.Context, i *injection) (heal, error) {
	n := i.node()
	n.stop()
	return n.heal, nil
}
