package transport

import (
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/gorilla/websocket"

	"roomd/lockmgr/redistest"
	"roomd/room"
	"roomd/room/coordinator"
	"roomd/transport/protocol"
)

// rivalSession is one of several sessions of a user. It keeps what the server tells it.
type rivalSession struct {
	user    string
	ws      *websocket.Conn
	replies chan *protocol.Reply
	ended   chan struct{}

	mu      sync.Mutex
	in      bool           // guarded by mu: the server says that it is a member
	listed  bool           // guarded by mu: epoch, version and list are set
	epoch   string         // guarded by mu
	version uint64         // guarded by mu
	list    map[string]int // guarded by mu: seats
	fault   error          // guarded by mu: the first violation
}

func connectRivalSession(t *testing.T, s *testNode, user string) *rivalSession {
	c, _, err := s.dial(t, "/ws?user="+user, nil)
	if err != nil {
		t.Error(err)
		return nil
	}
	r := &rivalSession{user: user, ws: c.ws, replies: make(chan *protocol.Reply, 1), ended: make(chan struct{})}
	go r.read()
	return r
}

func (r *rivalSession) read() {
	defer close(r.ended)
	for {
		_, data, err := r.ws.ReadMessage()
		if err != nil {
			if closed := (*websocket.CloseError)(nil); errors.As(err, &closed) && closed.Code != protocol.CloseReplaced {
				r.wrong("closed: %v", err)
			}
			return
		}
		frame, err := protocol.DecodeFrame(data)
		if err != nil {
			r.wrong("%v", err)
			return
		}
		switch f := frame.(type) {
		case *protocol.Event:
			r.event(f)
		case *protocol.Reply:
			r.reply(f)
			r.replies <- f
		}
	}
}

func (r *rivalSession) wrong(format string, args ...any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.wrongLocked(format, args...)
}

func (r *rivalSession) wrongLocked(format string, args ...any) {
	if r.fault == nil {
		r.fault = fmt.Errorf(r.user+": "+format, args...)
	}
}

func (r *rivalSession) reply(f *protocol.Reply) {
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case f.Error != nil && f.Error.Is(protocol.ErrNotMember), f.Error == nil && f.Users == nil:
		r.in, r.listed = false, false
	case f.Error == nil:
		r.in = true
		r.setLocked(f.Epoch, f.Version, f.Users)
	}
}

func (r *rivalSession) event(f *protocol.Event) {
	r.mu.Lock()
	defer r.mu.Unlock()
	switch f.Event {
	case protocol.EventLost:
		r.in, r.listed = false, false
	case protocol.EventSnapshot:
		r.setLocked(f.Epoch, f.Version, f.Users)
	default:
		if r.listed && (f.Epoch != r.epoch || f.From != r.version) {
			r.wrongLocked("at version %d of %s got %+v", r.version, r.epoch, f)
		}
		for _, c := range f.Changes {
			if c.Type == protocol.ChangeJoin {
				r.list[c.User] = c.Seat
			} else {
				delete(r.list, c.User)
			}
		}
		r.version = f.Version
	}
}

func (r *rivalSession) setLocked(epoch string, version uint64, users []protocol.Seated) {
	r.listed, r.epoch, r.version, r.list = true, epoch, version, map[string]int{}
	for _, u := range users {
		r.list[u.User] = u.Seat
	}
}

// ask returns the reply to a request, or nil if the connection has ended.
func (r *rivalSession) ask(t *testing.T, action string) *protocol.Reply {
	if err := r.ws.WriteMessage(websocket.TextMessage, []byte(`{"id":1,"action":"`+action+`","room":"42"}`)); err != nil {
		<-r.ended
		return nil
	}
	select {
	case f := <-r.replies:
		return f
	case <-r.ended:
		select {
		case f := <-r.replies:
			return f
		default:
			return nil
		}
	case <-time.After(20 * time.Second):
		t.Errorf("%s: no reply to %s", r.user, action)
		return nil
	}
}

func (r *rivalSession) isOpen() bool {
	select {
	case <-r.ended:
		return false
	default:
		return true
	}
}

// rivalry is what was acknowledged to the sessions.
type rivalry struct {
	mu     sync.Mutex
	rivals []*rivalSession    // guarded by mu
	last   map[string]lastAck // guarded by mu: by user
}

// lastAck is the acknowledged action of a user with the highest version.
type lastAck struct {
	version uint64
	by      *rivalSession
	join    bool
}

func (c *rivalry) acknowledged(r *rivalSession, f *protocol.Reply, join bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if f.Version >= c.last[r.user].version {
		c.last[r.user] = lastAck{f.Version, r, join}
	}
}

