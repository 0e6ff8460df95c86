package session

import (
	"context"
	"errors"
	"time"

	"roomd/room"
	"roomd/transport/internal/frames"
	"roomd/transport/internal/membership"
	"roomd/transport/internal/outbox"
	"roomd/transport/protocol"
)

// presence is the state of a session in one room: what it is there, as a member and as a watcher, the queue of its
// events, and the node's recovery of its place. What the client gets of the room's events is this, and the first line
// that applies counts:
//
//	the queue is   while                                                    the events
//	ended          the session is no member and does not watch              are dropped (needsEvents)
//	held           a request about the room runs (Session.serving)          come behind its reply
//	paused         the membership asks or acts (Status.IsPaused)            wait for the recovery
//	stale          more events wait than may (outbox.Room.Missed)           give way to a snapshot (refill)
//	open           otherwise                                                are written
//
// Requests that may change the membership and actions of the recovery take turns:
//
//	begin, beginAction   busy: events that concern the user are deferred, and a move into the room is noted (moved)
//	JoinReply, Answer    the membership changes; loseLocked tells the client of a loss, and ends the queue
//	end, endAction       settleLocked: the deferred events count now, then the move; then a recovery begins if the
//	                     membership is to ask or act, or nobody needs the events; otherwise the queue goes on
type presence struct {
	session *Session
	room    string

	// Guarded by session.mu.

	membership membership.Membership
	watch      watching

	queue       *outbox.Room // constant
	unsubscribe func()       // ends the events; nil without them

	busy     int           // requests that may change the membership, and actions of the recovery, that run
	deferred []*room.Event // came meanwhile; the result says how to judge them
	moved    bool          // meanwhile the user was moved into the room
	told     room.Gone     // the loss of which the client heard before that move was followed, or zero
	recovery *recovery     // nil if none runs
}

// isUnused reports whether the session has nothing to do with the room.
func (p *presence) isUnused() bool {
	return p.membership.Status == membership.Outside && !p.watch.on && p.unsubscribe == nil && p.busy == 0 &&
		p.recovery == nil && p.session.serving != p.room
}

// needsEvents reports whether the session gets the room's events.
func (p *presence) needsEvents() bool { return p.membership.Status.IsMember() || p.watch.on }

// hasIdleEvents reports whether the room's events have to end, because the session has lost what they were for.
func (p *presence) hasIdleEvents() bool {
	return p.unsubscribe != nil && !p.needsEvents()
}

// subscribe starts the room's events, if they have not begun, or a loss has ended them. While a request about the room
// runs they are held until its reply. Only requests and recoveries call it, and not at the same time.
func (p *presence) subscribe() (begun bool, err error) {
	s := p.session
	s.mu.Lock()
	if p.hasIdleEvents() {
		p.queue.End(true)
	}
	begun = p.queue.Begin(s.viewer(p.room))
	p.afterLocked(nil, nil)
	s.mu.Unlock()
	if p.unsubscribe != nil {
		return begun, nil
	}
	unsubscribe, err := s.shared.Rooms.Watch(s.shared.Watching.Context(), p.room, p.receive)
	s.mu.Lock()
	defer s.mu.Unlock()
	if err != nil {
		p.queue.End(false)
		if errors.Is(err, context.DeadlineExceeded) {
			return false, errors.Join(room.ErrUnavailable, err)
		}
		return false, err
	}
	p.unsubscribe = unsubscribe
	return begun, nil
}

// endEvents ends the room's events, unless the session is a member or watches. Events that are
// queued are still written if sendQueued is true, and dropped if not.
func (p *presence) endEvents(sendQueued bool) {
	s := p.session
	s.mu.Lock()
	unsubscribe := p.unsubscribe
	if unsubscribe == nil || p.needsEvents() {
		s.mu.Unlock()
		return
	}
	p.unsubscribe = nil
	s.mu.Unlock()
	unsubscribe()
	p.queue.End(sendQueued)
}

