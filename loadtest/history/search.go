package history

// searchBudget bounds the tries for each room.
const searchBudget = 1 << 23

// maxHalf bounds the tries for each half of the users with unknown outcomes.
const maxHalf = 1 << 16

// option is one way in which a user's unknown requests may have turned out.
type option struct {
	sum     uint64 // by which it changes the fingerprint's
	changes []Change
}

// half is a part of the users, each with all options; the first is no change.
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

// search looks for those unknown outcomes that, if committed by v, lead to the
// list that was seen, and does what they did. It meets in the middle: the sums
// of one half of the users are looked up from the other. It does nothing if no
// choice leads there, and says whether there were too many to try.
func (p *replay) search(want fingerprint, v uint64) (tooMany bool) {
	a, b := half{size: 1}, half{size: 1}
	for _, user := range p.pool.users() {
		if o := p.options(user, v); len(o) > 1 {
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
	if p.budget -= a.size + b.size; p.budget < 0 {
		return true
	}
	sums := make(map[uint64]int, a.size)
	for way := range a.size {
		sums[a.sum(way)] = way
	}
	miss := want.sum - p.total().sum
	for way := range b.size {
		if other, found := sums[miss-b.sum(way)]; found {
			var did []Change
			collect := func(o option) { did = append(did, o.changes...) }
			a.choose(other, collect)
			b.choose(way, collect)
			p.adopt(did, v)
			return false
		}
	}
	return false
}

// options are the ways in which the user may have ended up at v.
func (p *replay) options(user string, v uint64) []option {
	all := []option{{}}
	seat, there := p.roster.seats[user]
	left := option{}
	if there {
		if !p.pool.can(user, Leave, v) {
			return all
		}
		left = option{-placeHash(user, seat), []Change{{Leave, user, seat}}}
		all = append(all, left)
	}
	if !p.pool.can(user, Join, v) {
		return all
	}
	seats := max(p.e.top, p.roster.top) + p.pool.count(Join, v) + 1
	if limit := p.l.capacity; limit > 0 {
		seats = min(seats, limit)
	}
	for s := range min(seats, maxHalf) {
		if !there || s != seat {
			moved := append(left.changes[:len(left.changes):len(left.changes)], Change{Join, user, s})
			all = append(all, option{left.sum + placeHash(user, s), moved})
		}
	}
	return all
}

// adopt takes unknown outcomes for committed: all leaves, then all joins, for a
// seat may have passed from one user to another.
func (p *replay) adopt(did []Change, v uint64) {
	p.changed += len(did)
	for _, c := range did {
		p.busy[c.User] = true
		if p.pool.take(c.User, c.Type, v); c.Type == Leave {
			p.roster.drop(c.User)
			p.last[c.User] = action{false, v}
		}
	}
	for _, c := range did {
		if c.Type == Join {
			p.roster.put(c.User, c.Seat)
			p.last[c.User] = action{true, v}
		}
	}
}
