package bench

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"roomd/loadtest/redisserver"
)

// Config says what to measure. Out, Log and Duration are required.
type Config struct {
	// Redis is the URL of the Redis; see redisserver.Open. The bench uses and removes
	// only keys with names of its own.
	Redis string

	// Duration is the length of each measurement, without its warm-up.
	Duration time.Duration

	// Only and Workloads are names out of ContenderNames and WorkloadNames. None
	// means all, except those of NamedWorkloads.
	Only, Workloads []string

	// Connections is how many clients memory has. Fewer connect if the limit on open
	// files forbids that many, and Log says so. Zero means 10,000.
	Connections int

	// HeapProfile is a file that gets a profile of a node's heap: from memory while all clients are
	// in their rooms. Empty means none.
	HeapProfile string

	// CPUProfile is a file that gets a profile of what this process does meanwhile: nodes and clients, but of the
	// workloads with processes of their own only what looks at them. Empty means none.
	CPUProfile string

	Out io.Writer // gets a table as soon as its workload is done
	Log io.Writer // gets a line about each measurement
}

// Names of groups of workloads.
const (
	locksName   = "locks"
	networkName = "network"
)

// ContenderNames returns the contenders' names in their order.
func ContenderNames() (list []string) {
	for _, c := range contenders {
		list = append(list, c.name)
	}
	return list
}

// WorkloadNames returns the workloads' names in their order.
func WorkloadNames() (list []string) {
	for _, w := range workloads {
		if w.group() == "" {
			list = append(list, w.name)
		}
	}
	return slices.Concat(list, []string{webSocketName, twoNodesName, pacedName}, NamedWorkloads())
}

// NamedWorkloads returns the names of the workloads that run only if they are named: the groups with their
// workloads, and those that need processes of their own.
func NamedWorkloads() (list []string) {
	for _, group := range groups {
		list = append(list, group)
		for _, w := range workloads {
			if w.group() == group {
				list = append(list, w.name)
			}
		}
	}
	return append(list, memoryName)
}

// plan is what a Config asks for.
type plan struct {
	contenders []contender
	workloads  []workload
	special    []special
}

// of returns the contenders that compete in a workload.
func (p plan) of(w workload) (list []contender) {
	for _, c := range p.contenders {
		if (c.locker != nil) == w.locks {
			list = append(list, c)
		}
	}
	return list
}

// cells returns how many measurements there are.
func (p plan) cells() (n int) {
	for _, w := range p.workloads {
		n += len(p.of(w))
	}
	for _, s := range p.special {
		n += s.cells
	}
	return n
}

// Validate returns an error if a value cannot be used. The error begins with the name of
// the field, in small letters, and its value.
func (c Config) Validate() error {
	if c.Duration <= 0 {
		return fmt.Errorf("duration is %v, it must be more than zero", c.Duration)
	}
	if c.Connections < 0 {
		return fmt.Errorf("connections is %d, it must be at least 1", c.Connections)
	}
	if err := checkNames("only", c.Only, ContenderNames()); err != nil {
		return err
	}
	if err := checkNames("workload", c.Workloads, WorkloadNames()); err != nil {
		return err
	}
	return redisserver.Validate(c.Redis)
}

// checkNames returns an error if one of the names is not among all.
func checkNames(field string, names, all []string) error {
	for _, name := range names {
		if !slices.Contains(all, name) {
			return fmt.Errorf("%s is %q, it must be one of %s", field, name, strings.Join(all, ", "))
		}
	}
	return nil
}

// plan returns what a valid Config asks for.
func (c Config) plan() (p plan) {
	for _, one := range contenders {
		if len(c.Only) == 0 || slices.Contains(c.Only, one.name) {
			p.contenders = append(p.contenders, one)
		}
	}
	for _, w := range workloads {
		if c.asksFor(w.name, w.group() != "") || slices.Contains(c.Workloads, w.group()) {
			p.workloads = append(p.workloads, w)
		}
	}
	for _, s := range specials {
		if c.asksFor(s.name, s.processes) {
			p.special = append(p.special, s)
		}
	}
	return p
}

// asksFor reports whether a workload takes part, which runs by itself unless it must be named.
func (c Config) asksFor(name string, mustBeNamed bool) bool {
	return len(c.Workloads) == 0 && !mustBeNamed || slices.Contains(c.Workloads, name)
}
