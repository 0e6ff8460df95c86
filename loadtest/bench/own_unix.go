//go:build unix

package bench

import (
	"math"
	"syscall"
)

// ownMicros returns how many microseconds of processor time this process has used, or
// NaN if that is not known.
func ownMicros() float64 {
	var used syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &used) != nil {
		return math.NaN()
	}
	return float64(used.Utime.Nano()+used.Stime.Nano()) / 1000
}
