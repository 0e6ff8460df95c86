package main

import (
	"fmt"
	"time"
)

// limitFlags say how much clients may ask of a node.
type limitFlags struct {
	MaxConnections   int           `default:"50000" placeholder:"50000" help:"How many game clients may be connected; further ones get HTTP 503. Fewer if the process may not have as many files open (ulimit -n)."`
	MaxPerAddress    limit         `default:"1000" placeholder:"1000" help:"How many of them may have the same address; further ones get HTTP 429. The addresses of an IPv6 network of 64 bits count as one. off sets no limit."`
	TrustProxy       []network     `placeholder:"CIDR" help:"Networks of proxies before this node, such as 10.0.0.0/8,fd00::/8. Of connections from there X-Forwarded-For says whose they are; the right-most address that is not of such a network counts."`
	HandshakeTimeout time.Duration `default:"10s" placeholder:"10s" help:"How long an HTTP request may take, and so the handshake of a WebSocket. After that the connection is closed."`
	AuthTimeout      time.Duration `default:"10s" placeholder:"10s" help:"How long a client without a token may take to send one. After that it is closed (4003)."`
	MaxFrame         size          `default:"16KiB" placeholder:"16KiB" help:"How long a request may be. A longer one closes its connection (1009)."`
	Rate             rate          `default:"50/s" placeholder:"50/s" help:"How many requests a client may send, and so may all connections of a user to this node together. Further ones get rate_limited, and who goes on regardless is closed (4009). off sets no limit."`
	Burst            int           `default:"100" placeholder:"100" help:"How many requests they may send at once."`
	MaxRooms         int           `default:"64" placeholder:"64" help:"In how many rooms a connection may be, as a member or watching. A request for a further one gets bad_request."`
	MaxMemberData    size          `default:"1KiB" placeholder:"1KiB" help:"How many bytes of JSON a member may set."`
	MaxRoomData      size          `default:"8KiB" placeholder:"8KiB" help:"How many bytes of JSON the data of a room may have."`
	MaxMessage       size          `default:"2KiB" placeholder:"2KiB" help:"How many bytes of text or JSON a message may have. What is longer gets bad_request, as with data."`
	MaxQueue         size          `default:"256KiB" placeholder:"256KiB" help:"How many bytes may wait for a client that reads slowly: of replies, until its next request waits, and of changes in its rooms, until it is closed (4008). A single reply may be longer."`
}

func (f *limitFlags) validate() error {
	for _, n := range []struct {
		flag  string
		value int
	}{
		{"max-connections", f.MaxConnections}, {"burst", f.Burst}, {"max-rooms", f.MaxRooms}, {"max-queue", int(f.MaxQueue)},
		{"max-frame", int(f.MaxFrame)}, {"max-member-data", int(f.MaxMemberData)}, {"max-room-data", int(f.MaxRoomData)},
		{"max-message", int(f.MaxMessage)},
	} {
		if n.value < 1 {
			return fmt.Errorf("--%s is %d, it must be at least 1", n.flag, n.value)
		}
	}
	for _, d := range []struct {
		flag  string
		value time.Duration
	}{{"handshake-timeout", f.HandshakeTimeout}, {"auth-timeout", f.AuthTimeout}} {
		if d.value <= 0 {
			return fmt.Errorf("--%s is %v, it must be more than zero", d.flag, d.value)
		}
	}
	return nil
}
