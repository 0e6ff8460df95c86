package lobby

import (
	"cmp"
	"context"
	_ "embed"
	"fmt"
	"strconv"
	"strings"

	"roomd/room"
	"roomd/room/coordinator/internal/keys"
	"roomd/room/coordinator/internal/store"
)

var (
	//go:embed lua/index.lua
	indexLua string
	//go:embed lua/note.lua
	noteLua string
	//go:embed lua/changes.lua
	changesLua string
	//go:embed lua/search.lua
	searchLua string
	//go:embed lua/searched.lua
	searchedLua string
	//go:embed lua/claim.lua
	claimLua string
	//go:embed lua/unclaim.lua
	unclaimLua string

	// The scripts on the index.
	noteScript     = store.NewScript(noteLua, indexLua)
	changesScript  = store.NewScript(changesLua, indexLua)
	searchScript   = store.NewScript(searchLua, indexLua)
	searchedScript = store.NewScript(searchedLua, indexLua)
	claimScript    = store.NewScript(claimLua, indexLua)
	unclaimScript  = store.NewScript(unclaimLua, indexLua)
)

// keysOf returns the keys of the index; the last one is what the keys of free seats begin with. See lua/index.lua.
func keysOf(names keys.Space) []string {
	return []string{names.Lobby("Rooms"), names.Lobby("Changed"), names.Lobby("Gone"), names.Lobby("State"), names.Lobby("Free:")}
}

// Listed is a room in a [List].
type Listed struct {
	ID       string
	Members  int
	Capacity int // how many seats there are; 0 means room.MaxSeats
	Closed   bool
	Labels   room.Labels
	Since    int64 // when the index first had the room, in ms since 1970 by Redis' clock; 0 if it does not yet

	Epoch   string
	Version uint64
}

// Free returns how many seats nobody has.
func (l *Listed) Free() int { return max(0, room.Settings{Capacity: l.Capacity}.Seats()-l.Members) }

// noEpoch is the epoch of a room that somebody is about to begin.
const noEpoch = "-"

// change is a room as a commit has left it.
type change struct {
	Listed
	listed bool // it is in the list
}

// put appends what note.lua gets of the room.
func (c *change) put(args []any) []any {
	rest, free := "", 0
	if c.listed {
		closed := 0
		if c.Closed {
			closed = 1
		} else {
			free = c.Free()
		}
		rest = fmt.Sprint(c.Members, " ", c.Capacity, " ", closed, " ", textOf(c.Labels))
	}
	return append(args, c.ID, c.Epoch, c.Version, rest, free)
}

// parseChange reads what the index has of a room, and of one that is not there. Labels are without blanks.
func parseChange(id, text string) (c *change, err error) {
	c = &change{Listed: Listed{ID: id}}
	parts := strings.Split(text, " ")
	if text == "" {
		return c, nil
	} else if len(parts) < 3 || len(parts) > 3 && len(parts) < 7 {
		return nil, fmt.Errorf("room %s: %q is not as roomd writes it", id, text)
	}
	c.Epoch = parts[0]
	c.Version, err = strconv.ParseUint(parts[1], 10, 63)
	if len(parts) == 3 || err != nil {
		return c, err
	}
	var failed [3]error
	c.Since, failed[0] = strconv.ParseInt(parts[2], 10, 64)
	c.Members, failed[1] = strconv.Atoi(parts[3])
	c.Capacity, failed[2] = strconv.Atoi(parts[4])
	c.Closed, c.listed = parts[5] == "1", c.Epoch != noEpoch
	if parts[6] != "{}" {
		c.Labels = room.Labels(parts[6])
	}
	if failed != [3]error{} {
		return nil, fmt.Errorf("room %s: %q is not as roomd writes it", id, text)
	}
	return c, nil
}

// index is what nodes share.
type index struct {
	store *store.Store
	keys  []string
}

// noteChunk is how many rooms one request notes, which takes Redis about a millisecond.
const noteChunk = 100

// note writes what has become of rooms.
func (x *index) note(ctx context.Context, rooms []*change) error {
	for len(rooms) > 0 {
		n := min(noteChunk, len(rooms))
		args := make([]any, 0, 5*n)
		for _, c := range rooms[:n] {
			args = c.put(args)
		}
		if _, err := x.store.Run(ctx, noteScript, x.keys, args...); err != nil {
			return x.explain(ctx, err, rooms[:n])
		}
		rooms = rooms[n:]
	}
	return nil
}

// readChunk is how many rooms one request reads.
const readChunk = 1000

// known is up to what a copy of the index goes.
type known struct {
	run    string
	number string
}

// explain adds the key to an error of Redis that is about seats by the labels of rooms.
func (x *index) explain(ctx context.Context, err error, rooms []*change) error {
	var free []string
	for _, c := range rooms {
		free = append(free, x.freeKey(c.Labels))
	}
	return x.store.Explain(ctx, err, free...)
}

// freeKey returns the key of the free seats in rooms with those labels.
func (x *index) freeKey(labels room.Labels) string {
	return x.keys[len(x.keys)-1] + textOf(labels)
}

// textOf returns labels as the index has them: never empty.
func textOf(labels room.Labels) string { return cmp.Or(string(labels), "{}") }

// changes reads what has changed in the index. Anew says that what was known before does not count; whole, that all
// rooms are in.
func (x *index) changes(ctx context.Context, since known) (changed map[string]*change, now known, whole, anew bool, err error) {
	changed, now = make(map[string]*change), since
	if now.number == "" {
		now.number = "0"
	}
	for heard := now.number; ; {
		reply, err := x.store.Run(ctx, changesScript, x.keys, now.run, now.number, readChunk, heard)
		if err != nil {
			return nil, now, false, false, err
		}
		if reply[2] == int64(1) {
			anew, now.number = true, "0"
			heard, _ = reply[3].(string)
			clear(changed)
		}
		now.run, _ = reply[0].(string)
		whole = reply[1] == int64(1)
		rooms := reply[4:]
		for i := 0; i+2 < len(rooms); i += 3 {
			id, _ := rooms[i].(string)
			text, _ := rooms[i+1].(string)
			now.number, _ = rooms[i+2].(string)
			if changed[id], err = parseChange(id, text); err != nil {
				return nil, now, false, false, err
			}
		}
		if len(rooms) < 3*readChunk {
			return changed, now, whole, anew, nil
		}
	}
}
