package history

import (
	"maps"
	"slices"

	"pgregory.net/rapid"
)

// model is a room server without mistakes, except race's, and clients who join and leave
// at random. It records what the clients are told.
type model struct {
	t        *rapid.T
	capacity int
	calm     bool // no connection breaks, and every request gets its reply
	version  uint64
	members  map[string]membership
	lists    map[uint64][]Member
	clients  []*client
	pending  []*request
	trace    []step
	sessions int
	budget   int // of the ledger
}

// membership is a seat, and the session that speaks for it.
type membership struct {
	seat    int
	session int
}

type client struct {
	user    string
	session int
	waits   bool   // for a reply
	queue   []step // sent, and not delivered yet
	events  bool   // the server sends it the room's events
}

type request struct {
	c       *client
	session int
	action  string
	given   bool // its client has given up
}

// step is a message to one client, or the end of its request or connection.
type step struct {
	user    string
	session int
	what    string // joined, left, listed, snapshot, changed, unknown, cut
	action  string // of an unknown
	seat    int
	list    List
	event   Event
}

func newModel(t *rapid.T, calm bool) *model {
	m := &model{t: t, calm: calm, budget: searchBudget, members: make(map[string]membership), lists: map[uint64][]Member{0: nil},
		capacity: rapid.SampledFrom([]int{0, 2, 4}).Draw(t, "capacity")}
	for _, user := range []string{"a", "b", "c", "d", "张三"}[:rapid.IntRange(1, 5).Draw(t, "clients")] {
		m.sessions++
		m.clients = append(m.clients, &client{user: user, session: m.sessions})
	}
	return m
}

func (m *model) run() {
	for range rapid.IntRange(1, 60).Draw(m.t, "steps") {
		c := rapid.SampledFrom(m.clients).Draw(m.t, "client")
		switch what := rapid.IntRange(0, 19).Draw(m.t, "what"); {
		case what < 8:
			m.ask(c)
		case what < 12:
			m.commit()
		case what < 16:
			m.deliver(c)
		case m.calm:
		case what == 16:
			m.giveUp(c)
		case what == 17:
			m.cut(c)
		case what == 18 && len(m.pending) > 0:
			m.withdraw()
		case what == 19:
			m.grace()
		}
	}
	if m.calm {
		for len(m.pending) > 0 {
			m.commit()
		}
	}
	m.deliverAll()
}

// deliverAll delivers everything that was sent.
func (m *model) deliverAll() {
	for _, c := range m.clients {
		for len(c.queue) > 0 {
			m.deliver(c)
		}
		m.giveUp(c)
	}
}

func (m *model) ask(c *client) {
	if !c.waits {
		c.waits = true
		m.pending = append(m.pending, &request{c, c.session, rapid.SampledFrom([]string{Join, Join, Leave, "users"}).Draw(m.t, "action"), false})
	}
}

// commit serves some of the pending requests in one batch.
func (m *model) commit() {
	n := min(len(m.pending), rapid.IntRange(1, 4).Draw(m.t, "batch"))
	batch := slices.Clone(m.pending[:n])
	m.pending = slices.Delete(m.pending, 0, n)
	m.serve(batch)
}

func (m *model) serve(batch []*request) {
	var done []Change
	wrote, refused := false, make(map[*request]bool)
	for _, r := range batch {
		now, there := m.members[r.c.user]
		switch {
		case r.action == "users":
		case r.action == Join && there:
			wrote = wrote || now.session != r.session
			m.members[r.c.user] = membership{now.seat, r.session}
		case r.action == Join && m.capacity > 0 && len(m.members) >= m.capacity,
			r.action == Leave && (!there || now.session != r.session):
			refused[r] = true
		case r.action == Join:
			seat := m.freeSeat()
			m.members[r.c.user] = membership{seat, r.session}
			done = append(done, Change{Join, r.c.user, seat})
		default:
			delete(m.members, r.c.user)
			done = append(done, Change{Leave, r.c.user, now.seat})
		}
	}
	if wrote = wrote || len(done) > 0; wrote {
		m.version++
		m.lists[m.version] = m.list()
		m.publish(done)
	}
	for _, r := range batch {
		m.answer(r, refused[r])
	}
}

// race lets two nodes read the same version and each write a join as the next one. The
// lock prevents this lost update. race returns false if no two clients are free for it.
func (m *model) race() bool {
	var free []*client
	for _, c := range m.clients {
		if _, member := m.members[c.user]; !member && !c.waits {
			free = append(free, c)
		}
	}
	if len(free) < 2 || m.capacity > 0 && len(m.members) >= m.capacity {
		return false
	}
	read, version := maps.Clone(m.members), m.version
	m.serve([]*request{{free[0], free[0].session, Join, false}})
	m.members, m.version = read, version
	m.serve([]*request{{free[1], free[1].session, Join, false}})
	return true
}

func (m *model) publish(done []Change) {
	for _, c := range m.clients {
		now, member := m.members[c.user]
		overtakes := rapid.IntRange(0, 3).Draw(m.t, "overtakes") == 0
		if c.events && (member && now.session == c.session || overtakes) {
			c.queue = append(c.queue, step{user: c.user, session: c.session, what: "changed",
				event: Event{"e", m.version, m.version - 1, done}})
		}
		if !member || now.session != c.session {
			c.events = false
		}
	}
}

func (m *model) answer(r *request, refused bool) {
	c := r.c
	if r.session != c.session {
		return // that connection is gone
	}
	s := step{user: c.user, session: c.session, list: List{"e", m.version, len(m.members), m.lists[m.version]}}
	if m.version == 0 {
		s.list.Epoch = ""
	}
	switch now, member := m.members[c.user]; {
	case refused:
		s.what = "refused"
	case r.action == "users":
		s.what = "listed"
	case r.action == Leave:
		s.what = "left"
	default:
		s.what, s.seat = "joined", now.seat
		c.events = member && now.session == c.session
		if !c.events {
			s.what = "refused" // left again within the batch
		}
	}
	if !r.given {
		c.queue = append(c.queue, s)
	}
}

// grace removes a member whose connection is gone.
func (m *model) grace() {
	for _, c := range m.clients {
		if now, member := m.members[c.user]; member && now.session != c.session {
			m.serve([]*request{{c, now.session, Leave, true}})
			return
		}
	}
}

func (m *model) freeSeat() int {
	taken := make(map[int]bool)
	for _, p := range m.members {
		taken[p.seat] = true
	}
	seat := 0
	for taken[seat] {
		seat++
	}
	return seat
}

func (m *model) list() (users []Member) {
	for _, user := range slices.Sorted(maps.Keys(m.members)) {
		users = append(users, Member{user, m.members[user].seat})
	}
	return users
}

func (m *model) final() RoomState {
	if m.version == 0 {
		return RoomState{}
	}
	return RoomState{"e", m.version, m.list()}
}
