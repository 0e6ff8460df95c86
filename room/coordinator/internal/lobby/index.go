package lobby

import (
	"cmp"
	"context"
	_ "embed"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

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

// keysOf returns the keys of the index, except those of labels.
func keysOf(names keys.Space) []string {
	return []string{names.Lobby("Rooms"), names.Lobby("Changed"), names.Lobby("Gone"), names.Lobby("State")}
}

// Listed is a room in a [List].
type Listed struct {
	ID       string
	Members  int
	Capacity int // number of seats; 0 means room.MaxSeats
	Closed   bool
	Labels   room.Labels
	Since    int64 // when the room first got into the index, in ms since 1970 by Redis' clock; 0 if it is not there yet

	Epoch   string
	Version uint64
}

// Free returns the number of free seats.
func (l *Listed) Free() int { return max(0, room.Settings{Capacity: l.Capacity}.Seats()-l.Members) }

// noEpoch is the epoch of a room that Claim has created in the index, until a player joins it.
const noEpoch = "-"

// change is a room's state after a commit.
type change struct {
	Listed
	listed bool      // it belongs in the list
	saved  time.Time // when this node wrote it, by our clock; zero before
}

func (c *change) put(args []any) []any {
	rest, free := "", 0
	if c.listed {
		closed := "0"
		if c.Closed {
			closed = "1"
		} else {
			free = c.Free()
		}
		rest = strconv.Itoa(c.Members) + " " + strconv.Itoa(c.Capacity) + " " + closed + " " + textOf(c.Labels)
	}
	return append(args, &c.ID, &c.Epoch, &c.Version, rest, free)
}

// parseChange reads the index's text about a room, listed or removed (labels have no blanks). It fails for other text.
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

// index is the part of the lobby in Redis, shared by all nodes.
type index struct {
	store *store.Store
	keys  []string
}

// noteChunk is the number of rooms written per request, which takes Redis about a millisecond.
const noteChunk = 100

func (x *index) note(ctx context.Context, rooms []*change) error {
	for len(rooms) > 0 {
		n := min(noteChunk, len(rooms))
		args, labels := make([]any, 0, 5*n), make([]string, n)
		for i, c := range rooms[:n] {
			args, labels[i] = c.put(args), textOf(c.Labels)
		}
		if _, err := x.run(ctx, noteScript, nil, labels, args...); err != nil {
			return err
		}
		rooms = rooms[n:]
	}
	return nil
}

const readChunk = 1000

// known identifies the state of the index that a copy has.
type known struct {
	run    string // names the life of the index, which ends when Redis is restarted or replaced
	number string // of the last change
}

// run runs a script on the index, with some more keys, and those of labels. Rooms in the index may have other labels:
// their list ends the reply, and run runs the script again with their keys, too.
func (x *index) run(ctx context.Context, script *store.Script, more, labels []string, args ...any) ([]any, error) {
	for {
		keys := slices.Concat(x.keys, more)
		for _, text := range slices.Compact(slices.Sorted(slices.Values(labels))) {
			keys = append(keys, x.store.Lobby("Free:"+text))
		}
		reply, err := x.store.Run(ctx, script, keys, args...)
		if err != nil {
			return nil, err
		}
		missing, _ := reply[len(reply)-1].([]any)
		if len(missing) == 0 {
			return reply, nil
		}
		for _, text := range missing {
			labels = append(labels, fmt.Sprint(text))
		}
	}
}

// textOf returns labels in the index's form, which is never empty.
func textOf(labels room.Labels) string { return cmp.Or(string(labels), "{}") }

// changes reads the changes of the index after the state since, by room. now is the state of a copy with them. anew:
// they replace the whole copy. whole: the index has all rooms.
func (x *index) changes(ctx context.Context, since known) (changed map[string]*change, now known, whole, anew bool,
	err error) {
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
