package lab

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// Defaults of [Config].
const (
	DefaultSecond   = 100 * time.Millisecond
	DefaultDuration = time.Second
)

// Config says what to run. The zero value runs everything.
type Config struct {
	// Redis is where, in the syntax of package redisurl. Empty starts a
	// redis-server for the run, or the embedded Redis where there is none.
	Redis string

	// Only and Faults name the disciplines and the faults to run. Empty is all.
	// The fault CacheGuard is the callers of an expired cache entry.
	Only   []string
	Faults []string

	// Seed makes the callers' random values. Zero takes a random one.
	Seed uint64

	// Duration is how long the callers of the contention column go on, for each
	// discipline. Zero means DefaultDuration.
	Duration time.Duration

	// Second is what a published second lasts under the other faults. At one
	// second nothing is scaled. Zero means DefaultSecond.
	Second time.Duration

	// Progress, if not nil, is called after each cell of the matrix, one call at a
	// time, with the report as it then is. It must not keep it.
	Progress func(r *Report, done *Cell)
}

// CacheGuard names the part of the lab that is no column of the matrix.
const CacheGuard = "cache"

// Disciplines returns the names of all disciplines, in their order.
func Disciplines() []string {
	var names []string
	for _, d := range disciplines {
		names = append(names, d.name)
	}
	return names
}

// Faults returns the names of all faults, in their order.
func Faults() []string {
	var names []string
	for _, f := range faults {
		names = append(names, f.name)
	}
	return append(names, CacheGuard)
}

// Describe says in lines what the disciplines and the faults are.
func Describe() string {
	lines := [][]string{{"Disciplines:"}}
	for _, d := range disciplines {
		lines = append(lines, []string{"  " + d.name, d.about})
	}
	lines = append(lines, []string{""}, []string{"Faults:"})
	for _, f := range faults {
		lines = append(lines, []string{"  " + f.name, f.about})
	}
	lines = append(lines, []string{"  " + CacheGuard, "many callers at an expired cache entry, behind every lock and lockmgr's guard"})
	var b strings.Builder
	for _, line := range lines {
		if len(line) == 2 {
			line[0] = pad(line[0], nameWidth+2) + line[1]
		}
		b.WriteString(line[0] + "\n")
	}
	return b.String()
}

func (c Config) withDefaults() Config {
	if len(c.Only) == 0 {
		c.Only = Disciplines()
	}
	if len(c.Faults) == 0 {
		c.Faults = Faults()
	}
	if c.Duration == 0 {
		c.Duration = DefaultDuration
	}
	if c.Second == 0 {
		c.Second = DefaultSecond
	}
	return c
}

func (c Config) validate() error {
	for _, list := range []struct {
		field       string
		names, have []string
	}{{"only", c.Only, Disciplines()}, {"faults", c.Faults, Faults()}} {
		for _, name := range list.names {
			if !slices.Contains(list.have, name) {
				return fmt.Errorf("%s: there is no %q; there are %s", list.field, name, strings.Join(list.have, ", "))
			}
		}
	}
	switch {
	case c.Duration < 0:
		return fmt.Errorf("duration: %v, it must be more than zero", c.Duration)
	case c.Second < minSecond || c.Second > time.Second:
		return fmt.Errorf("second: %v, it must be from %v to 1s", c.Second, minSecond)
	}
	return nil
}

// minSecond keeps the shortest TTL, 1 s, well above what a scheduler takes, and
// what an observer needs.
const minSecond = 100 * time.Millisecond
