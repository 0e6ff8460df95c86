package relay

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/redis/go-redis/v9"

	"roomd/lockmgr/redisconn"
	"roomd/room"
	"roomd/room/coordinator/internal/keys"
	"roomd/room/coordinator/internal/store"
)

const (
	page     = 100       // entries read from a journal at once
	behind   = 1000      // entries read from the end of a journal that has lost some
	maxBytes = 512 << 10 // approximate size of one append
)

// place is the position in a room's journal up to which it is copied.
type place struct {
	id string // id of the journal's entry; "" if nothing is copied
	room.Position
}

func (p place) String() string {
	if p.id == "" {
		return ""
	}
	return strings.Join([]string{p.id, p.Epoch, strconv.FormatUint(p.Version, 10), p.CommitID}, " ")
}

// parsePlace parses the result of String. If it cannot, it returns the zero place.
func parsePlace(text string) (p place) {
	if parts := strings.Split(text, " "); len(parts) == 4 {
		p.id, p.Epoch, p.CommitID = parts[0], parts[1], parts[3]
		p.Version, _ = strconv.ParseUint(parts[2], 10, 63)
	}
	return p
}

// news are a room's entries for one append.
type news struct {
	id   string
	was  string // the place in Redis
	now  place
	args []any // kind, at and text of each entry
	size int
}

func (n *news) add(kind, at, text string) {
	n.args = append(n.args, kind, at, text)
	n.size += len(text)
}

// copy appends new entries of these rooms' journals to the feed. It returns the rooms that may have more to copy.
func (r *Relay) copy(ctx context.Context, ids []string) (again []string, err error) {
	known, err := r.places(ctx, ids)
	if err != nil {
		return nil, err
	}
	messages, err := r.readAll(ctx, ids, func(p redis.Pipeliner, i int) *redis.XMessageSliceCmd {
		from := "-"
		if at := parsePlace(known[i]); at.id != "" {
			from = at.id // if this entry is missing, others may be, too
		}
		return p.XRangeN(ctx, r.store.Room(ids[i], keys.Log), from, "+", page)
	})
	if err != nil {
		return nil, err
	}
	var batch []*news
	size := 0
	send := func() error {
		refused, err := r.append(ctx, batch)
		again = append(again, refused...)
		batch, size = nil, 0
		return err
	}
	for i, id := range ids {
		if len(messages[i]) == page {
			again = append(again, id)
		}
		n, err := r.newsOf(ctx, id, known[i], messages[i])
		if err != nil {
			return nil, err
		}
		if n.now == parsePlace(n.was) {
			continue
		}
		batch, size = append(batch, n), size+n.size
		if size > maxBytes {
			if err := send(); err != nil {
				return nil, err
			}
		}
	}
	return again, send()
}

// places returns the place of each room, as Redis has it.
func (r *Relay) places(ctx context.Context, ids []string) (known []string, err error) {
	var values []any
	err = redisconn.UntilMoved(ctx, func() error {
		values, err = r.store.Client.HMGet(ctx, r.keys.Rooms, ids...).Result()
		redisconn.SeekMaster(ctx, r.store.Client, err)
		return err
	})
	for _, value := range values {
		text, _ := value.(string)
		known = append(known, text)
	}
	return known, err
}

// readAll reads the journals of rooms in one round trip: read sends the command for ids[i]. A foreign value counts as
// empty.
func (r *Relay) readAll(ctx context.Context, ids []string,
	read func(p redis.Pipeliner, i int) *redis.XMessageSliceCmd) ([][]redis.XMessage, error) {
	cmds := make([]*redis.XMessageSliceCmd, len(ids))
	_, err := r.store.Client.Pipelined(ctx, func(p redis.Pipeliner) error {
		for i := range ids {
			cmds[i] = read(p, i)
		}
		return nil
	})
	if err != nil && !redis.HasErrorPrefix(err, "WRONGTYPE") {
		redisconn.SeekMaster(ctx, r.store.Client, err)
		return nil, err
	}
	messages := make([][]redis.XMessage, len(ids))
	for i, cmd := range cmds {
		if err := cmd.Err(); err != nil && !redis.HasErrorPrefix(err, "WRONGTYPE") {
			return nil, err
		}
		messages[i] = cmd.Val()
	}
	return messages, nil
}

