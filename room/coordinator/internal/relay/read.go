package relay

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/redis/go-redis/v9"

	"roomd/lockmgr/redisconn"
	"roomd/lockmgr/redisconn/pause"
	"roomd/room"
	"roomd/room/coordinator/internal/store"
)

// Entry is an entry of the feed.
type Entry struct {
	ID     string // position in the feed
	Room   string
	Time   time.Time    // of the commit, or of the one after the gap
	Commit *room.Commit // nil for a gap
	Gap    *Gap         // nil for a commit
}

// Read returns at most limit entries: those with larger ids than after, or from the start if after is empty.
// dropped reports that the reader has missed entries: they were trimmed, or Redis lost the end of the feed, and new
// entries came since.
func (r *Relay) Read(ctx context.Context, after string, limit int) (entries []Entry, dropped bool, err error) {
	from := "-"
	if after != "" {
		from = "(" + after
	}
	var some, first, last *redis.XMessageSliceCmd
	var of *redis.SliceCmd
	err = redisconn.UntilMoved(ctx, func() error {
		_, err := r.store.Client.TxPipelined(ctx, func(p redis.Pipeliner) error {
			some = p.XRangeN(ctx, r.keys.Entries, from, "+", int64(limit))
			first, last = p.XRangeN(ctx, r.keys.Entries, "-", "+", 1), p.XRevRangeN(ctx, r.keys.Entries, "+", "-", 1)
			of = p.HMGet(ctx, r.keys.Rooms, "~incarnation")
			return nil
		})
		redisconn.SeekMaster(ctx, r.store.Client, err)
		return err
	})
	if err != nil {
		return nil, false, err
	}
	for _, m := range some.Val() {
		e, err := parseEntry(m)
		if err != nil {
			return nil, false, fmt.Errorf("%s: %w", m.ID, err)
		}
		entries = append(entries, e)
	}
	if after == "" || len(first.Val()) == 0 {
		return entries, false, nil
	}
	dropped = compareIDs(after, before(first.Val()[0].ID)) < 0
	if !dropped && compareIDs(after, last.Val()[0].ID) > 0 {
		// Redis lost the entries before this place, in a restart or failover. The next entry gets an id beyond the
		// place (append.lua), so the reader can wait for it. If Redis has already had an entry since, the place is
		// unknown.
		now, err := r.store.Servers.Incarnation(ctx, r.keys.Entries, false)
		if err != nil {
			return nil, false, err
		}
		dropped = of.Val()[0] == now
	}
	return entries, dropped, nil
}

func parseEntry(m redis.XMessage) (e Entry, err error) {
	text := func(field string) string { s, _ := m.Values[field].(string); return s }
	e.ID, e.Room = m.ID, text("room")
	ms, _, _ := strings.Cut(text("at"), "-")
	at, err := strconv.ParseInt(ms, 10, 64)
	if err != nil || e.Room == "" {
		return e, errEntry
	}
	e.Time = time.UnixMilli(at)
	if gap := text("gap"); gap != "" {
		e.Gap = new(Gap)
		return e, json.Unmarshal([]byte(gap), e.Gap)
	}
	e.Commit, err = store.ParseCommit(text("commit"))
	return e, err
}

func compareIDs(a, b string) int {
	n, m := parseID(a), parseID(b)
	for i := range n {
		if n[i] != m[i] {
			if n[i] < m[i] {
				return -1
			}
			return 1
		}
	}
	return 0
}

// before returns the greatest id below id.
func before(id string) string {
	n := parseID(id)
	if n[1] > 0 {
		return fmt.Sprintf("%d-%d", n[0], n[1]-1)
	}
	return fmt.Sprintf("%d-%d", n[0]-1, lastOfMillisecond)
}

// lastOfMillisecond is a larger count than any entry of a millisecond has, and the largest in a cursor.
const lastOfMillisecond uint64 = 9_999_999_999_999_999_999

