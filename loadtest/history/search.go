package history

// searchBudget bounds the tries for each room.
const searchBudget = 1 << 23

// maxHalf bounds the tries for each half of the users with unknown outcomes.
const maxHalf = 1 << 16

// option is one possible outcome of a user's unknown requests.
type option struct {
	sum     uint64 // that it adds to the fingerprint's
	changes []Change
}

// half is a part of the users, each with all options. The first option is no change.
type half struct {
	users [][]option
	size  int // ways to choose one option for each
}

func (h *half) add(o []option) {
	h.users = append(h.users, o)
	h.size *= len(o)
}

// choose visits one of the ways, numbered from 0 to size.
func (h *half) choose(way int, visit func(option)) {
	for _, o := range h.users {
		visit(o[way%len(o)])
		way /= len(o)
	}
}

func (h *half) sum(way int) (sum uint64) {
	for _, o := range h.users {
		sum += o[way%len(o)].sum
		way /= len(o)
	}
	return sum
}

// search looks for unknown requests that, if committed by v, lead to the list that was
// seen, and adopts them. It meets in the middle: it looks the sums of one half of the
// users up from the other half. It changes nothing if no choice leads there, and reports
// whether there were too many to try.
func (s *estimate) search(want fingerprint, v uint64) (tooMany bool) {
	a, b := half{size: 1}, half{size: 1}
	for _, user := range s.pool.users() {
		if o := s.options(user, v); len(o) > 1 {
			if smaller := &a; a.size <= b.size {
				smaller.add(o)
			} else {
				b.add(o)
			}
			if a.size > maxHalf || b.size > maxHalf {
				return true
			}
		}
	}
	if s.tries -= a.size + b.size; s.tries < 0 {
		return true
	}
	sums := make(map[uint64]int, a.size)
	for way := range a.size {
		sums[a.sum(way)] = way
	}
	miss := want.sum - s.total().sum
	for way := range b.size {
		if other, found := sums[miss-b.sum(way)]; found {
			var committed []Change
			collect := func(o option) { committed = append(committed, o.changes...) }
			a.choose(other, collect)
			b.choose(way, collect)
			s.adopt(committed, v)
			return false
		}
	}
	return false
}

// options returns the places that the user may have at v.
func (s *estimate) options(user string, v uint64) []option {
	all := []option{{}}
	seat, there := s.roster.Of[user]
	left := option{}
	if there {
		if !s.pool.has(user, Leave, v) {
			return all
		}
		left = option{-placeHash(user, seat), []Change{{Type: Leave, User: user, Seat: seat}}}
		all = append(all, left)
	}
	if !s.pool.has(user, Join, v) {
		return all
	}
	seats := max(s.top, s.roster.top) + s.pool.count(Join, v) + 1
	if limit := s.capacity; limit > 0 {
		seats = min(seats, limit)
	}
	for free := range min(seats, maxHalf) {
		if !there || free != seat {
			moved := append(left.changes[:len(left.changes):len(left.changes)], Change{Type: Join, User: user, Seat: free})
			all = append(all, option{left.sum + placeHash(user, free), moved})
		}
	}
	return all
}
