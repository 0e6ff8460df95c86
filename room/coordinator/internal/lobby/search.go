package lobby

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/redis/go-redis/v9"

	"roomd/room"
	"roomd/room/coordinator/internal/store"
)

const (
	// scanCount is how many keys Redis looks at in one SCAN, which takes it less than a
	// millisecond.
	scanCount = 1000

	// scanTime is how long a search may take. What was found until then is the list.
	scanTime = 3 * time.Second
)

// searched is what one search of Redis has found.
type searched struct {
	List
	Since int64 `json:"since"` // when it began, in ms since 1970: it has all that changed before
}

// Search returns the rooms of all masters, in no order, and some twice. It stops beyond max rooms, and
// after scanTime; whole says that it did not, and that every master has answered. It fails if none
// has.
func (l *Lobby) Search(ctx context.Context, max int) (rooms []Listed, whole bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, scanTime+time.Second)
	defer cancel()
	search := &search{store: l.store, max: max, seats: l.seats, end: time.Now().Add(scanTime), whole: true}
	switch client := l.store.Client.(type) {
	case *redis.ClusterClient:
		err = client.ForEachMaster(ctx, func(ctx context.Context, master *redis.Client) error {
			search.scanned(search.scan(ctx, master))
			return nil
		})
	default:
		search.scanned(search.scan(ctx, client))
	}
	if err == nil && search.answered == 0 {
		err = search.failure
	}
	return search.rooms, search.whole, err
}

// search is one search for all rooms.
type search struct {
	store *store.Store
	max   int
	seats int // of rooms without settings
	end   time.Time

	mu       sync.Mutex
	rooms    []Listed // guarded by mu
	whole    bool     // guarded by mu
	answered int      // guarded by mu: masters
	failure  error    // guarded by mu: of a master that has not answered
}

// scanned records how the search of one master ended. What the others have is shown all the same.
func (s *search) scanned(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err != nil {
		s.whole, s.failure = false, err
		return
	}
	s.answered++
}

// scan searches one master, page by page.
func (s *search) scan(ctx context.Context, master redis.Cmdable) error {
	for cursor := uint64(0); ; {
		keys, next, err := master.Scan(ctx, cursor, s.store.KeysOf("*").Meta, scanCount).Result()
		if err != nil {
			return err
		}
		found, err := s.read(ctx, keys)
		if err != nil {
			return err
		}
		if cursor = next; !s.add(found, cursor == 0) || cursor == 0 {
			return nil
		}
	}
}

// add keeps what a page has, and reports whether the search goes on. last says that the page was
// the master's last.
func (s *search) add(found []Listed, last bool) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.rooms = append(s.rooms, found...)
	goes := len(s.rooms) <= s.max && time.Now().Before(s.end)
	s.whole = s.whole && (goes || last && len(s.rooms) <= s.max)
	return goes
}

// read reads what the list says of some rooms, in one round trip.
func (s *search) read(ctx context.Context, keys []string) ([]Listed, error) {
	if len(keys) == 0 {
		return nil, nil
	}
	// By the client of all masters: a slot may move meanwhile.
	replies, err := s.store.Client.Pipelined(ctx, func(p redis.Pipeliner) error {
		for _, key := range keys {
			p.HMGet(ctx, key, "version", "members", "settings", "epoch")
		}
		return nil
	})
	var refusal redis.Error
	if err != nil && !errors.As(err, &refusal) {
		return nil, err
	}
	found := make([]Listed, 0, len(keys))
	for i, key := range keys {
		reply, ok := replies[i].(*redis.SliceCmd)
		if !ok || reply.Err() != nil && !redis.HasErrorPrefix(reply.Err(), "WRONGTYPE") {
			return nil, replies[i].Err()
		}
		if one, ok := s.parse(key, reply.Val()); ok {
			found = append(found, one)
		}
	}
	return found, nil
}

// parse reports false for a room that is gone, or empty and of no use, and for what is none.
func (s *search) parse(key string, meta []any) (one Listed, ok bool) {
	one.ID = strings.TrimSuffix(strings.TrimPrefix(key, "Room:"), ":Meta")
	if s.store.Cluster {
		one.ID = strings.TrimSuffix(strings.TrimPrefix(one.ID, "{"), "}")
	}
	if len(meta) != 4 || meta[0] == nil || room.CheckID(one.ID) != nil {
		return one, false
	}
	version, _ := meta[0].(string)
	one.Version, _ = strconv.ParseUint(version, 10, 63)
	one.Epoch, _ = meta[3].(string)
	members, _ := meta[1].(string)
	one.Members, _ = strconv.Atoi(cmp.Or(members, "0"))
	var settings room.Settings
	if text, _ := meta[2].(string); text == "" {
		settings = room.Settings{Capacity: s.seats, Default: true}
	} else if json.Unmarshal([]byte(text), &settings) != nil {
		return one, false // what uses the room says so in the log
	}
	settings.Adapt()
	one.Capacity, one.Closed = settings.Capacity, settings.Closed
	return one, one.Members > 0 || !settings.Unused()
}

// with returns the rooms that were found, as changes have left them: those that Redis has, and those of
// this node.
func (f *searched) with(changes map[string]*change, own []*change) *List {
	latest := maps.Clone(changes)
	for _, c := range own {
		if known := latest[c.ID]; known == nil || known.Epoch != c.Epoch || known.Version < c.Version {
			latest[c.ID] = c
		}
	}
	l := &List{Rooms: make([]Listed, 0, len(f.Rooms)+len(latest)), Truncated: f.Truncated}
	rest := f.Rooms
	for _, id := range slices.Sorted(maps.Keys(latest)) {
		c := latest[id]
		n, found := slices.BinarySearchFunc(rest, id, func(r Listed, id string) int { return strings.Compare(r.ID, id) })
		l.Rooms = append(l.Rooms, rest[:n]...)
		rest = rest[n:]
		if found {
			if rest[0].Epoch == c.Epoch && rest[0].Version >= c.Version {
				l.Rooms, c = append(l.Rooms, rest[0]), nil
			}
			rest = rest[1:]
		}
		if c != nil && c.listed {
			l.Rooms = append(l.Rooms, c.Listed)
		}
	}
	l.Rooms = append(l.Rooms, rest...)
	if len(l.Rooms) > Max {
		l.Rooms, l.Truncated = l.Rooms[:Max:Max], true
	}
	return l
}
