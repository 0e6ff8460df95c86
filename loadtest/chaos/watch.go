package chaos

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"roomd/loadtest/check"
	"roomd/lockmgr/redisconn/pause"
	"roomd/transport/client"
)

const (
	lookTimeout = time.Second
	emptyWithin = eviction + grace + 10*time.Second
	endTimeout  = 2 * time.Minute
)

// sample is the state at a moment.
type sample struct {
	at      time.Duration
	ghosts  int // members whose player is gone; -1: Redis did not say
	members int
}

// keyOf returns a key of a room.
func (r *run) keyOf(room, kind string) string {
	if r.cfg.Profile == Cluster {
		room = "{" + room + "}"
	}
	return r.cfg.KeyPrefix + "Room:" + room + ":" + kind
}

// watch samples until ctx ends.
func (r *run) watch(ctx context.Context) {
	rdb := r.store.client()
	for ctx.Err() == nil {
		s := r.sample(ctx, rdb)
		r.mu.Lock()
		if s.ghosts < 0 && len(r.samples) > 0 {
			s.ghosts, s.members = r.samples[len(r.samples)-1].ghosts, r.samples[len(r.samples)-1].members
		}
		r.samples = append(r.samples, s)
		r.mu.Unlock()
		r.tell(false)
		_ = pause.For(ctx, sampleEvery)
	}
}

// sample looks who is in the rooms.
func (r *run) sample(ctx context.Context, rdb redis.UniversalClient) sample {
	ctx, cancel := context.WithTimeout(ctx, lookTimeout)
	defer cancel()
	living := make(map[string]bool)
	for _, p := range r.players {
		name, _ := p.believes("")
		living[name] = true
	}
	s := sample{at: r.history.now()}
	for _, room := range r.allRooms() {
		users, err := rdb.HKeys(ctx, r.keyOf(room, "Users")).Result()
		if err != nil {
			s.ghosts = -1
			return s
		}
		s.members += len(users)
		for _, user := range users {
			if !living[user] && !strings.HasPrefix(user, "guest ") {
				s.ghosts++
			}
		}
	}
	return s
}

// settle waits until every player who is connected knows its rooms as Redis has them, and all timers have fired: events have
// reached all. Then it reads each room at each node.
func (r *run) settle(ctx context.Context) error {
	r.enter("nobody acts: events arrive")
	ctx, cancel := context.WithTimeout(ctx, endTimeout)
	defer cancel()
	behind := ""
	for end := time.Now().Add(r.cfg.Recover); ; {
		var err error
		if behind, err = r.behind(ctx); err != nil {
			behind = err.Error()
		}
		if behind == "" {
			break
		}
		if due := time.UnixMilli(r.lastDue).Add(r.cfg.Recover); due.After(end) { // it was set while Redis' clock was ahead
			end = due
		}
		if time.Now().After(end) {
			r.problem("events do not arrive, or timers do not fire: %s", behind)
			break
		}
		_ = pause.For(ctx, lookPause)
	}
	return r.readAll(ctx)
}

// behind names a player who does not know a room as Redis has it.
func (r *run) behind(ctx context.Context) (string, error) {
	rdb := r.store.client()
	for _, room := range r.allRooms() {
		at, err := rdb.HMGet(ctx, r.keyOf(room, "Meta"), "epoch", "version", "timers").Result()
		if err != nil {
			return "", err
		}
		if text, _ := at[2].(string); text != "" {
			var set struct {
				Timers map[string]struct{ Due int64 }
			}
			if err := json.Unmarshal([]byte(text), &set); err != nil {
				return "", err
			}
			for name, timer := range set.Timers {
				r.lastDue = max(r.lastDue, timer.Due)
				return fmt.Sprintf("timer %s of room %s has not fired", name, room), nil
			}
		}
		for _, p := range r.players {
			if name, knows, in := p.knows(room); in && knows != fmt.Sprint(at[0], " ", at[1]) {
				member, err := rdb.HExists(ctx, r.keyOf(room, "Users"), name).Result()
				return fmt.Sprintf("%s is told of room %s at %q, and Redis has it at %v (a member: %v)", name, room, knows, at[:2], member), err
			}
		}
	}
	return "", nil
}

// knows returns at which epoch and version a connected player knows a room of which it is a member.
func (p *player) knows(room string) (name, at string, in bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	place := p.rooms[room]
	if p.conn == nil || place == nil || p.conn.Err() != nil {
		return p.name, "", false
	}
	return p.name, fmt.Sprint(place.epoch, " ", place.version), true
}

// readAll asks each node for each room: the last operations of the history.
func (r *run) readAll(ctx context.Context) error {
	for i, n := range r.nodes {
		c, err := client.Dial(ctx, "ws://"+n.process.Addr()+"/ws", client.Options{User: "observer"})
		if err != nil {
			return err
		}
		for _, room := range r.allRooms() {
			op := &check.Op{Process: fmt.Sprintf("observer %d", i+1), Node: i + 1, Room: room, Action: check.Read}
			r.history.call(op)
			reply, err := c.Users(ctx, room)
			answer(op, reply, err)
			r.history.returned(op, false)
			if err != nil {
				r.problem("at the end node %d does not answer for room %s: %v", i+1, room, err)
			}
		}
		c.Close()
	}
	return nil
}

