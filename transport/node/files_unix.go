//go:build unix

package node

import (
	"math"
	"syscall"
)

// maxFiles returns how many files the process may have open, or 0 if that is not known. Go
// raises the soft limit to the hard one when the process starts.
func maxFiles() int {
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		return 0
	}
	return int(min(uint64(limit.Cur), math.MaxInt32))
}
