package crew

import "net"

// perNet is how many addresses source takes from a network of 256.
const perNet = 250

// source returns the address that the i-th client connects from. The whole of 127.0.0.0/8 is
// loopback, so each client has its own, as in real life, and none runs out of ports.
func source(i int) *net.TCPAddr {
	return &net.TCPAddr{IP: net.IPv4(127, byte(1+i/perNet/perNet), byte(1+i/perNet%perNet), byte(1+i%perNet))}
}
