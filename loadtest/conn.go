package loadtest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"
	"unique"

	"github.com/gorilla/websocket"

	"roomd/loadtest/check"
	"roomd/room"
	"roomd/transport/protocol"
)

const (
	writeTimeout = 10 * time.Second // of a frame

	// closeWait is how long a node may take to close a connection.
	closeWait = 5 * time.Second
)

// errEnded says that the connection ended before the reply.
var errEnded = errors.New("the connection ended")

// conn is a player's connection, with one request at a time. A goroutine reads it.
type conn struct {
	socket  *websocket.Conn
	next    int64 // id of the next request
	replies chan *message
	done    chan struct{} // closed at the end of the connection
	why     error         // reason of the end; read it after done is closed
	once    sync.Once
}

// dial connects user, with token unless that is empty. The end of ctx cancels the attempt. The reading goroutine calls
// heard with each reply and event in order.
func dial(ctx context.Context, address, user, token string, d *decoder, heard func(*message)) (*conn, error) {
	dialer := websocket.Dialer{Subprotocols: []string{protocol.Subprotocol}}
	header := http.Header{}
	if token != "" {
		header.Set("Authorization", "Bearer "+token)
	}
	socket, resp, err := dialer.DialContext(ctx, address+"?user="+url.QueryEscape(user), header)
	if err != nil {
		if resp != nil {
			err = fmt.Errorf("HTTP %s: %w", resp.Status, err)
		}
		return nil, err
	}
	c := &conn{socket: socket, replies: make(chan *message, 1), done: make(chan struct{})}
	go c.read(d, heard)
	return c, nil
}

// read reads until the connection ends. It reuses its memory.
func (c *conn) read(d *decoder, heard func(*message)) {
	defer close(c.done)
	defer c.socket.Close()
	var frame bytes.Buffer
	for {
		kind, from, err := c.socket.NextReader()
		if err == nil && kind != websocket.TextMessage {
			err = errors.New("the server sent a frame that is not text")
		}
		frame.Reset()
		if err == nil {
			_, err = frame.ReadFrom(from)
		}
		var m *message
		if err == nil {
			m, err = d.decode(frame.Bytes())
		}
		if err != nil {
			c.why = err
			return
		}
		heard(m)
		if m.reply != nil {
			select {
			case c.replies <- m:
			default: // it answers no request; heard reports that
			}
		}
	}
}

func (c *conn) over() bool {
	select {
	case <-c.done:
		return true
	default:
		return false
	}
}

