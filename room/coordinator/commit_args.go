package coordinator

import (
	"strconv"
	"strings"

	"roomd/room"
)

// commit is one write of one hold: ready to be sent, again if need be.
type commit struct {
	id    string
	event *room.Commit // nil if there is nothing to write
	epoch string       // the room's after it
	mark  string       // by which the room is known after it
	keys  keys
	args  []any // of the script commit.lua

	// Once it is written: why Redis did not take the event, or the entry of the journal, if so.
	unheard, unlogged string
}

// token returns the value that the lock has to hold.
func (c *commit) token() string { return c.args[0].(string) }

// rareArgs are arguments that a commit seldom needs. Their script gets them as one, with
// spaces between. None of them holds a space.
type rareArgs struct {
	next, ttl, epoch, idle string
	fields                 int
	journal                string // empty without one
}

func (r rareArgs) String() string {
	if r == (rareArgs{}) {
		return ""
	}
	args := []string{r.next, r.ttl, r.epoch, r.idle, strconv.Itoa(r.fields), r.journal}
	if r.journal == "" {
		args = args[:5]
	}
	return strings.Join(args, " ")
}

// setsArg is the index of how many members are set, after which come the rare arguments
// and the members.
const setsArg = 8

// prepare turns what was done to a room into the commit of a hold.
func (s *store) prepare(r *room.Room, k keys, h hold) *commit {
	c := &commit{id: r.ID, keys: k, epoch: r.Epoch, mark: markOf(h.token)}
	rare := rareArgs{next: h.next}
	if h.next != "" && !h.onlyQueue {
		rare.ttl = s.ttlMS
	}
	var text, event []byte // text is all that is encoded
	var updates []room.Update
	if r.Changed() {
		if r.Epoch == "" || r.Renewed() {
			c.epoch = newName()
			rare.epoch = c.epoch
		}
		if settings, _ := r.Settings(); r.Count() == 0 && !settings.Keep {
			rare.idle = s.idleMS
		}
		rare.journal = s.journal
		c.event = r.Pending(c.epoch, c.mark, h.who.node)
		updates = c.event.Updates
		text = appendCommit(make([]byte, 0, 128+256*len(updates)), c.event)
		event = text
	}
	fields := metaFields(r, updates)
	rare.fields = len(fields)
	c.args = make([]any, 0, setsArg+2+2*len(updates)+len(fields))
	c.args = append(c.args, h.token, r.Mark, h.who.by, r.Version+1, event, k.channel, r.Base(), r.Count(), nil, rare.String())
	sets := 0
	for i := range updates {
		user := updates[i].User
		if m, ok := r.Member(user); ok && updates[i].OfMember() {
			from := len(text)
			text = appendMember(text, m)
			c.args = append(c.args, user, text[from:])
			sets++
		}
	}
	c.args[setsArg] = sets
	for i := range updates {
		user := updates[i].User
		if _, ok := r.Member(user); !ok && updates[i].OfMember() {
			c.args = append(c.args, user)
		}
	}
	c.args = append(c.args, fields...)
	return c
}

// Fields of Meta that few rooms have.
const (
	fieldSettings = "settings"
	fieldData     = "data"
	fieldBans     = "bans"
	fieldGone     = "gone"
)

// metaFields returns the fields of Meta that updates of the room write, and their values.
func metaFields(r *room.Room, updates []room.Update) (fields []any) {
	var settled, data, bans bool
	for i := range updates { // by index: they are large, and seldom any is of the room
		switch updates[i].Type {
		case room.KindSettings, room.KindDefaults:
			settled = true
		case room.KindData:
			data = true
		case room.KindBan:
			bans = true
		}
	}
	if settled {
		settings, _ := r.Settings()
		fields = append(fields, fieldSettings, rare(settings))
	}
	if data {
		fields = append(fields, fieldData, rare(r.Data()))
	}
	if bans {
		fields = append(fields, fieldBans, rare(r.Bans()))
	}
	if r.GoneChanged() {
		fields = append(fields, fieldGone, rare(r.Gone()))
	}
	return fields
}

// markOf returns the mark of the commit under a token: the end of its UUID, 62 random
// bits. The commit's script takes the same.
func markOf(token string) string { return token[max(0, len(token)-17):] }
