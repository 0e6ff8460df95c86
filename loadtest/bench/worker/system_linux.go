package worker

import (
	"fmt"
	"net"
	"os"
	"strings"
)

// resident returns how much memory of this process is resident.
func resident() (now int64) {
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return 0
	}
	for line := range strings.Lines(string(status)) {
		if _, err := fmt.Sscanf(line, "VmRSS: %d kB", &now); err == nil {
			return now * 1024
		}
	}
	return 0
}

// perNet is how many addresses source takes from a network of 256.
const perNet = 250

// source returns the address that the i-th client connects from. The whole of 127.0.0.0/8 is
// loopback, so each client has its own, as in real life, and none runs out of ports.
func source(i int) *net.TCPAddr {
	return &net.TCPAddr{IP: net.IPv4(127, byte(1+i/perNet/perNet), byte(1+i/perNet%perNet), byte(1+i%perNet))}
}
