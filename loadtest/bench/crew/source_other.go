//go:build !linux

package crew

import "net"

// source returns nil: the system chooses the address. Elsewhere only 127.0.0.1 is loopback.
func source(int) *net.TCPAddr { return nil }
