package room

// Position says where a room stands. The zero value is a room that nobody has ever
// joined.
type Position struct {
	Epoch    string `json:"epoch"`   // begins anew when commits were lost; empty before the first join
	Version  uint64 `json:"version"` // counts the epoch's commits from 1
	CommitID string `json:"mark"`    // of the commit that made the version; empty: not known
}

// Order says how a position that was read later relates to one that was known before.
type Order int

// The results of [Position.Compare].
const (
	// Same: both are one commit.
	Same Order = iota
	// Later: commits have been added.
	Later
	// Earlier: the epoch's last commits are missing.
	Earlier
	// Forked: the versions are equal, but another commit made this one.
	Forked
	// OtherEpoch: the versions do not compare.
	OtherEpoch
)

// Compare returns how next relates to p. Every decision about "has this room gone back?"
// is made here.
func (p Position) Compare(next Position) Order {
	switch {
	case next.Epoch != p.Epoch:
		return OtherEpoch
	case next.Version > p.Version:
		return Later
	case next.Version < p.Version:
		return Earlier
	case next.CommitID != p.CommitID && next.CommitID != "" && p.CommitID != "":
		return Forked
	}
	return Same
}

// Lost reports whether Redis has lost commits if it had a room at p before and has it at
// next now. In another epoch versions do not tell; see [Position.Compare].
func (p Position) Lost(next Position) bool {
	order := p.Compare(next)
	return order == Earlier || order == Forked
}

// Gone reports whether commits that somebody knew at p are not in the room at next: they
// were lost, or the room has begun anew. Whoever knew nothing has lost nothing.
func (p Position) Gone(next Position) bool {
	return p.Version > 0 && (p.Lost(next) || p.Compare(next) == OtherEpoch)
}
