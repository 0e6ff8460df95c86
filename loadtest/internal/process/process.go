// Package process returns the usage and limits of this process.
package process

import (
	"math"
	"syscall"
)

// CPU returns the processor time of this process in microseconds, or NaN.
func CPU() float64 {
	var used syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &used) != nil {
		return math.NaN()
	}
	return float64(used.Utime.Nano()+used.Stime.Nano()) / 1000
}

// MaxFiles returns how many files a process may have open, or 0 if it is unknown. Go raises the soft limit to
// the hard one when a process starts.
func MaxFiles() int {
	var limit syscall.Rlimit
	if syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit) != nil {
		return 0
	}
	return int(min(uint64(limit.Cur), math.MaxInt32))
}
