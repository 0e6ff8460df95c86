package room

import (
	"cmp"
	"math/bits"
	"slices"
	"strings"
	"sync"
)

// detached precedes the session of a member who is disconnected and may come back.
const detached = "~"

// reserved precedes the session of a reservation; no session begins with a +.
const reserved = detached + "+"

// Member is a user's membership in a room, as stored in Redis.
type Member struct {
	Seat    int    `json:"seat"`    // counted from 0
	Session string `json:"session"` // the user's active session, perhaps as withDeadline returns it
	Node    string `json:"node"`    // the node of that session, "" if it has a deadline
	At      int64  `json:"at"`      // of the join, in ms since 1970 by the nodes' clock; later than all joins before

	Ready bool   `json:"ready,omitzero"` // set by the user
	Data  *Value `json:"data,omitzero"`  // set by the user; nil for none

	Private *Value `json:"private,omitzero"` // shown only to the user and to authority; nil for none

	Agreed *Agreement `json:"agreed,omitzero"` // see [Agree]; immutable, nil for none
}

// SessionID returns the user's active session, detached or not, or the session that reserves the seat.
func (m Member) SessionID() string {
	_, id := splitSession(m.Session)
	return id
}

// Reserved reports whether the seat is reserved for the user, who has not come yet.
func (m Member) Reserved() bool { return strings.HasPrefix(m.Session, reserved) }

// Detached reports whether the session is disconnected and may come back.
func (m Member) Detached() bool { return strings.HasPrefix(m.Session, detached) }

// equals reports whether Redis stores m and other alike.
func (m Member) equals(other Member) bool {
	return m.Seat == other.Seat && m.Session == other.Session && m.Node == other.Node && m.At == other.At &&
		m.Ready == other.Ready && m.Data.equals(other.Data) && m.Private.equals(other.Private) &&
		m.Agreed.equals(other.Agreed)
}

// memberData has a row for each kind of update that changes a member's data or readiness. set applies an update. all
// returns the detail that restores them in a room that has lost the member; nil if there is nothing to restore.
var memberData = [...]struct {
	kind Kind
	set  func(m Member, now Detail, version uint64) Member
	all  func(m Member) *Detail
}{
	{kindMember, func(m Member, now Detail, version uint64) Member {
		if now.Ready != nil {
			m.Ready = *now.Ready
		}
		if now.Data != nil {
			m.Data = m.Data.after(now.Data, version)
		}
		return m
	}, func(m Member) *Detail {
		if !m.Ready && m.Data == nil {
			return nil
		}
		all := &Detail{Data: jsonOf(m.Data.String())}
		if m.Ready {
			all.Ready = new(true)
		}
		return all
	}},
	{kindPrivate, func(m Member, now Detail, version uint64) Member {
		m.Private = m.Private.after(now.Data, version)
		return m
	}, func(m Member) *Detail {
		if m.Private == nil {
			return nil
		}
		return &Detail{Data: jsonOfMember(m.Private.String())}
	}},
	{kindAgree, func(m Member, now Detail, _ uint64) Member {
		m.Agreed = now.Agreed
		return m
	}, func(m Member) *Detail {
		if m.Agreed == nil {
			return nil
		}
		return &Detail{Agreed: m.Agreed}
	}},
}

// roster has the members of a room, by user and by seat.
type roster struct {
	byUser map[string]Member
	seats  seatMap
	newest int64 // the latest At of all who have joined or were taken out
}

// joinTime returns the At of a new member: later than all before, although clocks of nodes differ.
func (m *roster) joinTime(by Origin) int64 { return max(by.At, m.newest+1) }

// update applies an update of one user at a version.
func (m *roster) update(u *Update, version uint64) {
	m.newest = max(m.newest, u.At)
	switch u.Type {
	case KindJoin:
		m.put(u.User, Member{Seat: u.Seat, Session: u.Session, Node: u.home(), At: u.At})
	case KindLeave:
		m.remove(u.User)
	case kindSeat:
		if member, ok := m.byUser[u.User]; ok {
			member.Seat = u.Seat
			m.put(u.User, member)
		}
	case kindReplace, kindAway, kindBack:
		if member, ok := m.byUser[u.User]; ok {
			member.Session = u.Session
			if u.Type != kindAway || Deadline(u.Session) > 0 { // any node may report a user away
				member.Node = u.home()
			}
			m.byUser[u.User] = member
			m.seats.show(member.Seat, member)
		}
	default:
		m.setData(u, version)
	}
}

// setData applies an update of a member's data or readiness by its row in memberData.
func (m *roster) setData(u *Update, version uint64) {
	member, ok := m.byUser[u.User]
	for i := range memberData {
		if memberData[i].kind == u.Type && ok {
			member = memberData[i].set(member, u.detail(), version)
			m.byUser[u.User] = member
			m.seats.show(member.Seat, member)
		}
	}
}

func (m *roster) has(user string) bool {
	_, is := m.byUser[user]
	return is
}

func (m *roster) put(user string, member Member) {
	m.remove(user)
	m.byUser[user] = member
	m.seats.take(member.Seat, user)
	m.seats.show(member.Seat, member)
}

func (m *roster) remove(user string) {
	if member, ok := m.byUser[user]; ok {
		delete(m.byUser, user)
		if m.seats.at(member.Seat) == user { // else the seat already has a new user, and this one moves
			m.seats.free(member.Seat)
		}
	}
}

// longestSeated returns the member who joined first, by the room's own times, so that all nodes agree. Members who
// joined together are ordered by seat, and members who are away come last. It returns "" for an empty room.
func (m *roster) longestSeated() (longest string) {
	var first Member
	for user, member := range m.byUser {
		if longest == "" || member.sitsBefore(first) {
			longest, first = user, member
		}
	}
	return longest
}

func (m Member) sitsBefore(other Member) bool {
	if away := m.Detached(); away != other.Detached() {
		return !away
	}
	return cmp.Or(cmp.Compare(m.At, other.At), cmp.Compare(m.Seat, other.Seat)) < 0
}

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

// show records for views whether the member on a seat is away and ready, and the member's data.
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

// with returns a chunk's texts with text on that seat, and whether the seat had another text. Nil is all empty.
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

// own returns chunk i for a change: a copy if a view shares it.
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
		s.last = &seatView{count: s.count, private: s.private}
		s.last.chunks = append(s.last.few[:0], s.chunks...)
	}
	return s.last
}

// seatView is the seating plan at one version. It does not change.
type seatView struct {
	chunks  []*chunk
	few     [1]*chunk // of chunks, if there are no more
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
					o := Occupant{User: user, Seat: i*chunkSeats + j, Away: c.away&(1<<j) != 0,
						Ready: c.ready&(1<<j) != 0}
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

// privateFor returns the private data that a viewer may see, by user; nil for none.
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
