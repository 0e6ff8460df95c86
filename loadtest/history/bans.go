package history

import "slices"

// checkBans looks for joins that were acknowledged in spite of a ban. A join may be
// answered later than it was committed, but not before, so a join that was answered before
// the ban ended was committed under it.
func (p *replay) checkBans() {
	for _, ban := range p.log.requests {
		if ban.Action != Kick || ban.BannedUntil == 0 || ban.conflict {
			continue
		}
		for _, m := range ban.Users {
			lifted := p.lifted(m.User, ban.Version)
			for _, a := range p.log.acks {
				if a.kind == ackMoves && a.join && a.version > ban.Version && a.version < lifted && a.at < ban.BannedUntil && a.user.Value() == m.User {
					p.found(Intruder, a.version, m.User, "%s came in, and was banned at version %d", m.User, ban.Version)
				}
			}
		}
	}
}

// lifted returns the version at which a ban after v may have been lifted.
func (p *replay) lifted(user string, v uint64) uint64 {
	first := ^uint64(0)
	for _, a := range p.log.requests {
		if a.Action == Unban && a.has(user) && a.Version >= v {
			first = min(first, a.Version)
		}
	}
	if slices.ContainsFunc(p.room.unanswered, func(u unanswered) bool { return u.Action == Unban && u.has(user) }) {
		return v
	}
	return first
}
