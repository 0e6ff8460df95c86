package session

import (
	"context"
	"errors"
	"slices"
	"time"

	"roomd/room"
	"roomd/transport/auth"
	"roomd/transport/internal/frames"
	"roomd/transport/internal/membership"
	"roomd/transport/internal/outbox"
	"roomd/transport/protocol"
)

// presence is the state of a session in one room: its membership, its watch, the queue of the room's events, and the
// recovery of its place. The first line that applies decides what happens to events (gateLocked):
//
//	the queue is   while                                                    the events
//	ended          the session is no member and does not watch              are dropped (needsEvents)
//	held           a request about the room runs (Session.serving)          come behind its reply
//	paused         the membership asks or acts (Status.IsPaused)            wait for the recovery
//	stale          too many events have waited (outbox.Room.Missed)         give way to a snapshot (refill)
//	open           otherwise                                                are written
//
// Requests that may change the membership and actions of the recovery take turns:
//
//	control, beginAction busy: events that concern the user are deferred, and a move into the room is noted (moved)
//	JoinReply, Answer    the membership changes; loseLocked tells the client of a loss, and ends the queue
//	end, endAction       settleLocked: deferred events are judged, then the move; then a recovery starts if the
//	                     membership is to ask or act, or nobody needs the events; otherwise the queue goes on
type presence struct {
	session *Session
	room    string

	// Guarded by session.mu.

	membership membership.Membership
	watch      watching

	queue       outbox.Room
	unsubscribe func() // ends the subscription; nil without one

	busy     int           // running requests that may change the membership, plus running actions of the recovery
	deferred []*room.Event // events that came while busy; the result decides how to judge them
	moved    bool          // the user was moved into the room while busy
	told     room.Gone     // the loss that the client was told of before it followed a move, or zero
	recovery *recovery     // nil unless one runs
}

// watching is the state of a session's watch on a room.
type watching struct {
	on    bool
	since room.Position  // the version in the reply to watch
	rule  room.WatchRule // who may watch, by settings and bans; admins are exempt
}

// isUnused reports whether the session has no relation to the room.
func (p *presence) isUnused() bool {
	return p.membership.Status == membership.Outside && !p.watch.on && p.unsubscribe == nil && p.busy == 0 &&
		p.recovery == nil && p.session.serving != p.room
}

// needsEvents reports whether the client gets the room's events.
func (p *presence) needsEvents() bool { return p.membership.Status.IsMember() || p.watch.on }

// hasIdleEvents reports whether the subscription has to end, because neither a member nor a watcher needs it.
func (p *presence) hasIdleEvents() bool {
	return p.unsubscribe != nil && !p.needsEvents()
}

// gateLocked makes the queue held, paused or open, as the table says.
func (p *presence) gateLocked() {
	p.queue.Gate(p.session.serving == p.room, p.membership.Status.IsPaused())
}

// subscribe subscribes to the room's events, or makes the queue accept them again after a loss. begun says that the
// queue did not accept them before. Only requests, which hold the events until the reply, and recoveries call it, one
// at a time. It fails as Rooms.Watch.
func (p *presence) subscribe() (begun bool, err error) {
	s := p.session
	s.mu.Lock()
	if p.hasIdleEvents() {
		p.queue.End()
	}
	begun = p.queue.Begin(s.viewer(p.room))
	p.gateLocked()
	s.mu.Unlock()
	if p.unsubscribe != nil {
		return begun, nil
	}
	unsubscribe, err := s.shared.Rooms.Watch(s.shared.Watching.Context(), p.room, p.receive)
	s.mu.Lock()
	defer s.mu.Unlock()
	if err != nil {
		p.queue.End()
		if errors.Is(err, context.DeadlineExceeded) {
			return false, errors.Join(room.ErrUnavailable, err)
		}
		return false, err
	}
	p.unsubscribe = unsubscribe
	return begun, nil
}

// endEvents ends the subscription of a session that neither is a member nor watches. It drops queued events.
func (p *presence) endEvents() {
	s := p.session
	s.mu.Lock()
	if !p.hasIdleEvents() {
		s.mu.Unlock()
		return
	}
	unsubscribe := p.unsubscribe
	p.unsubscribe = nil
	p.queue.End()
	s.mu.Unlock()
	unsubscribe()
}

// receive judges an event's effect on the membership, later if busy, and passes the event to the room's queue. The
// coordinator calls it for each event, in order; it does not block.
func (p *presence) receive(e *room.Event) {
	s := p.session
	s.mu.Lock()
	defer s.mu.Unlock()
	concerned := e.Concerns(s.User)
	switch {
	case concerned && p.busy > 0:
		p.deferred = append(p.deferred, e) // only the result tells which of the two is newer
	case concerned:
		p.judgeLocked(e)
	}
	if !e.Rejoin && !p.queue.Push(e) {
		s.shared.Refused(LimitQueue)
	}
	if concerned {
		p.settleLocked()
	}
}

// judgeLocked applies an event to the membership and to the watch.
func (p *presence) judgeLocked(e *room.Event) {
	heeds := p.watch.heed(e, p.session.User) // first: a loss checks the watch's rule
	if lost := p.membership.Event(e); lost != nil {
		p.loseLocked(lost, e, false)
	} else if p.membership.Status.NeedsList() {
		p.queue.Lack(e)
	}
	if heeds {
		p.tellLocked(e, false, p.endWatchLocked())
	}
}

// heed updates the watch's rule by an event. It reports whether the event may end the watch.
func (w *watching) heed(e *room.Event, user string) bool {
	if !w.on || e.Epoch == w.since.Epoch && e.Version <= w.since.Version {
		return false
	}
	w.rule = w.rule.After(e, user)
	return true
}

