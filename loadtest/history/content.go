package history

import (
	"fmt"
	"hash/maphash"
	"slices"
	"strings"

	"roomd/loadtest/internal/model"
)

// content stands for what a list shows beside the seats. Like a fingerprint it means
// something in this process only.
type content struct {
	data   uint64 // of the room
	rules  uint64 // the settings; 0 if they are not known
	timers uint64 // which are set; 0 if they are not known
	states uint64 // of the members
	absent uint64 // who is away
	host   uint64 // 0 if it is not known
}

// differs names what two sources say differently about one version, or is empty.
func (c content) differs(other content) string {
	switch {
	case c.data != other.data:
		return "data of the room"
	case c.rules != other.rules && c.rules != 0 && other.rules != 0:
		return "settings"
	case c.timers != other.timers && c.timers != 0 && other.timers != 0:
		return "timers"
	case c.states != other.states:
		return "states of members"
	case c.absent != other.absent:
		return "members who are away"
	case c.host != other.host && c.host != 0 && other.host != 0:
		return "host"
	}
	return ""
}

func hashData(data string) uint64 { return maphash.String(hashSeed, data) }

// hashRules returns 0 for settings that are not known.
func hashRules(r *Rules) uint64 {
	if r == nil {
		return 0
	}
	return maphash.Comparable(hashSeed, *r) | 1
}

// hashTimers returns 0 for timers that are not known.
func hashTimers(t Timers) uint64 {
	if t == nil {
		return 0
	}
	return maphash.String(hashSeed, strings.Join(t, " ")) | 1
}

// hashHost returns 0 for no host.
func hashHost(user string) uint64 { return hashData(user) | 1 }

// matter is what a view knows of a room beside its members.
type matter struct {
	data   string
	rules  *Rules // nil if no message told them
	timers Timers
	host   string

	dataHash, rulesHash, timersHash uint64
}

func newMatter(data string, rules *Rules, timers Timers, host string) matter {
	return matter{data, rules, timers, host, hashData(data), hashRules(rules), hashTimers(timers)}
}

// capacity returns how many members there may be; 0 is any number.
func (m *matter) capacity(unless int) int {
	if m.rules == nil {
		return unless
	}
	return m.rules.Capacity
}

// apply applies one change, and returns what cannot be right about it.
func (m *matter) apply(c Change) (faults []fault) {
	switch c.Type {
	case RoomData:
		*m = newMatter(c.Data, m.rules, m.timers, m.host)
	case Settings:
		rules := c.Settings
		*m = newMatter(m.data, &rules, m.timers, m.host)
	case Countdown, Fired:
		at, there := slices.BinarySearch(m.timers, c.Timer)
		switch next := slices.Clone(m.timers); {
		case m.timers == nil:
		case c.Set && !there:
			*m = newMatter(m.data, m.rules, slices.Insert(next, at, c.Timer), m.host)
		case c.Set:
		case there:
			*m = newMatter(m.data, m.rules, slices.Delete(next, at, at+1), m.host)
		default: // it has fired before, or was cancelled
			faults = append(faults, fault{Duplicate, c.Timer, false, fmt.Sprintf("the timer %s, which is not set, did %q", c.Timer, c.Type)})
		}
	case HostIs:
		m.host = c.User
	case Join, Seated:
		for _, b := range m.limits().Join(c.Seat) {
			if b.Rule == model.Closed && c.Type == Seated {
				continue // the member was in before
			}
			if b.Rule == model.Closed {
				faults = append(faults, fault{Intruder, c.User, false, c.User + " came in while the room was closed"})
			} else {
				faults = append(faults, beyond(c.User, c.Seat, m.limits().Capacity))
			}
		}
	}
	return faults
}

// limits returns what the settings say about who comes in.
func (m *matter) limits() model.Settings {
	if m.rules == nil {
		return model.Settings{}
	}
	return model.Settings{Capacity: m.rules.Capacity, Closed: m.rules.Closed}
}

// holds returns what cannot be right about these members in a room with these settings.
func (m *matter) holds(r *roster) (faults []fault) {
	if m.rules == nil || m.rules.Capacity == 0 {
		return nil
	}
	faults = overCapacity(len(r.Of), m.rules.Capacity)
	for user, seat := range r.Of {
		if m.limits().Beyond(seat) {
			faults = append(faults, beyond(user, seat, m.rules.Capacity))
		}
	}
	return faults
}

// governed returns what cannot be right about the host of a room with these members.
func (m *matter) governed(r *roster) []fault {
	_, in := r.Of[m.host]
	if m.rules == nil || m.rules.Host != Longest && m.host == "" || m.rules.Host == Longest && in == (len(r.Of) > 0) && (in || m.host == "") {
		return nil
	}
	return []fault{{Diverged, "host", false, fmt.Sprintf("the host is %q in a room of %d users with the policy %q", m.host, len(r.Of), m.rules.Host)}}
}

func beyond(user string, seat, limit int) fault {
	return fault{Oversold, user, false, fmt.Sprintf("%s is on seat %d of a room for %d", user, seat, limit)}
}

// of returns what stands for the room with these members.
func (m *matter) of(r *roster) content {
	return content{m.dataHash, m.rulesHash, m.timersHash, r.state, r.absent, hashHost(m.host)}
}

func contentOf(state RoomState) content {
	r, m := newRoster(), newMatter(state.Data, state.Settings, state.Timers, state.Host)
	r.set(state.Users, 0)
	return m.of(&r)
}

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
