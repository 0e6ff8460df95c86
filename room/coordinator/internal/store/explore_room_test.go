package store

import (
	"crypto/sha256"
	"fmt"
	"maps"
	"strings"
	"testing"
	"time"

	"roomd/lockmgr/redistest"
	"roomd/room"
)

// copied is a writer's copy of the room. It does not change.
type copied struct {
	at       room.Position
	users    map[string]string
	settings string
	renew    bool // its next commit begins a new epoch
	text     string
}

func copyOf(r *room.Room) *copied {
	c := &copied{at: r.Position, users: make(map[string]string), renew: r.Renewed()}
	for user, m := range r.Members() {
		c.users[user] = string(appendMember(nil, m))
	}
	if settings, settled := r.Settings(); settled {
		c.settings = string(marshal(settings))
	}
	return c.renewing(c.renew)
}

// renewing returns the copy with an epoch that has to end, or does not.
func (c *copied) renewing(renew bool) *copied {
	r := *c
	r.renew = renew
	r.text = fmt.Sprint(r.at, r.users, len(r.settings), r.renew)
	return &r
}

// room returns the copy as a room.
func (c *copied) room(t *testing.T, s *Store) *room.Room {
	members := make(map[string]room.Member)
	for user, text := range c.users {
		m, err := ParseMember(text)
		redistest.OK(t, err)
		members[user] = m
	}
	r := room.NewRoom("a", c.at, members)
	redistest.OK(t, s.restore(r, []any{c.settings, nil, nil, nil, nil, nil}))
	if c.renew {
		r.Renew()
	}
	return r
}

// content is what a commit writes, and after it the copy of its writer.
type content struct {
	actions []string
	args    []any  // of the script, after the token
	base    string // the commit id on which it builds
	writes  bool
	after   *copied
	text    string
}

// action returns what is done to the room: each time that it is done counts.
func action(name string) room.Action {
	if user, ok := strings.CutPrefix(name, "join "); ok {
		return room.Join{User: user, Session: user}
	}
	if name == "look" { // and find that all is as it should be
		return room.SetData{Authority: true}
	}
	return room.Say{Text: name}
}

// prepare makes the commit of a batch. Whatever is random in it gets a name that the order of what happens
// determines: the commit id one of what is written, as it has.
func prepare(t *testing.T, s *Store, from *copied, batch []string, h Hold, id string) *content {
	r := from.room(t, s)
	for _, name := range batch {
		if _, err := r.Apply(action(name), room.Rules{}, room.Origin{Node: h.Node}); err != nil {
			t.Fatal(name, err)
		}
	}
	h.Token, h.Next = long(h.Token), long(h.Next)
	c := s.Prepare(r, s.KeysOf("a"), h)
	made := &content{actions: batch, base: r.CommitID, writes: c.Event != nil}
	names := []string{c.CommitID, c.CommitID}
	if made.writes {
		epoch := c.Epoch
		if c.Epoch != r.Epoch {
			epoch = "e" + id[1:]
			names = append(names, c.Epoch, epoch)
		}
		sum := sha256.Sum256(fmt.Append(nil, r.Position, epoch, h.Node, batch))
		names[1] = fmt.Sprintf("m%x", sum[:4])
		r.Commit(epoch, names[1])
	}
	known := strings.NewReplacer(names...)
	for i, arg := range c.args {
		if text, ok := arg.(*string); ok {
			arg, c.args[i] = *text, *text
		}
		switch arg := arg.(type) {
		case string:
			c.args[i] = known.Replace(arg)
		case []byte:
			c.args[i] = known.Replace(string(arg))
		}
	}
	if h.Token != "" { // with its own token in front
		c.args = c.args[1:]
	}
	c.args[1] = id
	made.args, made.after = c.args, copyOf(r)
	made.text = fmt.Sprint(id, h.Token != "", int(h.OnConflict), short(h.Next), h.OnlyQueue, from.at, from.renew, made.after.at.CommitID, batch)
	return made
}

// read returns the room that a script has answered, as its node reads it.
func read(t *testing.T, s *Store, incarnation string, reply []any) *room.Room {
	s.Servers.mu.Lock()
	s.Servers.known[""] = answer{incarnation: incarnation, at: time.Now()}
	s.Servers.mu.Unlock()
	r, err := s.parseRoom(t.Context(), "a", reply)
	redistest.OK(t, err)
	return r
}

// serverWith returns a Redis with the room that a commit makes of a new one.
func serverWith(t *testing.T, x *executor, s *Store, batch ...string) (*server, *copied) {
	empty := server{incarnation: "i0"}.done()
	none := copyOf(room.NewRoom("a", room.Position{}, map[string]room.Member{}))
	if len(batch) == 0 {
		return empty, none
	}
	c := prepare(t, s, none, batch, Hold{Node: "n9"}, "c9.0")
	known := *empty
	known.meta = map[string]string{byField("n9"): "an earlier commit"}
	after := *x.run(t, known.done(), request{kind: "commit", token: "t9.0", incarnation: "i0", content: c}.named()).server
	after.meta = maps.Clone(after.meta)
	delete(after.meta, byField("n9"))
	for i := range 3 { // the writers' nodes have been in the room
		after.meta[byField(fmt.Sprintf("n%d", i))] = "an earlier commit"
	}
	after.written = nil
	return after.done(), c.after
}
