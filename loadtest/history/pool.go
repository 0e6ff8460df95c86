package history

import "slices"

// pool holds the requests of a room whose outcome is unknown and which the
// replay has not found committed yet, by user.
type pool map[string]*chances

// chances are one user's unknown requests: for each the version above which it
// may have been committed, in order.
type chances struct{ joins, leaves []uint64 }

func newPool(unknowns []unknown) pool {
	p := make(pool)
	for _, u := range unknowns {
		c := p[u.user]
		if c == nil {
			c = new(chances)
			p[u.user] = c
		}
		list := c.of(u.action)
		*list = append(*list, u.after)
		slices.Sort(*list)
	}
	return p
}

func (c *chances) of(action string) *[]uint64 {
	if action == Join {
		return &c.joins
	}
	return &c.leaves
}

// can says whether an unknown request of the user may be the action at version.
func (p pool) can(user, action string, version uint64) bool {
	c := p[user]
	return c != nil && c.usable(action, version) > 0
}

// usable counts the requests that may have been committed at version.
func (c *chances) usable(action string, version uint64) int {
	n, _ := slices.BinarySearch(*c.of(action), version)
	return n
}

// take removes one such request, which has then turned out to be committed.
// Which of several does not matter: the replay never goes back.
func (p pool) take(user, action string, version uint64) bool {
	if !p.can(user, action, version) {
		return false
	}
	c := p[user]
	list, n := c.of(action), c.usable(action, version)
	*list = slices.Delete(*list, n-1, n)
	if len(c.joins)+len(c.leaves) == 0 {
		delete(p, user)
	}
	return true
}

// count is how many unknown requests for the action may be committed by version.
func (p pool) count(action string, version uint64) (n int) {
	for _, c := range p {
		n += c.usable(action, version)
	}
	return n
}

// reach is how many commits the pool can explain up to version that leave the
// members as they are. The users in busy have acknowledged actions in between,
// so that any of their requests may have had its turn.
func (p pool) reach(version uint64, members map[string]int, busy map[string]bool) (n int) {
	for user, c := range p {
		joins, leaves := c.usable(Join, version), c.usable(Leave, version)
		_, member := members[user]
		switch {
		case busy[user]:
			n += joins + leaves
		case member || joins > 0 && leaves > 0:
			// A member's join from a new session is a commit that changes no list;
			// a leave needs a join to make up for it.
			n += joins + min(joins, leaves)
		}
	}
	return n
}

// size is how many unknown requests are left.
func (p pool) size() (n int) {
	for _, c := range p {
		n += len(c.joins) + len(c.leaves)
	}
	return n
}

// users are those with unknown requests, in order.
func (p pool) users() []string {
	names := make([]string, 0, len(p))
	for user := range p {
		names = append(names, user)
	}
	slices.Sort(names)
	return names
}
