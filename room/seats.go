package room

import "math/bits"

// seatSet is the set of taken seats, a bit each. The zero value is empty.
type seatSet []uint64

func (s seatSet) has(seat int) bool {
	return seat/64 < len(s) && s[seat/64]&(1<<(seat%64)) != 0
}

func (s *seatSet) take(seat int) {
	for seat/64 >= len(*s) {
		*s = append(*s, 0)
	}
	(*s)[seat/64] |= 1 << (seat % 64)
}

func (s seatSet) free(seat int) {
	s[seat/64] &^= 1 << (seat % 64)
}

func (s seatSet) lowestFree() int {
	for i, word := range s {
		if word != ^uint64(0) {
			return i*64 + bits.TrailingZeros64(^word)
		}
	}
	return len(s) * 64
}
