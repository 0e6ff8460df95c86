package room

import (
	"math/bits"
	"slices"
	"sync"
)

// chunkSeats is how many seats are copied when one of them changes.
const chunkSeats = 16

// chunk has the users of chunkSeats consecutive seats.
type chunk struct {
	users [chunkSeats]string  // "" for a free seat
	away  uint16              // a bit for each seat whose user is away
	ready uint16              // a bit for each seat whose user is ready
	data  *[chunkSeats]string // set by the users; nil if none has any. Immutable

	private *[chunkSeats]string // private data of the users; nil if none has any. Immutable
}

func set(bits uint16, seat int, on bool) uint16 {
	bit := uint16(1) << (seat % chunkSeats)
	if on {
		return bits | bit
	}
	return bits &^ bit
}

// seatMap is the seating plan. Its views do not change: a chunk that a view shares is copied before it changes (copy
// on write). The zero value is empty.
type seatMap struct {
	taken  []uint64 // a bit for each seat
	chunks []*chunk
	shared []bool // by chunk: a view shares it
	count  int
	last   *seatView // the view of the present state; nil if not made yet

	private int // how many users have private data
}

func (s *seatMap) has(seat int) bool {
	return seat/64 < len(s.taken) && s.taken[seat/64]&(1<<(seat%64)) != 0
}

// at returns the user on a seat, "" for none.
func (s *seatMap) at(seat int) string {
	if seat < 0 || !s.has(seat) {
		return ""
	}
	return s.chunks[seat/chunkSeats].users[seat%chunkSeats]
}

// take seats a user. The seat's present user, if any, must be about to get another seat.
func (s *seatMap) take(seat int, user string) {
	for seat/64 >= len(s.taken) {
		s.taken = append(s.taken, 0)
	}
	if !s.has(seat) {
		s.count++
	}
	s.taken[seat/64] |= 1 << (seat % 64)
	s.own(seat / chunkSeats).users[seat%chunkSeats] = user
}

func (s *seatMap) free(seat int) {
	s.taken[seat/64] &^= 1 << (seat % 64)
	s.count--
	s.show(seat, Member{})
	s.own(seat / chunkSeats).users[seat%chunkSeats] = ""
}

// show records what others see of the user on a seat.
func (s *seatMap) show(seat int, m Member) {
	c := s.chunks[seat/chunkSeats]
	away, ready := set(c.away, seat, m.Detached()), set(c.ready, seat, m.Ready)
	if away != c.away || ready != c.ready {
		c = s.own(seat / chunkSeats)
		c.away, c.ready = away, ready
	}
	if all, other := with(c.data, seat, m.Data.String()); other {
		s.own(seat / chunkSeats).data = all
		c = s.chunks[seat/chunkSeats]
	}
	if all, other := with(c.private, seat, m.Private.String()); other {
		switch had := c.private != nil && c.private[seat%chunkSeats] != ""; {
		case had && m.Private.String() == "":
			s.private--
		case !had:
			s.private++
		}
		s.own(seat / chunkSeats).private = all
	}
}

// with returns a chunk's texts with one seat's replaced, and whether that changes them. Nil is all empty.
func with(all *[chunkSeats]string, seat int, text string) (next *[chunkSeats]string, other bool) {
	if all == nil && text == "" || all != nil && all[seat%chunkSeats] == text {
		return all, false
	}
	var texts [chunkSeats]string
	if all != nil {
		texts = *all
	}
	texts[seat%chunkSeats] = text
	if texts == [chunkSeats]string{} {
		return nil, true
	}
	return &texts, true
}

// own returns a chunk that may be changed.
func (s *seatMap) own(i int) *chunk {
	s.last = nil
	for i >= len(s.chunks) {
		s.chunks, s.shared = append(s.chunks, new(chunk)), append(s.shared, false)
	}
	if s.shared[i] {
		c := *s.chunks[i]
		s.chunks[i], s.shared[i] = &c, false
	}
	return s.chunks[i]
}

func (s *seatMap) highest() int {
	for i, word := range slices.Backward(s.taken) {
		if word != 0 {
			return i*64 + 63 - bits.LeadingZeros64(word)
		}
	}
	return -1
}

func (s *seatMap) lowestFree() int {
	for i, word := range s.taken {
		if word != ^uint64(0) {
			return i*64 + bits.TrailingZeros64(^word)
		}
	}
	return len(s.taken) * 64
}

func (s *seatMap) view() *seatView {
	if s.last == nil {
		for i := range s.shared {
			s.shared[i] = true
		}
		s.last = &seatView{chunks: slices.Clone(s.chunks), count: s.count, private: s.private}
	}
	return s.last
}

// seatView is the seating plan at one version. It does not change.
type seatView struct {
	chunks  []*chunk
	count   int
	private int // how many users have private data

	list  sync.Once
	users []Occupant // written once, by list

	memo   sync.Once
	shared any // written once, by memo
}

func (v *seatView) occupants() []Occupant {
	v.list.Do(func() {
		v.users = make([]Occupant, 0, v.count)
		for i, c := range v.chunks {
			for j, user := range c.users {
				if user != "" {
					o := Occupant{User: user, Seat: i*chunkSeats + j, Away: c.away&(1<<j) != 0, Ready: c.ready&(1<<j) != 0}
					if c.data != nil {
						o.Data = c.data[j]
					}
					v.users = append(v.users, o)
				}
			}
		}
	})
	return v.users
}

// privateFor returns the private data that who may see, by user; nil for none.
func (v *seatView) privateFor(who Viewer) (found map[string]string) {
	for _, c := range v.chunks {
		if c.private == nil {
			continue
		}
		for i, data := range c.private {
			if data != "" && (who.Authority || who.User != "" && c.users[i] == who.User) {
				if found == nil {
					found = make(map[string]string)
				}
				found[c.users[i]] = data
			}
		}
	}
	return found
}
