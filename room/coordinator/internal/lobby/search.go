package lobby

import (
	"cmp"
	"context"
	"errors"
	"strconv"
	"sync"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/redis/go-redis/v9"

	"roomd/lockmgr/redisconn"
	"roomd/lockmgr/redisconn/pause"
	"roomd/room"
	"roomd/room/coordinator/internal/keys"
)

const (
	searchEvery = 30 * time.Second       // least time from the start of one search to the next
	searchSoon  = 5 * time.Second        // the same if no search has finished since Redis was restarted or replaced
	searchAsk   = 500 * time.Millisecond // how often a node offers to search while rooms are missing
	goneTTL     = time.Minute            // how long the index remembers rooms that are gone

	scanCount = 1000 // rooms read per request

	// scanShare: a search that nobody waits for uses at most 1/scanShare of Redis' time.
	scanShare = 10
)

func (l *Lobby) searchLoop() {
	wait := time.Duration(0)
	for pause.For(l.open, wait) == nil {
		wait = searchEvery / 3
		done, err := l.search(l.open)
		switch {
		case err != nil && l.open.Err() == nil:
			l.failed.Happened(err)
			wait = time.Second
		case !done && !l.isWhole():
			wait = searchAsk
		}
	}
}

func (l *Lobby) isWhole() bool {
	_, _ = l.get(l.open)
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.whole
}

// search compares the index with all rooms if it is this node's turn. done: this node has completed the search.
func (l *Lobby) search(ctx context.Context) (done bool, err error) {
	run, err := l.turn(ctx)
	if err != nil || run == nil {
		return false, err
	}
	if err := l.read(ctx); err != nil {
		return false, err
	}
	l.mu.Lock()
	before, hurry := l.rooms, !l.whole
	l.mu.Unlock()
	s := &search{index: l.index, seats: l.seats, hurry: hurry, found: make(map[string]bool),
		known: &List{Rooms: before}}
	if err := s.all(ctx); err != nil {
		return false, err
	}
	var missing []string
	for _, r := range before {
		if !s.found[r.ID] {
			missing = append(missing, l.index.store.Room(r.ID, keys.Meta))
		}
	}
	for len(missing) > 0 {
		n := min(scanCount, len(missing))
		if err := s.compare(ctx, missing[:n]); err != nil {
			return false, err
		}
		missing = missing[n:]
	}
	_, err = l.index.store.Run(ctx, searchedScript, l.index.keys, run)
	return err == nil, err
}

// turn removes from the index the rooms that have long been gone. It returns the index's run (see known) if this node
// must compare the index with all rooms; nil if it is not this node's turn.
func (l *Lobby) turn(ctx context.Context) (run any, err error) {
	for more := true; more; {
		reply, err := l.index.run(ctx, searchScript, nil, nil, searchEvery.Milliseconds(),
			searchSoon.Milliseconds(), goneTTL.Milliseconds())
		if err != nil {
			return nil, err
		}
		if reply[0] != nil {
			run = reply[0]
		}
		more = reply[1] == int64(1)
	}
	return run, nil
}

type search struct {
	index *index
	seats int  // number of seats of rooms without settings
	hurry bool // somebody waits for the result
	known *List

	mu    sync.Mutex
	found map[string]bool // guarded by mu: by id
}

// all compares the rooms of all masters. Unless somebody waits, it pauses for other clients of Redis.
func (s *search) all(ctx context.Context) error {
	rests := scanShare - 1
	if s.hurry {
		rests = 0
	}
	return redisconn.Scan(ctx, s.index.store.Client, s.index.store.Room("*", keys.Meta), rests, s.compare)
}

// compare reads rooms by their keys of Meta, in one round trip, and writes those that differ to the index.
func (s *search) compare(ctx context.Context, metas []string) error {
	if len(metas) == 0 {
		return nil
	}
	// Through the client of all masters, because a slot may move meanwhile.
	replies, err := s.index.store.Client.Pipelined(ctx, func(p redis.Pipeliner) error {
		for _, key := range metas {
			p.HMGet(ctx, key, "version", "members", "settings", "epoch")
		}
		return nil
	})
	var refusal redis.Error
	if err != nil && !errors.As(err, &refusal) {
		return err
	}
	var noted []*change
	for i, key := range metas {
		reply, ok := replies[i].(*redis.SliceCmd)
		if !ok || reply.Err() != nil && !redis.HasErrorPrefix(reply.Err(), "WRONGTYPE") {
			return replies[i].Err()
		}
		if c := s.read(key, reply.Val()); s.differs(c) {
			noted = append(noted, c)
		}
	}
	return s.index.note(ctx, noted)
}

// differs adds a room to found, and reports whether it must be written to the index. A room with labels always must,
// to free seats that were claimed and not used.
func (s *search) differs(c *change) bool {
	if c == nil {
		return false
	}
	s.mu.Lock()
	s.found[c.ID] = true
	s.mu.Unlock()
	was := s.known.Find(c.ID)
	if was == nil {
		return c.listed
	}
	is := c.Listed
	is.Since = was.Since
	return !c.listed || is != *was || c.Labels != ""
}

// read returns a room from its fields of Meta; nil if they are unreadable, or neither Redis nor the index has the room.
func (s *search) read(key string, meta []any) *change {
	c := &change{Listed: Listed{ID: s.index.store.RoomOf(key, keys.Meta)}}
	if len(meta) != 4 || room.CheckID(c.ID) != nil {
		return nil
	}
	if meta[0] == nil { // the room is gone; this overrides the index
		if was := s.known.Find(c.ID); was != nil {
			c.Epoch, c.Version = was.Epoch, was.Version
			return c
		}
		return nil
	}
	version, _ := meta[0].(string)
	c.Version, _ = strconv.ParseUint(version, 10, 63)
	c.Epoch, _ = meta[3].(string)
	if c.Epoch == "" {
		c.Epoch = "0" // written by a version without epochs
	}
	members, _ := meta[1].(string)
	c.Members, _ = strconv.Atoi(cmp.Or(members, "0"))
	var settings room.Settings
	if text, _ := meta[2].(string); text == "" {
		settings = room.Settings{Capacity: s.seats, Default: true}
	} else if json.Unmarshal([]byte(text), &settings) != nil {
		return nil // unreadable settings: a node that uses the room logs them
	}
	settings.Adapt()
	return changeOf(c.ID, room.Position{Epoch: c.Epoch, Version: c.Version}, c.Members, settings)
}