// leave lets all players go, and waits until the rooms are empty.
func (r *run) leave(ctx context.Context) {
	r.enter("everybody leaves")
	for _, p := range r.players {
		p.disconnect()
	}
	for _, p := range r.players {
		p.closes.Wait()
	}
	rdb := r.store.client()
	for end := time.Now().Add(emptyWithin); ; {
		left := r.left(ctx, rdb)
		if left == "" {
			return
		}
		if time.Now().After(end) {
			r.problem("%v after everybody had left, %s", emptyWithin, left)
			return
		}
		_ = pause.For(ctx, lookPause)
	}
}

// left names what is left of a room that everybody has left: members, or a lock.
func (r *run) left(ctx context.Context, rdb redis.UniversalClient) string {
	for _, room := range r.allRooms() {
		users, err := rdb.HKeys(ctx, r.keyOf(room, "Users")).Result()
		if err != nil {
			return err.Error()
		}
		if len(users) > 0 {
			return fmt.Sprintf("%q are in room %s", users, room)
		}
		if holder, _ := rdb.Get(ctx, r.lockOf(room)).Result(); holder != "" {
			return fmt.Sprintf("%s holds the lock of room %s", holder, room)
		}
	}
	return ""
}

// journals reads the journals of all rooms.
func (r *run) journals(ctx context.Context, h *check.History) error {
	ctx, cancel := context.WithTimeout(ctx, endTimeout)
	defer cancel()
	h.Rooms, h.Journals = r.allRooms(), make(map[string][]check.Entry)
	for _, room := range h.Rooms {
		list, err := r.journal(ctx, room)
		if err != nil {
			return err
		}
		if len(list) == 0 {
			list = r.kept[room]
		}
		h.Journals[room] = list
	}
	return nil
}

// keepEvery is how often the journals of rooms that matches began are read during a run: an hour after such a room is gone its journal is, too.
const keepEvery = 20 * time.Minute

// keep reads the journals of rooms that may be gone when the run is over.
func (r *run) keep(ctx context.Context) {
	for pause.For(ctx, keepEvery) == nil {
		r.mu.Lock()
		matched := slices.Clone(r.matched)
		r.mu.Unlock()
		for _, room := range matched {
			if list, err := r.journal(ctx, room); err == nil && len(list) > 0 {
				r.kept[room] = list
			}
		}
	}
}

// journal reads the journal of a room.
func (r *run) journal(ctx context.Context, room string) (list []check.Entry, err error) {
	messages, err := r.store.client().XRange(ctx, r.keyOf(room, "Log"), "-", "+").Result()
	if err != nil {
		return nil, fmt.Errorf("journal of room %s: %w", room, err)
	}
	for _, m := range messages {
		text, _ := m.Values["commit"].(string)
		e, err := entryOf(text)
		if err != nil {
			return nil, fmt.Errorf("journal of room %s, entry %s: %w", room, m.ID, err)
		}
		list = append(list, e)
	}
	return list, nil
}

// entryOf reads an entry of a journal.
func entryOf(text string) (check.Entry, error) {
	var in struct {
		Epoch, Mark string
		Version     uint64
		Changes     []struct {
			Type, User, Session, Reason, Text, Target string
			Seat                                      int
			Data                                      json.RawMessage
			Ready                                     *bool
			To                                        []string
			Settings                                  *check.Settings
			Timer                                     struct {
				Name string
				Due  int64
			}
		}
	}
	if err := json.Unmarshal([]byte(text), &in); err != nil {
		return check.Entry{}, err
	}
	e := check.Entry{Epoch: in.Epoch, Version: in.Version, Mark: in.Mark}
	for _, c := range in.Changes {
		if c.Type == "message" || c.Type == "data" {
			c.Seat = 0 // clients are not told
		}
		e.Changes = append(e.Changes, check.Change{
			Type: c.Type, User: c.User, Seat: c.Seat, Reason: c.Reason, Text: c.Text, Target: c.Target,
			Data: plain(c.Data), Ready: c.Ready, To: c.To, Settings: c.Settings,
			Name: c.Timer.Name, Set: c.Timer.Due > 0,
			Away: c.Type == "join" && strings.HasPrefix(c.Session, detached),
		})
	}
	return e, nil
}

// detached is how the session of a reserved seat begins.
const detached = "~"

// plain returns the string that JSON is. Players set nothing else, and "null" says that there is nothing any more.
func plain(data []byte) string {
	var s *string
	if len(data) == 0 || json.Unmarshal(data, &s) != nil || s == nil {
		return string(data)
	}
	return *s
}
