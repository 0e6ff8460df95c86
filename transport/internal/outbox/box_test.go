package outbox

import (
	"bytes"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"

	"roomd/room"
	"roomd/transport/internal/frames"
	"roomd/transport/protocol"
)

// box is an outbox with rooms by their ids.
type box struct {
	*Outbox
	byID   map[string]*Room
	events map[string]*room.Event // by their words
	wanted []string               // ids of rooms whose snapshots are due
}

func newBox(start func(), max int) *box {
	out := New(max)
	out.OnDemand(start)
	return &box{Outbox: out, byID: make(map[string]*Room), events: make(map[string]*room.Event)}
}

func (o *box) push(e *room.Event) bool { return o.byID[e.Room] == nil || o.byID[e.Room].Push(e) }

// play carries out steps, separated by semicolons, about room 42, or about 43 behind "43: ". A position
// is a version, in epoch e unless another one is before it, or none: "new 1".
//
//	open, hold, release, end, pause, resume
//	change 4 5, leave 4, 900x 4   events: of anybody, of the member a, and of a name of 900 characters that leaves
//	snapshot new 1                the room at a position
//	list 3, listed 3              a reply with a list; listed releases the room as well
//	reply 9, answer new 6         a reply without a list, at the end, and in its place; doubtful: before the event 5
//	lacking leave 5               an event that shows the room without the member, and a pause
//	restart e 6                   the room is known; without: the client need not be told
//	lose leave 5                  the seat is lost by an event; watching: the user watches; found: by a request
//
// What is said twice is the same event.
func (o *box) play(t *testing.T, steps string) {
	t.Helper()
	for step := range strings.SplitSeq(steps, "; ") {
		id, words, other := strings.Cut(step, ": ")
		if !other {
			id, words = "42", step
		}
		what, rest, _ := strings.Cut(words, " ")
		o.step(id, what, strings.Fields(rest))
	}
}

func (o *box) step(id, what string, words []string) {
	option := func(name string) bool {
		before := len(words)
		words = slices.DeleteFunc(words, func(word string) bool { return word == name })
		return len(words) < before
	}
	r := o.byID[id]
	switch what {
	case "open": // behind what is left of an earlier one
		if r == nil {
			o.byID[id] = new(o.Room(func() { o.wanted = append(o.wanted, id) }))
		}
		o.byID[id].End()
		o.byID[id].Gate(true, false)
		o.byID[id].Begin(room.Viewer{User: "a"})
	case "hold":
		r.Gate(true, r.paused)
	case "release":
		r.Gate(false, r.paused)
	case "end":
		r.End()
	case "resume":
		r.Gate(r.held, false)
	case "list", "listed":
		epoch, version := parsed(words)
		list := &protocol.Reply{ID: new(int64), Room: id, Epoch: epoch, Version: version,
			State: protocol.State{Users: []protocol.Seated{}}}
		r.ReplyList(room.Position{Epoch: epoch, Version: version}, frames.Reply(list))
		if what == "listed" {
			r.Gate(false, r.paused)
		}
	case "reply":
		o.Push(replyAt(parsed(words)))
	case "answer":
		var doubtful []*room.Event
		if option("doubtful") {
			doubtful = []*room.Event{o.event(id, "change", "3"), o.event(id, "change", "5")}
		}
		epoch, version := parsed(words)
		r.Reply(room.Position{Epoch: epoch, Version: version}, replyAt(epoch, version), doubtful)
	case "pause":
		r.Gate(r.held, true)
	case "lacking":
		e := o.event(id, words...)
		r.Lack(e)
		o.push(e)
		r.Gate(r.held, true)
	case "restart":
		told := !option("without")
		r.Restart(o.event(id, append([]string{"snapshot"}, words...)...), told, false)
		r.Gate(r.held, false)
	case "lose":
		watching, found := option("watching"), option("found")
		var by []*room.Event
		if e := o.event(id, words...); e != nil {
			by = append(by, e)
		}
		r.Lose(by, watching, found, frames.Event(&protocol.Event{Event: protocol.EventLost, Room: id}))
	case "snapshot":
		o.push(o.event(id, append([]string{what}, words...)...))
	default:
		for _, version := range words {
			o.push(o.event(id, what, version))
		}
	}
}