func parseID(id string) (n [2]uint64) {
	ms, count, _ := strings.Cut(id, "-")
	n[0], _ = strconv.ParseUint(ms, 10, 64)
	n[1], _ = strconv.ParseUint(count, 10, 64)
	return n
}

// newestAge is how long the waiting readers of this node share one answer about the feed's end.
const newestAge = 10 * time.Millisecond

type newest struct {
	mu sync.Mutex
	id string    // guarded by mu
	at time.Time // guarded by mu
}

// Newest returns the id of the feed's last entry; empty if there is none. It may be newestAge old.
func (r *Relay) Newest(ctx context.Context) (id string, err error) {
	r.newest.mu.Lock()
	defer r.newest.mu.Unlock()
	if time.Since(r.newest.at) < newestAge {
		return r.newest.id, nil
	}
	err = redisconn.UntilMoved(ctx, func() error {
		last, err := r.store.Client.XRevRangeN(ctx, r.keys.Entries, "+", "-", 1).Result()
		redisconn.SeekMaster(ctx, r.store.Client, err)
		if err == nil && len(last) > 0 {
			id = last[0].ID
		}
		return err
	})
	if err == nil {
		r.newest.id, r.newest.at = id, time.Now()
	}
	return id, err
}

// Await waits until the feed has an entry with a larger id than after, or any entry if after is empty.
func (r *Relay) Await(ctx context.Context, after string) error {
	for {
		last, err := r.Newest(ctx)
		if err != nil || last != "" && (after == "" || compareIDs(after, last) < 0) {
			return err
		}
		if err := pause.For(ctx, 2*newestAge); err != nil {
			return err
		}
	}
}

// Listing is a part of the list of rooms known to the feed.
type Listing struct {
	Rooms  []string
	Next   string // continues the list; empty at the end
	Begins bool   // the part is the first: from was empty, or Redis was restarted or replaced
}

// List returns a part of the list, from Next of an earlier part on, or from the start if from is empty. about is
// roughly how many rooms it returns.
func (r *Relay) List(ctx context.Context, from string, about int) (l Listing, err error) {
	cursor, incarnation, known := strings.Cut(from, ".")
	if !known {
		cursor = "0"
	}
	reply, err := r.store.Run(ctx, roomsScript, []string{r.keys.Rooms}, cursor, incarnation, about)
	if err != nil {
		return l, err
	}
	if len(reply) != 4 {
		return l, fmt.Errorf("rooms.lua answered %q", reply)
	}
	if next := fmt.Sprint(reply[0]); next != "0" {
		l.Next = fmt.Sprint(next, ".", reply[1])
	}
	l.Begins = reply[2] == int64(1)
	pairs, _ := reply[3].([]any)
	for i := 0; i+1 < len(pairs); i += 2 {
		if id, _ := pairs[i].(string); room.CheckID(id) == nil {
			l.Rooms = append(l.Rooms, id)
		}
	}
	return l, nil
}

// Begin returns a reader's place. For a new reader it waits until the feed has an entry, and returns the place before
// the first one. It saves that place at once, so that entries dropped before the reader's next Keep are noticed.
func (r *Relay) Begin(ctx context.Context, name string) (place string, err error) {
	for {
		place, err = r.store.Client.HGet(ctx, r.keys.Readers, name).Result()
		redisconn.SeekMaster(ctx, r.store.Client, err)
		if !errors.Is(err, redis.Nil) {
			return place, err
		}
		if err := r.Await(ctx, ""); err != nil {
			return "", err
		}
		first, _, err := r.Read(ctx, "", 1)
		if err == nil && len(first) > 0 {
			err = r.store.Client.HSetNX(ctx, r.keys.Readers, name, before(first[0].ID)).Err()
			redisconn.SeekMaster(ctx, r.store.Client, err)
		}
		if err != nil {
			return "", err
		}
	}
}

// Keep saves a reader's place.
func (r *Relay) Keep(ctx context.Context, name, place string) error {
	err := r.store.Client.HSet(ctx, r.keys.Readers, name, place).Err()
	redisconn.SeekMaster(ctx, r.store.Client, err)
	return err
}
