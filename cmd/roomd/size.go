package main

import (
	"fmt"
	"math/bits"
	"strconv"
	"strings"
)

// size is a number of bytes, which people write as 65536, 256KiB or 1MiB.
type size int

var units = []struct {
	suffix string
	shift  int
}{{"KiB", 10}, {"MiB", 20}, {"GiB", 30}, {"B", 0}, {"", 0}}

// UnmarshalText is called by kong.
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