// change is the event that somebody has joined.
func change(version uint64) *room.Event {
	return &room.Event{Room: "42", Epoch: "e", Version: version, From: version - 1,
		Changes: []room.Change{{Type: room.KindJoin, User: fmt.Sprint("u", version), Seat: int(version)}}}
}

// event returns the event of a kind, at a position; nil for no words.
func (o *box) event(id string, words ...string) *room.Event {
	key := id + fmt.Sprint(words)
	if len(words) == 0 || o.events[key] != nil {
		return o.events[key]
	}
	epoch, version := parsed(words[1:])
	e := change(version)
	e.Room, e.Epoch = id, epoch
	switch kind := words[0]; kind {
	case "snapshot":
		e.From, e.Changes, e.Snapshot = 0, nil, &room.Snapshot{Epoch: epoch, Version: version}
	case "change":
	case "leave":
		e.Changes = []room.Change{{Type: room.KindLeave, User: "a", Seat: 1}}
	default:
		long, err := strconv.Atoi(strings.TrimSuffix(kind, "x"))
		if err != nil {
			panic("no event " + kind)
		}
		e.Changes = []room.Change{{Type: room.KindLeave, User: strings.Repeat("x", long), Seat: 1}}
	}
	o.events[key] = e
	return e
}

func parsed(words []string) (epoch string, version uint64) {
	epoch = "e"
	if len(words) > 1 {
		epoch = strings.TrimSuffix(words[0], "none")
	}
	version, err := strconv.ParseUint(words[len(words)-1], 10, 64)
	if err != nil {
		panic(err)
	}
	return epoch, version
}

// replyAt is the reply to a request about another room.
func replyAt(epoch string, version uint64) []byte {
	return frames.Reply(&protocol.Reply{ID: new(int64), Room: "43", Epoch: "e", Version: version})
}

// written describes what a writer would write now.
func written(o *box) string {
	var parts []string
	for {
		reply, events := o.Next()
		switch {
		case reply != nil:
			switch f, _ := protocol.DecodeFrame(reply[bytes.IndexByte(reply, '{'):]); f := f.(type) {
			case *protocol.Reply:
				parts = append(parts, fmt.Sprint("reply ", f.Version))
			case *protocol.Event:
				parts = append(parts, f.Event)
			}
		case events != nil:
			var versions []string
			for _, e := range events {
				sign := ""
				if e.Snapshot != nil {
					sign = "="
				}
				versions = append(versions, fmt.Sprint(sign, e.Version))
			}
			parts = append(parts, "events "+strings.Join(versions, "+"))
		default:
			for _, id := range o.wanted {
				parts = append(parts, "snapshot of "+id+" wanted")
			}
			o.wanted = nil
			return strings.Join(parts, ", ")
		}
	}
}

// What waits is counted as what the client may see by then.
func TestSetViewer(t *testing.T) {
	o := New(1 << 20)
	r := o.Room(nil)
	r.Begin(room.Viewer{User: "b"})
	deal := func(version uint64) *room.Event {
		return &room.Event{Room: "42", Epoch: "e", Version: version, From: version - 1,
			Changes: []room.Change{{Type: "private", User: "a", Detail: &room.Detail{Data: bytes.Repeat([]byte("1"), 2000)}}}}
	}
	r.Push(deal(1))
	player := o.Kept()
	r.SetViewer(room.Viewer{User: "b", Authority: true})
	r.Push(deal(2))
	admin := o.Kept()
	r.SetViewer(room.Viewer{User: "b"})
	if again := o.Kept(); player > 200 || admin < 4000 || again != 2*player {
		t.Errorf("one event counts as %d bytes, two for an admin as %d, and for a player as %d", player, admin, again)
	}
	r.SetViewer(room.Viewer{User: "b", Authority: true})
	o.Next()
	o.Written()
	if left := o.Kept(); left != 0 {
		t.Errorf("%d bytes are counted of nothing", left)
	}
}