// receive is where an event of a room enters a connection: it judges what the event says of the session's own place,
// and passes it on to the room's queue. The room calls it for each event, in order; it does not block.
func (p *presence) receive(e *room.Event) {
	s := p.session
	if !e.Concerns(s.User) {
		p.push(e)
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if p.busy > 0 {
		p.deferred = append(p.deferred, e) // only the result says which of the two is newer
		p.push(e)                          // the queue is held or paused until then
		return
	}
	p.judgeLocked(e)
	p.push(e)
	p.settleLocked()
}

func (p *presence) push(e *room.Event) {
	if !e.Rejoin && !p.queue.Push(e) {
		p.session.shared.Refused(LimitQueue)
	}
}

// judgeLocked does what an event asks for, as to the session's place and its watch.
func (p *presence) judgeLocked(e *room.Event) {
	heeds := p.watch.heed(e, p.session.User) // before a loss asks who may watch
	p.afterLocked(p.membership.Event(e), e)
	if heeds {
		p.tellLocked(e, false, p.endWatchLocked())
	}
}

// afterLocked does what follows from a step of the membership, which e, if not nil, has caused.
func (p *presence) afterLocked(lost *membership.Loss, e *room.Event) {
	switch {
	case lost != nil:
		p.loseLocked(lost, e, false)
	case p.membership.Status.IsPaused():
		if !p.membership.Status.NeedsList() {
			e = nil
		}
		p.queue.Pause(e)
	}
}

// loseLocked tells the client that its session is not in the room any more, and why. A session that was
// moved goes after its user. replying says that the reply to a request that found the loss follows at once.
func (p *presence) loseLocked(lost *membership.Loss, by *room.Event, replying bool) {
	s := p.session
	if lost.Gone != (room.Gone{}) && lost.Gone == p.told {
		return // the session has not been in the room since
	}
	if p.told = (room.Gone{}); p.moved { // perhaps before that
		p.told = lost.Gone
	}
	why := &protocol.Event{
		Event: protocol.EventLost, Room: p.room, Reason: string(lost.Reason), Text: lost.Text, To: lost.Target,
	}
	if lost.Refusal != nil {
		why.Reason = ErrorOf(lost.Refusal).Code
		s.shared.Logs.Lost.Happened(lost.Refusal, "room", p.room, "user", s.User)
	}
	p.tellLocked(by, replying, why, p.endWatchLocked())
	switch {
	case lost.Target == "":
	case s.serving == p.room: // the client hears of the loss when the request has ended, and then of the other room
		s.toFollow = append(s.toFollow, lost.Target)
	default:
		s.followLocked(lost.Target)
	}
	if lost.Reason == membership.ReasonReplaced {
		time.AfterFunc(LastRoomWait, s.endIfNothingLeft)
	}
}

// LastRoomWait is how long a connection that has lost its last room to a newer session stays open: for requests that
// its client has sent before it knew, such as those that join its other rooms after a reconnect.
const LastRoomWait = time.Second

// endIfNothingLeft closes the connection of a session that has lost a room to a newer one, if it has nothing to do with
// any room: it is in none, watches none, and none is on its way to it.
func (s *Session) endIfNothingLeft() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed || len(s.toFollow) > 0 {
		return
	}
	for _, p := range s.presences {
		if p.busy > 0 { // with a request of which nobody knows what it leads to
			time.AfterFunc(LastRoomWait, s.endIfNothingLeft)
			return
		}
		if p.membership.Status.MayBeMember() || p.watch.on || p.moved {
			return
		}
	}
	s.closed = true
	s.conn.End(protocol.CloseReplaced, "replaced by a newer session")
}

// tellLocked tells the client what it hears of the room at last, unless it watches. Nil events say nothing.
func (p *presence) tellLocked(by *room.Event, replying bool, last ...*protocol.Event) {
	var written [][]byte
	for _, e := range last {
		if e != nil {
			written = append(written, frames.Event(e))
		}
	}
	doubtful := p.deferred // which came before that was known, and may show it
	if by != nil {
		doubtful = []*room.Event{by}
	}
	if len(written) > 0 {
		p.queue.Lose(doubtful, p.watch.on, replying, written...)
	}
}

// followLocked makes the session a member of the room to which its user was moved. The client gets a snapshot of that
// room, or hears that there is no seat. The limit of rooms does not count: the session has left another one.
func (s *Session) followLocked(id string) {
	if s.closed {
		return
	}
	p := s.presenceLocked(id)
	p.moved, p.told = true, room.Gone{}
	p.moveLocked()
	p.settleLocked()
}

// moveLocked lets a move into the room count, unless something else runs.
func (p *presence) moveLocked() {
	if p.moved && p.busy == 0 {
		p.moved = false
		p.membership.Take(membership.Moved)
		p.afterLocked(nil, nil)
	}
}

// settleLocked is called when the membership may have changed: what came while it was being changed
// counts now. Then it starts a recovery if one is needed, and else lets the room's events go on.
func (p *presence) settleLocked() {
	s := p.session
	if p.busy > 0 {
		return
	}
	for len(p.deferred) > 0 {
		e := p.deferred[0]
		p.deferred = p.deferred[1:]
		p.judgeLocked(e)
	}
	p.deferred = nil
	p.moveLocked()
	switch {
	case s.closed:
	case p.isUnused():
		delete(s.presences, p.room)
	case p.membership.Status.IsPaused():
		p.afterLocked(nil, nil)
		p.startRecoveryLocked()
	case p.hasIdleEvents():
		p.startRecoveryLocked()
	default:
		p.queue.Resume()
	}
}

// presenceLocked returns the session's presence in a room, a new one if there is none.
func (s *Session) presenceLocked(id string) *presence {
	p := s.presences[id]
	if p == nil {
		p = &presence{session: s, room: id, membership: membership.Of(s.User, s.ID)}
		p.queue = s.out.Room(id, s.serving == id)
		s.presences[id] = p
	}
	return p
}

// begin gives a request of the client exclusive control of the session's presence in the room: a
// recovery that runs is cancelled and waited for, and no other starts before end. It returns
// errReplaced if another session has taken over the last room of this one.
func (s *Session) begin(id string) (*presence, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	p := s.presenceLocked(id)
	p.busy++
	if running := p.recovery; running != nil {
		s.mu.Unlock()
		running.cancel()
		<-running.done
		s.mu.Lock()
	}
	if s.closed {
		p.busy--
		return nil, errReplaced
	}
	return p, nil
}

// end ends what begin began.
func (p *presence) end() {
	s := p.session
	s.mu.Lock()
	defer s.mu.Unlock()
	p.busy--
	p.settleLocked()
}

// status returns what the session is to the room.
func (p *presence) status() membership.Status {
	p.session.mu.Lock()
	defer p.session.mu.Unlock()
	return p.membership.Status
}