// loseLocked tells the client why its session has lost its place, and follows a move. by is the event that shows the
// loss, or nil. replying says that a reply comes next, to the request that found the loss.
func (p *presence) loseLocked(lost *membership.Loss, by *room.Event, replying bool) {
	s := p.session
	if lost.Gone != (room.Gone{}) && lost.Gone == p.told {
		return // the client knows of this loss, and was no member since
	}
	if p.told = (room.Gone{}); p.moved { // the session follows, and may find this loss again
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
	case s.serving == p.room: // the client learns of the other room after the request
		s.toFollow = append(s.toFollow, lost.Target)
	default:
		s.followLocked(lost.Target)
	}
	if lost.Reason == membership.ReasonReplaced {
		time.AfterFunc(LastRoomWait, s.endIfNothingLeft)
	}
}

// LastRoomWait is how long a connection that has lost its last room to a newer session stays open: for requests
// already sent, such as joins of its other rooms after a reconnect.
const LastRoomWait = time.Second

// endIfNothingLeft closes the connection of a replaced session that is in no room, watches none, and follows no move.
// While a request or a recovery may still join, it looks again later.
func (s *Session) endIfNothingLeft() {
	if s.closeIfNothingLeft() {
		s.conn.End(protocol.CloseReplaced, "replaced by a newer session")
	}
}

func (s *Session) closeIfNothingLeft() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed || len(s.toFollow) > 0 {
		return false
	}
	for _, p := range s.presences {
		if p.busy > 0 { // with a request or an action that may still join
			time.AfterFunc(LastRoomWait, s.endIfNothingLeft)
			return false
		}
		if p.membership.Status.MayBeMember() || p.watch.on || p.moved {
			return false
		}
	}
	s.closed = true
	return true
}

// tellLocked queues the last events about the room, if any is not nil. The queue ends after them, unless the client
// watches. by and replying are as in loseLocked.
func (p *presence) tellLocked(by *room.Event, replying bool, last ...*protocol.Event) {
	var written [][]byte
	for _, e := range last {
		if e != nil {
			written = append(written, frames.Event(e))
		}
	}
	doubtful := p.deferred // events from before the loss was known, which may show it
	if by != nil {
		doubtful = []*room.Event{by}
	}
	if len(written) > 0 {
		p.queue.Lose(doubtful, p.watch.on, replying, written...)
	}
}

// endWatchLocked ends a non-member's watch that the token or, unless the client is an admin, the room forbids. It
// returns the event for the client, or nil.
func (p *presence) endWatchLocked() *protocol.Event {
	s := p.session
	why := p.watch.rule.Check(p.room, s.User, s.shared.Now())
	identity := s.access.identity()
	if identity.Role == auth.RoleAdmin {
		why = nil
	}
	if identity.May(auth.Watch, p.room, false) != nil {
		why = room.ErrForbidden
	}
	if p.membership.Status.IsMember() || why == nil || !p.watch.on {
		return nil
	}
	p.watch.on = false
	return &protocol.Event{Event: protocol.EventUnwatched, Room: p.room, Reason: ErrorOf(why).Code}
}

// followLocked makes the session follow its user into a room. The client gets the room's snapshot, or is told that
// there is no seat. The limit of rooms does not apply: the session has left another one.
func (s *Session) followLocked(id string) {
	if s.closed {
		return
	}
	p := s.presenceLocked(id)
	p.moved, p.told = true, room.Gone{}
	p.settleLocked()
}

// settleLocked brings the presence up to date after a change of the membership, the watch or busy: unless busy, it
// judges deferred events and a move, then removes an unused presence, or starts a recovery if one is needed.
func (p *presence) settleLocked() {
	s := p.session
	for p.busy == 0 && len(p.deferred) > 0 {
		e := p.deferred[0]
		p.deferred = slices.Delete(p.deferred, 0, 1)
		p.judgeLocked(e)
	}
	if p.busy == 0 && p.moved {
		p.moved = false
		p.membership.Take(membership.Moved)
	}
	p.gateLocked()
	switch {
	case p.busy > 0 || s.closed:
	case p.isUnused():
		delete(s.presences, p.room)
	case p.membership.Status.IsPaused() || p.hasIdleEvents():
		p.startRecoveryLocked()
	}
}

// presenceLocked returns the session's presence in a room, a new one if there is none.
func (s *Session) presenceLocked(id string) *presence {
	p := s.presences[id]
	if p == nil {
		p = &presence{session: s, room: id, membership: membership.Of(s.User, s.ID)}
		p.queue = s.out.Room(func() { s.refillLocked(p) })
		s.presences[id] = p
	}
	return p
}

// errReplaced refuses a request that was sent before the close frame, but run after a newer session had taken over
// this one's last room. A join would seat a client that is told not to connect again.
var errReplaced = protocol.NewError(protocol.CodeDuplicateUser,
	"a newer session of the user has taken over the last room of this one; nothing was written")

// control gives a request exclusive control of the presence in a room: it cancels a running recovery and waits for it,
// and none starts before end. It returns errReplaced if a newer session has taken over this one's last room.
func (s *Session) control(id string) (*presence, error) {
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

func (p *presence) end() {
	s := p.session
	s.mu.Lock()
	defer s.mu.Unlock()
	p.busy--
	p.settleLocked()
}

func (p *presence) status() membership.Status {
	p.session.mu.Lock()
	defer p.session.mu.Unlock()
	return p.membership.Status
}