// newsOf turns entries of a room's journal, from the known place on, into entries of the feed.
func (r *Relay) newsOf(ctx context.Context, id, known string, messages []redis.XMessage) (*news, error) {
	n := &news{id: id, was: known, now: parsePlace(known)}
	there, adjacent := n.now.begins(messages) // adjacent: nothing was skipped between the place and the next message
	if there {
		messages = messages[1:]
	} else if known != "" { // the entry at the place is gone
		behind, found, err := r.goneBack(ctx, id, n.now)
		if err != nil {
			return nil, err
		}
		if adjacent = found; found || len(messages) == 0 {
			messages = behind
		}
	}
	for _, m := range messages {
		c, _, err := store.ParseEntry(m)
		if err != nil {
			r.broken.Happened(fmt.Errorf("entry %s: %w", m.ID, err), "room", id)
			n.now.id = m.ID // it is skipped
			adjacent = false
			continue
		}
		if !n.now.follows(c, adjacent) {
			n.add("gap", m.ID, gapText(n.now.Position, c.Position))
		}
		text, _ := m.Values[store.JournalField].(string)
		n.add("commit", m.ID, text)
		n.now, adjacent = place{m.ID, c.Position}, true
	}
	return n, nil
}

// begins reports whether the first message is the entry at the place, and whether that entry can be read: if not, it
// was skipped.
func (p place) begins(messages []redis.XMessage) (there, commit bool) {
	if len(messages) == 0 || messages[0].ID != p.id {
		return false, false
	}
	c, _, err := store.ParseEntry(messages[0])
	// Another commit may have this id, if a server lost the journal's end and the next server's clock was behind.
	same := err == nil && c.CommitID == p.CommitID
	return err != nil || same, same
}

// follows reports whether no commit is missing between the place and c. A commit names the previous one, also the
// first commit of an epoch that continues an earlier epoch. A new room's first commit names none. adjacent: c is the
// next entry of the journal.
func (p place) follows(c *room.Commit, adjacent bool) bool {
	switch {
	case p.id == "":
		return c.Prev == ""
	case c.Prev != "" && c.Prev == p.CommitID:
		return true
	case c.Epoch == p.Epoch:
		return false
	}
	return adjacent
}

// goneBack reads the end of a journal that has lost the entry at p. found reports that there is an earlier entry of
// p's epoch; messages then begin after it. New entries may have smaller ids than p, by the clock of another server.
func (r *Relay) goneBack(ctx context.Context, id string, p place) (messages []redis.XMessage, found bool, err error) {
	all, err := r.readAll(ctx, []string{id}, func(pipe redis.Pipeliner, _ int) *redis.XMessageSliceCmd {
		return pipe.XRevRangeN(ctx, r.store.Room(id, keys.Log), "+", "-", behind)
	})
	if err != nil {
		return nil, false, err
	}
	messages = all[0]
	slices.Reverse(messages)
	for i, m := range slices.Backward(messages) {
		if c, _, err := store.ParseEntry(m); err == nil && c.Epoch == p.Epoch && c.Version <= p.Version {
			return messages[i+1:], true, nil // the feed has later commits of this epoch, up to p
		}
	}
	return messages, false, nil
}

// append appends to the feed. It skips and returns the rooms whose places in Redis are not news.was.
func (r *Relay) append(ctx context.Context, batch []*news) (refused []string, err error) {
	if len(batch) == 0 {
		return nil, nil
	}
	args := []any{r.keep}
	for _, n := range batch {
		args = append(append(args, n.id, n.was, n.now.String(), len(n.args)/3), n.args...)
	}
	reply, err := r.store.Run(ctx, AppendScript, []string{r.keys.Entries, r.keys.Rooms}, args...)
	for _, id := range reply {
		if id, ok := id.(string); ok {
			refused = append(refused, id)
		}
	}
	return refused, err
}

// Gap marks missing commits of a room, between After and Before. After is zero if the feed has nothing of the room
// before the gap.
type Gap struct {
	After  room.Position `json:"after"`
	Before room.Position `json:"before"`
}

func gapText(after, before room.Position) string {
	text, _ := json.Marshal(Gap{after, before})
	return string(text)
}

var errEntry = errors.New("an entry of the feed is not as roomd writes it")