// do sends a request and waits for its reply, which may be a refusal. After an error the server may have
// carried out the request.
func (c *conn) do(ctx context.Context, r protocol.Request) (*message, error) {
	r.ID = c.next
	c.next++
	_ = c.socket.SetWriteDeadline(time.Now().Add(writeTimeout))
	if err := c.socket.WriteMessage(websocket.TextMessage, protocol.AppendRequest(nil, &r)); err != nil {
		_ = c.socket.Close()
		<-c.done
		return nil, fmt.Errorf("%w: %w", errEnded, c.why)
	}
	select {
	case m := <-c.replies:
		if m.reply.ID == nil || *m.reply.ID != r.ID {
			return nil, fmt.Errorf("not the reply to request %d: %+v", r.ID, *m.reply)
		}
		return m, nil
	case <-c.done:
		return nil, fmt.Errorf("%w: %w", errEnded, c.why)
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// Close sends a close frame, so that the server frees the connection at once, and waits for the reader. A
// second call does nothing.
func (c *conn) Close() {
	c.once.Do(func() {
		bye := websocket.FormatCloseMessage(websocket.CloseNormalClosure, "")
		_ = c.socket.WriteControl(websocket.CloseMessage, bye, time.Now().Add(time.Second))
		select {
		case <-c.done:
		case <-time.After(closeWait):
			_ = c.socket.Close()
		}
	})
	<-c.done
}

// message is a frame from a node in the checkers' form. Others may share it, so it must not be changed.
type message struct {
	reply *protocol.Reply
	list  *check.List // in a reply

	event *protocol.Event
	frame *check.Frame // in an event about a room
}

// maxKept limits the bytes of frames in kept, and in old.
const maxKept = 16 << 20

// decoder decodes frames. It decodes only once what many players get: the events of a room, and the lists after
// joins in the same commit. In a large room that is nearly everything.
type decoder struct {
	mu        sync.Mutex
	kept, old map[string]*message // guarded by mu; by the frame's bytes
	size      int                 // guarded by mu; bytes in kept
}

// listStart starts the last part of a reply with a list. Inside a string it would have backslashes.
var listStart = []byte(`,"users":[`)

// decode decodes a frame, which it does not keep.
func (d *decoder) decode(frame []byte) (*message, error) {
	if bytes.HasPrefix(frame, []byte(`{"event":`)) {
		return d.once("", frame)
	}
	if at := bytes.LastIndex(frame, listStart); at > 0 {
		list, err := d.once(`{"event":"snapshot"`, frame[at:])
		if err == nil {
			m, err := decode(append(frame[:at:at], '}'))
			if err == nil && m.reply != nil {
				m.reply.Users = list.event.Users
				m.list = listOf(&m.reply.State, list.frame.List.Users)
				return m, nil
			}
		}
	}
	return decode(frame)
}

// once decodes start and frame as one text, and caches the message by frame.
func (d *decoder) once(start string, frame []byte) (*message, error) {
	d.mu.Lock()
	m := d.kept[string(frame)]
	if m == nil {
		m = d.old[string(frame)]
	}
	d.mu.Unlock()
	if m != nil {
		return m, nil
	}
	m, err := decode(append([]byte(start), frame...))
	if err != nil {
		return nil, err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.kept == nil || d.size > maxKept {
		d.kept, d.old, d.size = make(map[string]*message), d.kept, 0
	}
	d.kept[string(frame)] = m
	d.size += len(frame)
	return m, nil
}

func decode(frame []byte) (*message, error) {
	f, err := protocol.DecodeFrame(frame)
	if err != nil {
		return nil, err
	}
	switch f := f.(type) {
	case *protocol.Reply:
		m := &message{reply: f}
		if f.Users != nil {
			m.list = listOf(&f.State, membersOf(f.Users))
		}
		return m, nil
	case *protocol.Event:
		return &message{event: f, frame: frameOf(f)}, nil
	}
	return nil, errors.New("a frame that is neither a reply nor an event")
}

// frameOf returns the content of an event about a room, or nil.
func frameOf(e *protocol.Event) *check.Frame {
	f := &check.Frame{Room: one(e.Room), Epoch: one(e.Epoch), Version: e.Version}
	switch e.Event {
	case protocol.EventChanges:
		f.From = e.From
		f.Changes = make([]check.Change, len(e.Changes))
		for i := range e.Changes {
			f.Changes[i] = ChangeOf(&e.Changes[i])
		}
	case protocol.EventSnapshot:
		f.List = listOf(&e.State, membersOf(e.Users))
	case protocol.EventLost:
		f.Lost = e.Reason
	default:
		return nil
	}
	return f
}

// one returns the one copy in memory of a name that occurs often.
func one(name string) string { return unique.Make(name).Value() }

func membersOf(users []protocol.Seated) []check.Member {
	list := make([]check.Member, len(users))
	for i, u := range users {
		list[i] = check.Member{User: one(u.User), Seat: u.Seat, Away: u.Away, Ready: u.Ready, Data: Plain(u.Data)}
	}
	return list
}

func listOf(s *protocol.State, users []check.Member) *check.List {
	l := &check.List{Users: users, Data: Plain(s.Data), Settings: settingsOf(s.Settings), Host: one(s.Host),
		Timers: slices.Sorted(maps.Keys(s.Timers))}
	for user, data := range s.Private {
		if l.Private == nil {
			l.Private = make(map[string]string)
		}
		l.Private[user] = Plain(data)
	}
	return l
}

func settingsOf(s *room.Settings) (settings check.Settings) {
	if s == nil {
		return settings
	}
	return check.Settings{Capacity: s.Capacity, Closed: s.Closed, Labels: check.Labels(one(string(s.Labels))),
		Host: strings.TrimPrefix(string(s.Host), noHost)}
}

// ChangeOf converts a change to the checkers' form.
func ChangeOf(c *protocol.Change) check.Change {
	change := check.Change{
		Type: c.Type, User: one(c.User), Seat: c.Seat, Away: c.Away, Reason: c.Reason, Text: c.Text,
		Target: c.To.Room, To: c.To.Users, Ready: c.Ready, Data: Plain(c.Data), Name: c.Name, Set: c.In != nil,
	}
	if c.Settings != nil {
		settings := settingsOf(c.Settings)
		change.Settings = &settings
	}
	return change
}
