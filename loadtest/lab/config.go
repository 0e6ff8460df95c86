package lab

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"roomd/loadtest/redisserver"
)

// The defaults of Config.
const (
	defaultSecond   = 100 * time.Millisecond
	defaultDuration = time.Second
)

// Config says what to run. The zero value runs everything.
type Config struct {
	// Redis is a URL in the syntax of package redisurl. Empty starts a redis-server for
	// the run, or the embedded Redis where none is installed.
	Redis string

	// Only and Faults name the disciplines and the faults to run. Empty means all.
	// The fault "cache" is many callers at an expired cache entry.
	Only   []string
	Faults []string

	// Seed makes the callers' random values. Zero means a random seed.
	Seed uint64

	// Duration is how long the callers of each discipline act under heavy load. Zero
	// means 1 s.
	Duration time.Duration

	// Second is how long a published second lasts under the other faults. At one
	// second nothing is scaled. Zero means 100 ms.
	Second time.Duration

	// Progress, if not nil, is called after each cell of the matrix, one call at a
	// time, with the report so far. It must not keep the report.
	Progress func(r *Report, done *Cell)
}

// cacheGuard names the fault that is no column of the matrix: many callers come at once
// to an expired cache entry.
const cacheGuard = "cache"

// disciplineNames returns the names of all disciplines, in their order.
func disciplineNames() []string {
	var names []string
	for _, d := range disciplines {
		names = append(names, d.name)
	}
	return names
}

// faultNames returns the names of all faults, in their order.
func faultNames() []string {
	var names []string
	for _, f := range faults {
		names = append(names, f.name)
	}
	return append(names, cacheGuard)
}

// Describe returns what the disciplines and the faults are, a line for each.
func Describe() string {
	var b strings.Builder
	line := func(name, about string) { fmt.Fprintf(&b, "  %-*s%s\n", nameWidth, name, about) }
	b.WriteString("Disciplines:\n")
	for _, d := range disciplines {
		line(d.name, d.about)
	}
	b.WriteString("\nFaults:\n")
	for _, f := range faults {
		line(f.name, f.about)
	}
	line(cacheGuard, "many callers at an expired cache entry, behind every lock and lockmgr's guard")
	return b.String()
}

func (c Config) withDefaults() Config {
	if len(c.Only) == 0 {
		c.Only = disciplineNames()
	}
	if len(c.Faults) == 0 {
		c.Faults = faultNames()
	}
	if c.Duration == 0 {
		c.Duration = defaultDuration
	}
	if c.Second == 0 {
		c.Second = defaultSecond
	}
	return c
}

// Validate returns an error if a value cannot be used. The error begins with the name of
// the field, in small letters, and its value.
func (c Config) Validate() error {
	for _, list := range []struct {
		field       string
		names, have []string
	}{{"only", c.Only, disciplineNames()}, {"faults", c.Faults, faultNames()}} {
		for _, name := range list.names {
			if !slices.Contains(list.have, name) {
				return fmt.Errorf("%s is %q, it must be one of %s", list.field, name, strings.Join(list.have, ", "))
			}
		}
	}
	switch {
	case c.Duration < 0:
		return fmt.Errorf("duration is %v, it must be more than zero", c.Duration)
	case c.Second != 0 && (c.Second < minSecond || c.Second > time.Second):
		return fmt.Errorf("second is %v, it must be from %v to 1s", c.Second, minSecond)
	}
	return redisserver.Validate(c.Redis)
}

// minSecond keeps the shortest TTL, 1 s, well above the delays of a scheduler and of the
// observer.
const minSecond = 100 * time.Millisecond
