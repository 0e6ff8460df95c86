package node

import (
	"fmt"
	"math/bits"
	"net/netip"
	"strconv"
	"strings"
	"time"
)

type limitFlags struct {
	MaxConnections   int           `label:"" least:"1" live:"" default:"50000" placeholder:"50000" help:"How many game clients may be connected; further ones get HTTP 503. Fewer if the process may not have as many files open (ulimit -n)."`
	MaxPerAddress    limit         `label:"" live:"" default:"1000" placeholder:"1000" help:"How many of them may have the same address; further ones get HTTP 429. The addresses of an IPv6 network of 64 bits count as one. off sets no limit."`
	TrustProxy       []network     `placeholder:"CIDR" help:"Networks of proxies before this node, such as 10.0.0.0/8,fd00::/8. Of connections from there X-Forwarded-For says whose they are; the right-most address that is not of such a network counts."`
	HandshakeTimeout time.Duration `least:"1ns" default:"10s" placeholder:"10s" help:"How long an HTTP request may take, and so the handshake of a WebSocket. After that the connection is closed."`
	AuthTimeout      time.Duration `least:"1ns" live:"" default:"10s" placeholder:"10s" help:"How long a client without a token may take to send one. After that it is closed (4003)."`
	PingInterval     time.Duration `label:"" least:"1s" default:"5s" placeholder:"5s" help:"How long a client may be silent before the node pings it. Who is silent for two of these is shown as away. A phone in a tunnel, too: --grace keeps the seat."`
	MaxFrame         size          `label:"" least:"1" live:"" default:"16KiB" placeholder:"16KiB" help:"How long a request may be. A longer one closes its connection (1009)."`
	Rate             rate          `label:"" live:"" default:"50/s" placeholder:"50/s" help:"How many requests a client may send, and so may all connections of a user to this node together. Further ones get rate_limited, and who goes on regardless is closed (4009). off sets no limit."`
	Burst            int           `label:"" least:"1" live:"" default:"100" placeholder:"100" help:"How many requests they may send at once."`
	MaxRooms         int           `label:"" least:"1" live:"" default:"64" placeholder:"64" help:"In how many rooms a connection may be, as a member or watching. A request for a further one gets bad_request."`
	MaxNewRooms      limit         `label:"" live:"" default:"64" placeholder:"64" help:"How many rooms a user may begin in a minute, by joining them through this node. Then a join into a room that there is not gets rate_limited. off sets no limit."`
	MaxMemberData    size          `label:"" least:"1" default:"1KiB" placeholder:"1KiB" help:"How many bytes of JSON a member may set."`
	MaxPrivateData   size          `label:"" least:"1" default:"1KiB" placeholder:"1KiB" help:"How many bytes of JSON the private data of a member may have, which only the member and admins are shown."`
	MaxRoomData      size          `label:"" least:"1" default:"8KiB" placeholder:"8KiB" help:"How many bytes of JSON the data of a room may have."`
	MaxMessage       size          `label:"" least:"1" default:"2KiB" placeholder:"2KiB" help:"How many bytes of text or JSON a message may have. What is longer gets bad_request, as with data."`
	MaxQueue         size          `label:"" least:"1" live:"" default:"256KiB" placeholder:"256KiB" help:"How many bytes may wait for a client that reads slowly: of replies, until its next request waits, and of changes in its rooms, until a snapshot takes their place. A single reply, or a snapshot, may be longer."`
}

// limit is a number of at least 1, or off, which is -1 as in transport.Options.
type limit int

// UnmarshalText reads a flag's value for kong.
func (l *limit) UnmarshalText(text []byte) error {
	if string(text) == "off" {
		*l = -1
		return nil
	}
	n, err := strconv.ParseUint(string(text), 10, 31)
	if err != nil || n == 0 {
		return fmt.Errorf("%q is not a number of at least 1, or off", text)
	}
	*l = limit(n)
	return nil
}

func (l limit) String() string {
	if l < 0 {
		return "off"
	}
	return strconv.Itoa(int(l))
}

// rate is a limit per second, written as 50 or 50/s.
type rate limit

// UnmarshalText reads a flag's value for kong.
func (r *rate) UnmarshalText(text []byte) error {
	number, _ := strings.CutSuffix(string(text), "/s")
	if (*limit)(r).UnmarshalText([]byte(number)) != nil || number == "off" && len(number) < len(text) {
		return fmt.Errorf("%q is not a number of requests per second such as 50 or 50/s, or off", text)
	}
	return nil
}

func (r rate) String() string {
	if r < 0 {
		return "off"
	}
	return strconv.Itoa(int(r)) + "/s"
}

// network is a range of addresses such as 10.0.0.0/8, or a single one.
type network netip.Prefix

// UnmarshalText reads a flag's value for kong.
func (n *network) UnmarshalText(text []byte) error {
	prefix, err := netip.ParsePrefix(string(text))
	if address, single := netip.ParseAddr(string(text)); single == nil && address.Zone() == "" {
		prefix, err = netip.PrefixFrom(address, address.BitLen()), nil
	}
	if err != nil {
		return fmt.Errorf("%q is not a network such as 10.0.0.0/8 or fd00::/8", text)
	}
	if address := prefix.Addr(); address.Is4In6() && prefix.Bits() >= 96 {
		prefix = netip.PrefixFrom(address.Unmap(), prefix.Bits()-96)
	}
	if whole := prefix.Masked(); whole != prefix {
		return fmt.Errorf("%q says more than the network: write %v, or %v for the one address", text, whole,
			prefix.Addr())
	}
	*n = network(prefix)
	return nil
}

func (n network) String() string { return netip.Prefix(n).String() }

// size is a number of bytes, written as 65536, 256KiB or 1MiB.
type size int

var units = []struct {
	suffix string
	shift  int
}{{"KiB", 10}, {"MiB", 20}, {"GiB", 30}, {"B", 0}, {"", 0}}

// UnmarshalText reads a flag's value for kong.
func (s *size) UnmarshalText(text []byte) error {
	for _, unit := range units {
		digits, found := strings.CutSuffix(string(text), unit.suffix)
		if !found {
			continue
		}
		n, err := strconv.ParseUint(strings.TrimSpace(digits), 10, 31)
		if err != nil || bits.Len64(n)+unit.shift > 40 {
			break
		}
		*s = size(n << unit.shift)
		return nil
	}
	return fmt.Errorf("%q is not a size such as 65536, 256KiB or 1MiB", text)
}