// play joins and leaves with one session after the other.
func (c *rivalry) play(t *testing.T, nodes []*testNode, user string, random *rand.Rand) {
	var r *rivalSession
	for range 60 {
		if r == nil || !r.isOpen() {
			if r = connectRivalSession(t, nodes[random.IntN(len(nodes))], user); r == nil {
				return
			}
			c.mu.Lock()
			c.rivals = append(c.rivals, r)
			c.mu.Unlock()
		}
		action := protocol.ActionJoin
		if random.IntN(3) == 0 {
			action = protocol.ActionLeave
		}
		switch f := r.ask(t, action); {
		case f == nil:
		case f.Error == nil:
			c.acknowledged(r, f, action == protocol.ActionJoin)
		case f.Error.Is(protocol.ErrDuplicateUser): // it was replaced before the request was read
			if f := r.ask(t, action); f != nil {
				t.Errorf("%s of %s was answered after it had been replaced: %+v", action, user, f)
			}
		case !f.Error.Is(protocol.ErrNotMember) && !f.Error.Is(protocol.ErrUnavailable):
			t.Errorf("%s of %s: %v", action, user, f.Error)
		}
		time.Sleep(time.Duration(random.IntN(8)) * time.Millisecond)
	}
}

// check returns the first difference between what was acknowledged, what the sessions know, and
// the room.
func (c *rivalry) check(s room.Snapshot) error {
	seats := map[string]int{}
	for _, o := range s.Users() {
		seats[o.User] = o.Seat
	}
	for user, last := range c.last {
		if _, in := seats[user]; in != last.join {
			return fmt.Errorf("%s: the last action acknowledged is %+v, and in the room are %v at version %d", user, last, seats, s.Version)
		}
	}
	for _, r := range c.rivals {
		if err := c.checkRival(r, s, seats); err != nil {
			return err
		}
	}
	return nil
}

func (c *rivalry) checkRival(r *rivalSession, s room.Snapshot, seats map[string]int) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	speaks := c.last[r.user].join && c.last[r.user].by == r
	switch open := r.isOpen(); {
	case r.fault != nil:
		return r.fault
	case speaks && !open:
		return fmt.Errorf("%s: the session that was acknowledged last is closed", r.user)
	case !open:
		return nil
	case r.in != speaks:
		return fmt.Errorf("%s: a session believes that it is in: %v, and speaks for the user: %v", r.user, r.in, speaks)
	case r.in && (r.epoch != s.Epoch || r.version != s.Version || !maps.Equal(r.list, seats)):
		return fmt.Errorf("%s: knows %v at version %d, the room is %v at version %d", r.user, r.list, r.version, seats, s.Version)
	}
	return nil
}

// Users with two sessions each join, leave and take over from themselves, on two nodes, while
// the connections for events break again and again. In the end every acknowledged leave stands;
// the session that was acknowledged last speaks for its user and is open; every other one was
// closed with 4001; and every list is what Redis holds.
func TestTakeOver_AtRandom(t *testing.T) {
	t.Parallel()
	nodes := startTwo(t, coordinator.Options{}, Options{})
	seed := rand.Uint64()
	c := &rivalry{last: make(map[string]lastAck)}
	var players sync.WaitGroup
	for i := range 16 {
		players.Go(func() {
			c.play(t, nodes, fmt.Sprint("u", i/2), rand.New(rand.NewPCG(seed, uint64(i))))
		})
	}
	done := make(chan struct{})
	go func() { players.Wait(); close(done) }()
	cuts, rdb := 0, nodes[0].redis
	for playing := true; playing; {
		select {
		case <-done:
			playing = false
		case <-time.After(time.Duration(20+cuts%7*40) * time.Millisecond):
			rdb.ClientKillByFilter(t.Context(), "TYPE", "pubsub")
			cuts++
		}
	}
	err := errors.New("never looked")
	for deadline := time.Now().Add(15 * time.Second); err != nil && time.Now().Before(deadline); time.Sleep(20 * time.Millisecond) {
		s, readErr := nodes[0].rooms.Read(t.Context(), "42")
		redistest.FatalIf(t, readErr != nil, "%v", readErr)
		err = c.check(s)
	}
	redistest.FatalIf(t, err != nil, "seed %d, %d cuts, %d sessions: %v", seed, cuts, len(c.rivals), err)
	for user, last := range c.last {
		if last.join {
			if f := last.by.ask(t, protocol.ActionLeave); f == nil || f.Error != nil {
				t.Errorf("%s: the session that was acknowledged last leaves: %+v", user, f)
			}
		}
	}
	t.Logf("%d cuts, %d sessions", cuts, len(c.rivals))
}
