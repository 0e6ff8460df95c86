package history

import "slices"

// pool holds, by user, the requests whose outcome is unknown and which the replay has
// not found committed yet.
type pool map[string]*requests

// requests are one user's: for each the version above which it may have been
// committed, in order.
type requests struct{ joins, leaves, lapses, aways, backs []uint64 }

// lapse is a Leave that only happens if its user does not come.
const lapse = "lapse"

func newPool(unknowns ...[]unknown) pool {
	p := make(pool)
	for _, u := range slices.Concat(unknowns...) {
		c := p[u.user]
		if c == nil {
			c = new(requests)
			p[u.user] = c
		}
		list := c.of(u.action)
		*list = append(*list, u.after)
		slices.Sort(*list)
	}
	return p
}

func (c *requests) of(action string) *[]uint64 {
	switch action {
	case Join:
		return &c.joins
	case Away:
		return &c.aways
	case Back:
		return &c.backs
	case lapse:
		return &c.lapses
	}
	return &c.leaves
}

// has reports whether an unknown request of the user may be the action at version.
func (p pool) has(user, action string, version uint64) bool {
	c := p[user]
	return c != nil && c.usable(action, version) > 0
}

// usable returns how many requests may have been committed at version.
func (c *requests) usable(action string, version uint64) int {
	n, _ := slices.BinarySearch(*c.of(action), version)
	if action == Leave {
		n += c.usable(lapse, version)
	}
	return n
}

// use removes such a request, because it turned out to be committed, and reports
// whether there was one. Of several it is the oldest, because come keeps newer ones for longer.
func (p pool) use(user, action string, version uint64) bool {
	if !p.has(user, action, version) {
		return false
	}
	c := p[user]
	if action == Leave && c.usable(lapse, version) > 0 {
		action = lapse
	}
	list := c.of(action)
	*list = slices.Delete(*list, 0, 1)
	p.tidy(user)
	return true
}

// come removes the lapses and the returns of a user who has come at version, or has a newer
// reservation since then.
func (p pool) come(user string, version uint64) {
	if c := p[user]; c != nil {
		c.lapses, c.backs = c.lapses[c.usable(lapse, version):], c.backs[c.usable(Back, version):]
		p.tidy(user)
	}
}

// tidy forgets a user without requests.
func (p pool) tidy(user string) {
	if p[user].size() == 0 {
		delete(p, user)
	}
}

func (c *requests) size() int {
	return len(c.joins) + len(c.leaves) + len(c.lapses) + len(c.aways) + len(c.backs)
}

// count returns how many unknown requests for the action may be committed by version.
func (p pool) count(action string, version uint64) (n int) {
	for _, c := range p {
		n += c.usable(action, version)
	}
	return n
}

// traceless returns how many commits up to version the pool can explain that leave the
// members as they are. Any request of a user in busy may have been committed, because
// that user has acknowledged actions in between.
func (p pool) traceless(version uint64, members map[string]int, busy map[string]bool) (n int) {
	for user, c := range p {
		joins, leaves := c.usable(Join, version), c.usable(Leave, version)
		_, member := members[user]
		n += c.usable(Away, version) + c.usable(Back, version)
		switch {
		case busy[user]:
			n += joins + leaves
		case member || joins > 0 && leaves > 0:
			// A member's join from a new session is a commit that changes no list.
			// A leave needs a join to undo it.
			n += joins + min(joins, leaves)
		}
	}
	return n
}

// size returns how many unknown requests there are.
func (p pool) size() (n int) {
	for _, c := range p {
		n += c.size()
	}
	return n
}

// users returns the users with unknown requests, in order.
func (p pool) users() []string {
	names := make([]string, 0, len(p))
	for user := range p {
		names = append(names, user)
	}
	slices.Sort(names)
	return names
}
