package coordinator

import (
	"cmp"
	"context"
	"errors"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/redis/go-redis/v9"

	"roomd/room"
)

const (
	// scanCount is how many keys Redis looks at in one SCAN, which takes it less than a
	// millisecond.
	scanCount = 1000

	// scanTime is how long a search may take. What was found until then is the list.
	scanTime = 3 * time.Second
)

// list returns the rooms of all masters, in no order, and some twice. It stops beyond max rooms, and
// after scanTime; whole says that it did not, and that every master has answered. It fails if none
// has.
func (s *store) list(ctx context.Context, max, seats int) (rooms []Listed, whole bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, scanTime+time.Second)
	defer cancel()
	search := &search{store: s, max: max, seats: seats, end: time.Now().Add(scanTime), whole: true}
	switch client := s.client.(type) {
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
	store *store
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
		keys, next, err := master.Scan(ctx, cursor, s.store.keysOf("*").meta, scanCount).Result()
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
	replies, err := s.store.client.Pipelined(ctx, func(p redis.Pipeliner) error {
		for _, key := range keys {
			p.HMGet(ctx, key, "version", "members", "settings")
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

// parse reports false for a room that is gone, and for what is none.
func (s *search) parse(key string, meta []any) (one Listed, ok bool) {
	one.ID = strings.TrimSuffix(strings.TrimPrefix(key, "Room:"), ":Meta")
	if s.store.cluster {
		one.ID = strings.TrimSuffix(strings.TrimPrefix(one.ID, "{"), "}")
	}
	if len(meta) != 3 || meta[0] == nil || room.CheckID(one.ID) != nil {
		return one, false
	}
	members, _ := meta[1].(string)
	one.Members, _ = strconv.Atoi(cmp.Or(members, "0"))
	settings := room.Settings{Capacity: s.seats}
	if text, _ := meta[2].(string); text != "" && json.Unmarshal([]byte(text), &settings) != nil {
		return one, false // what uses the room says so in the log
	}
	one.Capacity, one.Closed = settings.Capacity, settings.Closed
	return one, true
}
