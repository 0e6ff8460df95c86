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
	// means all.
	Only, Workloads []string

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
	return append(list, webSocketName)
}

// plan is what a Config asks for.
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

// Validate returns an error if a value cannot be used. The error begins with the name of
// the field, in small letters, and its value.
func (c Config) Validate() error {
	if c.Duration <= 0 {
		return fmt.Errorf("duration is %v, it must be more than zero", c.Duration)
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
	return p
}
