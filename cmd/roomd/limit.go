package main

import (
	"fmt"
	"net/netip"
	"strconv"
	"strings"

	"roomd/transport"
)

// limit is a number of at least 1, or off, which is -1 as in transport.Options.
type limit int

// UnmarshalText is called by kong.
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

// rate is a limit per second, which people write as 50 or 50/s.
type rate limit

// UnmarshalText is called by kong.
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

// network is a range of addresses as 10.0.0.0/8, or a single one.
type network netip.Prefix

// UnmarshalText is called by kong.
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
		return fmt.Errorf("%q says more than the network: write %v, or %v for the one address", text, whole, prefix.Addr())
	}
	*n = network(prefix)
	return nil
}

func (n network) String() string { return netip.Prefix(n).String() }

// limits sets what the flags say of limits.
func (f *limitFlags) limits(opts *transport.Options) {
	opts.MaxConnections = f.MaxConnections
	opts.MaxPerAddress = int(f.MaxPerAddress)
	for _, n := range f.TrustProxy {
		opts.TrustProxy = append(opts.TrustProxy, netip.Prefix(n))
	}
	opts.HandshakeTimeout, opts.AuthTimeout = f.HandshakeTimeout, f.AuthTimeout
	opts.MaxFrame, opts.MaxQueue, opts.MaxRooms = int(f.MaxFrame), int(f.MaxQueue), f.MaxRooms
	opts.Rate, opts.Burst = int(f.Rate), f.Burst
}
