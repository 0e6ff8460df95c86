package transport

import (
	"fmt"
	"maps"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/gorilla/websocket"

	"roomd/lockmgr/redistest"
	"roomd/room"
	"roomd/transport/protocol"
)

// oracle is a client of room 42 that checks each frame against what the protocol promises: versions
// without gaps or repeats, nothing of a room that it is not in, and, while it is a member, no room
// without itself.
type oracle struct {
	user   string
	ws     *websocket.Conn
	rivals bool // its user has other connections

	session string // id; only in a bubble

	mu      sync.Mutex
	asked   []string       // guarded by mu: actions without a reply
	gone    bool           // guarded by mu: the connection has ended, as a long outage makes it
	over    bool           // guarded by mu: it has ended because others took all its rooms over
	member  bool           // guarded by mu
	unsure  bool           // guarded by mu: the outcome of a join or leave is not known
	watches bool           // guarded by mu
	losses  int            // guarded by mu: events lost
	epoch   string         // guarded by mu: of seats
	version uint64         // guarded by mu: of seats
	seats   map[string]int // guarded by mu: the room, as the frames tell it
	faults  []string       // guarded by mu
	frames  []string       // guarded by mu: the latest ones
}

func (s *testNode) connectOracle(t *testing.T, user string) *oracle {
	t.Helper()
	ws := s.connectIdle(t, user).ws
	answerPings(ws) // also while a request is being sent
	o := &oracle{user: user, ws: ws}
	if inBubble() {
		synctest.Wait()
		o.session = s.session(t, user)
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		o.read()
	}()
	t.Cleanup(func() {
		_ = ws.Close()
		<-ended
	})
	return o
}

func (o *oracle) read() {
	for {
		_, data, err := o.ws.ReadMessage()
		if err != nil {
			o.mu.Lock()
			defer o.mu.Unlock()
			o.gone, o.over = true, o.rivals && websocket.IsCloseError(err, protocol.CloseReplaced)
			if !o.over && websocket.IsCloseError(err, protocol.CloseReplaced, protocol.CloseTooSlow) {
				o.wrongLocked("the connection ended: %v", err)
			}
			return
		}
		o.mu.Lock()
		if o.frames = append(o.frames, string(data)); len(o.frames) > 8 {
			o.frames = o.frames[1:]
		}
		switch f, err := protocol.DecodeFrame(data); f := f.(type) {
		case *protocol.Reply:
			o.replyLocked(f)
		case *protocol.Event:
			o.eventLocked(f)
		default:
			o.wrongLocked("%v", err)
		}
		o.mu.Unlock()
	}
}

func (o *oracle) wrongLocked(format string, args ...any) {
	o.faults = append(o.faults, fmt.Sprintf("%s: ", o.user)+fmt.Sprintf(format, args...)+fmt.Sprintf(" (the latest frames: %q)", o.frames))
}

// ask sends a request about room 42. more follows the action in the frame.
func (o *oracle) ask(t *testing.T, action, more string) {
	t.Helper()
	o.mu.Lock()
	o.asked = append(o.asked, action)
	o.mu.Unlock()
	err := o.ws.WriteMessage(websocket.TextMessage, fmt.Appendf(nil, `{"id":1,"action":%q,"room":"42"%s}`, action, more))
	o.mu.Lock()
	defer o.mu.Unlock()
	redistest.ErrorIf(t, err != nil && !o.gone, "%s cannot send: %v", o.user, err)
}

