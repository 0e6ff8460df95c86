package history

import (
	"maps"
	"slices"

	"pgregory.net/rapid"
)

// simulation is a room server without mistakes, except race's, and clients who join and leave
// at random. It records what the clients are told.
type simulation struct {
	t        *rapid.T
	rules    Rules
	data     string
	dataAt   uint64 // the version at which data was set
	calm     bool   // no connection breaks, and every request gets its reply
	version  uint64
	members  map[string]membership
	lists    map[uint64]List
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
	state
	away bool
	at   uint64 // the version at which the data was set
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
	action  string // Join, Leave, users or that of q
	given   bool   // its client has given up
	q       Request
}

// step is a message to one client, or the end of its request or connection.
type step struct {
	user    string
	session int
	what    string // joined, left, listed, snapshot, changed, lost, unknown, cut; done, conflict, unanswered; admin, admin unanswered
	action  string // of an unknown; why a client lost its seat
	seat    int    // or how many changes an administrator made
	list    List
	event   Event
	q       Request
	there   string // the data that a conflict tells
}

func newSimulation(t *rapid.T, calm bool) *simulation {
	m := &simulation{t: t, calm: calm, budget: searchBudget, members: make(map[string]membership), lists: map[uint64]List{0: {}},
		rules: Rules{Capacity: rapid.SampledFrom([]int{0, 2, 4}).Draw(t, "capacity")}}
	for _, user := range []string{"a", "b", "c", "d", "张三"}[:rapid.IntRange(1, 5).Draw(t, "clients")] {
		m.sessions++
		m.clients = append(m.clients, &client{user: user, session: m.sessions})
	}
	return m
}

func (m *simulation) run() {
	for range rapid.IntRange(1, 60).Draw(m.t, "steps") {
		c := rapid.SampledFrom(m.clients).Draw(m.t, "client")
		switch what := rapid.IntRange(-8, 19).Draw(m.t, "what"); {
		case what < -6:
			m.order()
		case what < 0:
			m.request(c)
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
func (m *simulation) deliverAll() {
	for _, c := range m.clients {
		for len(c.queue) > 0 {
			m.deliver(c)
		}
		m.giveUp(c)
	}
}

func (m *simulation) ask(c *client) {
	if !c.waits {
		c.waits = true
		m.pending = append(m.pending, &request{c: c, session: c.session,
			action: rapid.SampledFrom([]string{Join, Join, Leave, "users"}).Draw(m.t, "action")})
	}
}

// commit serves some of the pending requests in one batch.
func (m *simulation) commit() {
	n := min(len(m.pending), rapid.IntRange(1, 4).Draw(m.t, "batch"))
	batch := slices.Clone(m.pending[:n])
	m.pending = slices.Delete(m.pending, 0, n)
	m.serve(batch)
}

func (m *simulation) serve(batch []*request) {
	var done []Change
	wrote, outcome := false, make(map[*request]string)
	for _, r := range batch {
		now, there := m.members[r.c.user]
		speaks := there && now.session == r.session
		switch {
		case r.action == "users":
		case r.action == Join && there:
			wrote = wrote || now.session != r.session
			if now.away {
				done = append(done, Change{Type: Back, User: r.c.user, Seat: now.seat})
			}
			now.session, now.away = r.session, false
			m.members[r.c.user] = now
		case r.action == Join && (m.full(1) || m.rules.Closed), r.action == Leave && !speaks:
			outcome[r] = "refused"
		case r.action == Join:
			seat := m.freeSeat()
			m.members[r.c.user] = membership{seat: seat, session: r.session}
			done = append(done, Change{Type: Join, User: r.c.user, Seat: seat})
		case r.action == Leave:
			delete(m.members, r.c.user)
			done = append(done, Change{Type: Leave, User: r.c.user, Seat: now.seat})
		case !speaks:
			outcome[r] = "refused"
		default:
			var c []Change
			c, outcome[r] = m.act(r.q)
			done = append(done, c...)
		}
	}
	m.write(wrote, done)
	for _, r := range batch {
		m.answer(r, outcome[r])
	}
}

// write commits the changes, if there are any, or if one commits nothing that a client sees.
func (m *simulation) write(wrote bool, done []Change) {
	if !wrote && len(done) == 0 {
		return
	}
	m.version++
	m.lists[m.version] = m.list()
	m.publish(done)
}

func (m *simulation) full(more int) bool {
	return m.rules.Capacity > 0 && len(m.members)+more > m.rules.Capacity
}

// race lets two nodes read the same version and each write a join as the next one. The
// lock prevents this lost update. race returns false if no two clients are free for it.
func (m *simulation) race() bool {
	var free []*client
	for _, c := range m.clients {
		if _, member := m.members[c.user]; !member && !c.waits {
			free = append(free, c)
		}
	}
	if len(free) < 2 || m.full(1) || m.rules.Closed {
		return false
	}
	read, version := maps.Clone(m.members), m.version
	m.serve([]*request{{c: free[0], session: free[0].session, action: Join}})
	m.members, m.version = read, version
	m.serve([]*request{{c: free[1], session: free[1].session, action: Join}})
	return true
}

func (m *simulation) publish(done []Change) {
	for _, c := range m.clients {
		now, member := m.members[c.user]
		overtakes := rapid.IntRange(0, 3).Draw(m.t, "overtakes") == 0
		if c.events && (member && now.session == c.session || overtakes) {
			c.queue = append(c.queue, step{user: c.user, session: c.session, what: "changed",
				event: Event{"e", m.version, m.version - 1, heardBy(c.user, done)}})
		}
		if reason := m.removed(c, done); reason != "" {
			c.queue = append(c.queue, step{user: c.user, session: c.session, what: "lost", action: reason})
		}
		if !member || now.session != c.session {
			c.events = false
		}
	}
}

func (m *simulation) answer(r *request, outcome string) {
	c := r.c
	if r.session != c.session {
		return // that connection is gone
	}
	s := step{user: c.user, session: c.session, list: m.lists[m.version], q: r.q, there: m.there(r.q)}
	switch now, member := m.members[c.user]; {
	case outcome != "":
		s.what = outcome
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
func (m *simulation) grace() {
	for _, c := range m.clients {
		if now, member := m.members[c.user]; member && now.session != c.session {
			m.serve([]*request{{c: c, session: now.session, action: Leave, given: true}})
			return
		}
	}
}

func (m *simulation) freeSeat() int {
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

// list returns the room as it is.
func (m *simulation) list() List {
	rules := m.rules
	l := List{Epoch: "e", Version: m.version, Count: len(m.members), Data: m.data, Settings: &rules}
	for _, user := range slices.Sorted(maps.Keys(m.members)) {
		now := m.members[user]
		l.Users = append(l.Users, Member{user, now.seat, now.away, now.ready, now.data})
	}
	return l
}

func (m *simulation) final() RoomState {
	if m.version == 0 {
		return RoomState{}
	}
	l := m.list()
	return RoomState{Epoch: "e", Version: m.version, Users: l.Users, Data: l.Data, Settings: l.Settings}
}
