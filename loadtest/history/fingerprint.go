package history

import "hash/maphash"

// fingerprint stands for a list of users without regard to their order. Two
// lists with the same one are taken to be equal: by chance that goes wrong once
// in 2^64 comparisons. It means something in this process only.
type fingerprint struct {
	sum   uint64 // of placeHash over all members, modulo 2^64
	count int
}

var hashSeed = maphash.MakeSeed()

// placeHash is a member's part of the sum, so that a join or a leave costs one
// addition however long the list is.
func placeHash(user string, seat int) uint64 {
	h := maphash.String(hashSeed, user) + uint64(seat)*0x9e3779b97f4a7c15
	// A sum needs each of its parts to look random: neighbouring seats must not
	// cancel each other out. This is the finalizer of splitmix64.
	h = (h ^ h>>30) * 0xbf58476d1ce4e5b9
	h = (h ^ h>>27) * 0x94d049bb133111eb
	return h ^ h>>31
}

func (f fingerprint) with(user string, seat int) fingerprint {
	return fingerprint{f.sum + placeHash(user, seat), f.count + 1}
}

func (f fingerprint) without(user string, seat int) fingerprint {
	return fingerprint{f.sum - placeHash(user, seat), f.count - 1}
}

func fingerprintOf(users []Member) (f fingerprint) {
	for _, m := range users {
		f = f.with(m.User, m.Seat)
	}
	return f
}
