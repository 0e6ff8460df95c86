package main

import (
	"crypto/rand"
	"fmt"
	"time"
)

// workload is who wants which locks.
type workload struct {
	name, about string
	processes   int
	goroutines  int // in each process
	keys        int // each acquire takes one of them at random
}

func (w workload) String() string { return w.name }

func (w workload) contended() bool { return w.processes*w.goroutines > 1 }

var workloads = []workload{
	{"uncontended", "one goroutine, one key", 1, 1, 1},
	{"one-process", "128 goroutines of one process, one key", 1, 128, 1},
	{"four-processes", "4 processes with 32 goroutines each, one key", 4, 32, 1},
	{"1000-keys", "128 goroutines of one process, 1,000 keys at random", 1, 128, 1000},
}

// cell is what one process has to do for one contender in one workload.
type cell struct {
	Redis      string
	Contender  string
	Prefix     string // of the keys' names
	Goroutines int
	Keys       int
	WarmUp     time.Duration
	Duration   time.Duration
	Verify     bool // each hold is marked in Redis
}

// cell returns what each process has to do, with keys that nobody else has.
func (w workload) cell(url string, who contender) cell {
	return cell{
		Redis:      url,
		Contender:  who.name,
		Prefix:     fmt.Sprintf("bench:%s:%s:%s:", rand.Text()[:8], w.name, who.name),
		Goroutines: w.goroutines,
		Keys:       w.keys,
	}
}

func (c cell) target() target { return target{c.Redis, c.Goroutines} }

// names returns the names of the locks for one purpose. Each has its own, since an
// acquire that was cut off at the end of the one before may have left a lock.
func (c cell) names(purpose string) []string {
	list := make([]string, c.Keys)
	for i := range list {
		list[i] = fmt.Sprintf("%s%s:%d", c.Prefix, purpose, i)
	}
	return list
}

// open returns the contender, ready to be used.
func (c cell) open(f *faults) (locks, error) {
	chosen, err := choose(contenders, c.Contender)
	if err != nil {
		return nil, err
	}
	return chosen[0].open(c.target(), f)
}
