//go:build unix

package bench

import (
	"math"
	"syscall"
)

// ownMicros returns the processor time of this process in microseconds, or NaN if it is
// unknown.
func ownMicros() float64 {
	var used syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &used) != nil {
		return math.NaN()
	}
	return float64(used.Utime.Nano()+used.Stime.Nano()) / 1000
}
