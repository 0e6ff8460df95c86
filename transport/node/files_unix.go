//go:build unix

package node

import (
	"math"
	"syscall"
)

// maxFiles returns the limit on open files, or 0 if unknown. Go raises the soft limit to the hard one at the start of
// the process.
func maxFiles() int {
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		return 0
	}
	return int(min(uint64(limit.Cur), math.MaxInt32))
}
