//go:build !linux

package worker

import (
	"net"
)

// resident returns 0: how much memory is resident is not known.
func resident() int64 { return 0 }

// source returns nil: the system chooses the address. Elsewhere only 127.0.0.1 is loopback.
func source(int) *net.TCPAddr { return nil }
