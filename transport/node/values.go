package node

import (
	"bytes"
	"fmt"
	"math/bits"
	"net/netip"
	"os"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json"

	"roomd/room"
	"roomd/transport"
	"roomd/transport/webhook"
)

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

// size is a number of bytes, such as 65536, 256KiB or 1MiB.
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

// receiver is the value of the flag --webhook.
type receiver struct{ webhook.Receiver }

// UnmarshalText reads a flag's value for kong.
func (r *receiver) UnmarshalText(text []byte) (err error) {
	r.Receiver, err = webhook.ParseReceiver(string(text))
	return err
}

// String returns the host only, because the rest may be secret.
func (r receiver) String() string { return r.Host() }

// matchSettings are the allowed settings of rooms that a match creates. The flag has them as JSON, or as @ and the
// name of a file with JSON.
type matchSettings transport.MatchSettings

// UnmarshalText reads a flag's value for kong.
func (m *matchSettings) UnmarshalText(text []byte) (err error) {
	if file, is := bytes.CutPrefix(text, []byte("@")); is {
		if text, err = os.ReadFile(string(file)); err != nil {
			return err
		}
	}
	list := transport.MatchSettings{} // [] allows none
	if err := json.Unmarshal(text, &list, json.RejectUnknownMembers(true)); err != nil {
		return fmt.Errorf(`%.80q is not a list of settings such as [{"capacity":4}], or @FILE: %w`, text, err)
	}
	*m = matchSettings(list)
	return list.Check()
}

// String returns the JSON, empty for nil.
func (m matchSettings) String() string {
	if m == nil {
		return ""
	}
	text, err := json.Marshal([]room.Settings(m))
	if err != nil {
		return err.Error() // invalid JSON in labels; a flag's labels are valid
	}
	return string(text)
}
