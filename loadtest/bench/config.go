package bench

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"roomd/loadtest/bench/crew"
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
	// means all, except the workloads that need processes of their own.
	Only, Workloads []string

	// Connections is how many clients memory and storm have. Fewer connect if the limit on open
	// files forbids that many, and Log says so. Zero means 10,000.
	Connections int

	// Rounds is how often the players of neighbours play alone, and how often beside each attack.
	// Each round takes Duration. Zero means 3.
	Rounds int

	// HeapProfile is a file that gets a profile of a node's heap: from memory while all clients are
	// in their rooms, from storm when all have left. Empty means none.
	HeapProfile string

	Out io.Writer // gets a table as soon as its workload is done
	Log io.Writer // gets a line about each measurement
}

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
		list = append(list, w.name)
	}
	return slices.Concat(list, []string{webSocketName}, ProcessWorkloadNames())
}

// ProcessWorkloadNames returns the names of the workloads that need processes of their own. They
// run only if they are named.
func ProcessWorkloadNames() []string { return []string{memoryName, stormName, neighboursName} }

// plan is what a Config asks for.
type plan struct {
	contenders []contender
	workloads  []workload
	webSocket  bool
	memory     bool
	storm      bool
	neighbours bool
}

// cells returns how many measurements there are.
func (p plan) cells() int {
	n := len(p.contenders) * len(p.workloads)
	if p.webSocket {
		n++
	}
	if p.memory {
		n += len(memoryServers)
	}
	if p.storm {
		n++
	}
	if p.neighbours {
		n += len(crew.Attacks())
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
	if c.Rounds < 0 {
		return fmt.Errorf("rounds is %d, it must be at least 1", c.Rounds)
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
	for _, one := range workloads {
		if len(c.Workloads) == 0 || slices.Contains(c.Workloads, one.name) {
			p.workloads = append(p.workloads, one)
		}
	}
	p.webSocket = len(c.Workloads) == 0 || slices.Contains(c.Workloads, webSocketName)
	p.memory = slices.Contains(c.Workloads, memoryName)
	p.storm = slices.Contains(c.Workloads, stormName)
	p.neighbours = slices.Contains(c.Workloads, neighboursName)
	return p
}