func (o *oracle) replyLocked(r *protocol.Reply) {
	action := o.asked[0]
	o.asked = o.asked[1:]
	changes := action == protocol.ActionJoin || action == protocol.ActionLeave
	switch {
	case r.Error != nil && r.Error.Is(protocol.ErrNotMember), r.Error == nil && action == protocol.ActionLeave:
		o.member, o.unsure = false, false
	case r.Error != nil && r.Error.Is(protocol.ErrUnknown) && changes:
		o.member, o.unsure = o.member && action == protocol.ActionJoin, true
	case r.Error != nil && o.rivals && r.Error.Is(protocol.ErrDuplicateUser): // it was replaced before that was read
	case r.Error != nil && r.Error.Is(protocol.ErrUnknown): // a list that lacked the user again: nothing was changed
	case r.Error != nil && !r.Error.Is(protocol.ErrUnavailable) && !r.Error.Is(protocol.ErrBusy) && !r.Error.Is(protocol.ErrRoomFull):
		o.wrongLocked("%s got %v", action, r.Error)
	case r.Error != nil:
	case action == protocol.ActionUnwatch:
		o.watches = false
	default:
		o.member = o.member || action == protocol.ActionJoin
		o.unsure = o.unsure && action != protocol.ActionJoin
		o.watches = o.watches || action == protocol.ActionWatch
		o.listLocked(r.Epoch, r.Version, r.Users)
	}
}

func (o *oracle) eventLocked(e *protocol.Event) {
	if e.Event == protocol.EventNode {
		return
	}
	if !o.member && !o.watches {
		o.wrongLocked("an event of a room in which it is not")
	}
	repeats := e.Epoch == o.epoch && e.Version <= o.version
	switch e.Event {
	case protocol.EventLost:
		o.member, o.losses = false, o.losses+1
		return
	case protocol.EventSnapshot:
		o.listLocked(e.Epoch, e.Version, e.Users)
	case protocol.EventChanges:
		o.changeLocked(e)
	}
	if repeats {
		o.wrongLocked("a version comes again")
	}
}

func (o *oracle) changeLocked(e *protocol.Event) {
	if e.From == 0 && e.Epoch != o.epoch {
		o.epoch, o.version, o.seats = e.Epoch, 0, make(map[string]int)
	}
	if e.Epoch != o.epoch || e.From != o.version {
		o.wrongLocked("a gap behind version %d", o.version)
	}
	for _, c := range e.Changes {
		switch c.Type {
		case protocol.ChangeJoin:
			o.seats[c.User] = c.Seat
		case protocol.ChangeLeave:
			if c.User == o.user && o.member {
				o.wrongLocked("a member sees its own leave")
			}
			delete(o.seats, c.User)
		}
	}
	o.version = e.Version
	o.checkLocked()
}

func (o *oracle) listLocked(epoch string, version uint64, users []protocol.Seated) {
	o.epoch, o.version, o.seats = epoch, version, make(map[string]int)
	for _, u := range users {
		o.seats[u.User] = u.Seat
	}
	o.checkLocked()
}

func (o *oracle) checkLocked() {
	if _, in := o.seats[o.user]; o.member && !in {
		o.wrongLocked("a member sees a room without itself: %v", o.seats)
	}
}

// report reports what was wrong.
func (o *oracle) report(t *testing.T) {
	t.Helper()
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, fault := range o.faults {
		t.Error(fault)
	}
}

// knows returns nil if all requests have their reply and the client knows a room as it is.
func (o *oracle) knows(now room.Snapshot) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	seats := seatsOf(now)
	_, in := seats[o.user]
	switch {
	case o.gone:
		return nil
	case len(o.asked) > 0:
		return fmt.Errorf("%s waits for replies to %v", o.user, o.asked)
	case !o.unsure && o.member != in && !(o.rivals && in):
		return fmt.Errorf("%s is a member: %v; in the room are %v", o.user, o.member, seats)
	case !o.member && !o.watches:
		return nil
	case o.epoch != now.Epoch || o.version != now.Version || !maps.Equal(o.seats, seats):
		return fmt.Errorf("%s knows %v at version %d; the room holds %v at version %d", o.user, o.seats, o.version, seats, now.Version)
	}
	return nil
}

func seatsOf(s room.Snapshot) map[string]int {
	seats := make(map[string]int)
	for _, u := range s.Users() {
		seats[u.User] = u.Seat
	}
	return seats
}
