package bench

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"time"
)

// Config says what to measure. Out, Log and Duration have to be given.
type Config struct {
	// Redis is the URL of what is measured on; see redisserver.Open. Keys that
	// are not of the run are left alone.
	Redis string

	// Duration is how long each measurement takes, without its warm-up.
	Duration time.Duration

	// Only and Workloads are names out of ContenderNames and WorkloadNames. None
	// means all that are not optional, and all.
	Only, Workloads []string

	Out io.Writer // takes a table as soon as its workload is through
	Log io.Writer // takes a line about each measurement
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
	return append(list, webSocketName)
}

// plan is what a Config comes to.
type plan struct {
	contenders []contender
	workloads  []workload
	webSocket  bool
}

// cells returns how many measurements there are.
func (p plan) cells() int {
	n := len(p.contenders) * len(p.workloads)
	if p.webSocket {
		n++
	}
	return n
}

func (c Config) plan() (p plan, err error) {
	if c.Duration <= 0 {
		return p, fmt.Errorf("duration: %v, it must be more than zero", c.Duration)
	}
	if err := known("only", c.Only, ContenderNames()); err != nil {
		return p, err
	}
	if err := known("workload", c.Workloads, WorkloadNames()); err != nil {
		return p, err
	}
	for _, one := range contenders {
		if slices.Contains(c.Only, one.name) || len(c.Only) == 0 && !one.optional {
			p.contenders = append(p.contenders, one)
		}
	}
	for _, one := range workloads {
		if len(c.Workloads) == 0 || slices.Contains(c.Workloads, one.name) {
			p.workloads = append(p.workloads, one)
		}
	}
	p.webSocket = len(c.Workloads) == 0 || slices.Contains(c.Workloads, webSocketName)
	return p, nil
}

// known says which of the names is none of all.
func known(field string, names, all []string) error {
	for _, name := range names {
		if !slices.Contains(all, name) {
			return fmt.Errorf("%s: %q is none of %s", field, name, strings.Join(all, ", "))
		}
	}
	return nil
}
