package loadtest

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/redis/go-redis/v9"

	"roomd/loadtest/check"
	"roomd/loadtest/internal/model"
)

// Store reads rooms from Redis by the documented keys. It does not use the server's code, so that a mistake
// there cannot hide.
type Store struct {
	Client    redis.UniversalClient
	KeyPrefix string
	Cluster   bool // keys have hash tags
}

// Key returns a key of a room.
func (s *Store) Key(room, kind string) string {
	return s.KeyPrefix + "Room:" + s.tagged(room) + ":" + kind
}

// LockKey returns the key of a room's lock.
func (s *Store) LockKey(room string) string { return s.KeyPrefix + "LockRoom:" + s.tagged(room) }

func (s *Store) tagged(room string) string {
	if s.Cluster {
		return "{" + room + "}"
	}
	return room
}

// at returns the epoch and version of a room, and the name of one of its timers, if any.
func (s *Store) at(ctx context.Context, room string) (epoch string, version uint64, timer string, err error) {
	meta, err := s.Client.HMGet(ctx, s.Key(room, "Meta"), "epoch", "version", "timers").Result()
	if err != nil {
		return "", 0, "", err
	}
	epoch, _ = meta[0].(string)
	text, _ := meta[1].(string)
	version, _ = strconv.ParseUint(text, 10, 64)
	var set struct {
		Timers map[string]jsontext.Value `json:"timers"`
	}
	if text, _ = meta[2].(string); text != "" {
		err = json.Unmarshal([]byte(text), &set)
	}
	for timer = range set.Timers {
	}
	return epoch, version, timer, err
}

// room reads a room. The list has the private data of all members.
func (s *Store) room(ctx context.Context, room string) (epoch string, version uint64, list *check.List, err error) {
	var users, meta *redis.MapStringStringCmd
	if _, err := s.Client.TxPipelined(ctx, func(tx redis.Pipeliner) error {
		users, meta = tx.HGetAll(ctx, s.Key(room, "Users")), tx.HGetAll(ctx, s.Key(room, "Meta"))
		return nil
	}); err != nil {
		return "", 0, nil, err
	}
	type value struct {
		Value jsontext.Value `json:"value"`
	}
	list = &check.List{All: true, Private: make(map[string]string)}
	version, _ = strconv.ParseUint(meta.Val()["version"], 10, 64)
	for user, text := range users.Val() {
		var m struct {
			Seat    int    `json:"seat"`
			Session string `json:"session"`
			Ready   bool   `json:"ready"`
			Data    value  `json:"data"`
			Private value  `json:"private"`
		}
		if err := json.Unmarshal([]byte(text), &m); err != nil {
			return "", 0, nil, fmt.Errorf("%s, %s: %w", s.Key(room, "Users"), user, err)
		}
		if data := Plain(m.Private.Value); data != "" {
			list.Private[user] = data
		}
		list.Users = append(list.Users, check.Member{User: user, Seat: m.Seat,
			Away: strings.HasPrefix(m.Session, detached), Ready: m.Ready, Data: Plain(m.Data.Value)})
	}
	var data value
	for field, into := range map[string]any{"settings": &list.Settings, "data": &data, "host": &list.Host} {
		if text := meta.Val()[field]; text != "" {
			if err := json.Unmarshal([]byte(text), into, json.MatchCaseInsensitiveNames(true)); err != nil {
				return "", 0, nil, fmt.Errorf("%s, %s: %w", s.Key(room, "Meta"), field, err)
			}
		}
	}
	list.Data = Plain(data.Value)
	return meta.Val()["epoch"], version, list, nil
}

// journalPage is how many entries are read at once.
const journalPage = 5000

// journal is the part of a room's journal that was read. A failover may lose an end that was read before, so entries
// are read until two reads agree on them.
type journal struct {
	entries []check.Entry
	ids     []string // of entries
	agreed  int      // number of first entries on which the last two reads agree
}

func (j *journal) read(ctx context.Context, s *Store, room string) error {
	entries, ids := slices.Clip(j.entries[:j.agreed]), slices.Clip(j.ids[:j.agreed])
	for more := true; more; {
		from := "-"
		if n := len(ids); n > 0 {
			from = "(" + ids[n-1]
		}
		messages, err := s.Client.XRangeN(ctx, s.Key(room, "Log"), from, "+", journalPage).Result()
		if err != nil {
			return fmt.Errorf("journal of room %s: %w", room, err)
		}
		for _, m := range messages {
			text, _ := m.Values["commit"].(string)
			e, err := entryOf(text)
			if err != nil {
				return fmt.Errorf("journal of room %s, entry %s: %w", room, m.ID, err)
			}
			entries, ids = append(entries, e), append(ids, m.ID)
		}
		more = len(messages) == journalPage
	}
	if len(entries) == j.agreed { // nothing new, or the room is forgotten
		return nil
	}
	for j.agreed < min(len(ids), len(j.ids)) && ids[j.agreed] == j.ids[j.agreed] {
		j.agreed++
	}
	j.entries, j.ids = entries, ids
	return nil
}

// entryOf parses an entry of a journal.
func entryOf(text string) (check.Entry, error) {
	var in model.Entry
	if err := json.Unmarshal([]byte(text), &in); err != nil {
		return check.Entry{}, err
	}
	e := check.Entry{Epoch: one(in.Epoch), Version: in.Version, Mark: in.Mark,
		Changes: make([]check.Change, len(in.Changes))}
	for i, c := range in.Changes {
		if c.Type == "message" { // older nodes write the seat, which clients do not get
			c.Seat = 0
		}
		if c.Type != "join" {
			c.At = 0
		}
		e.Changes[i] = check.Change{
			Type: one(c.Type), User: one(c.User), Seat: c.Seat, Reason: one(c.Reason), Text: c.Text, Target: c.Target,
			Data: Plain(c.Data), Ready: c.Ready, To: c.To, At: c.At, Until: c.Until, Again: c.Again,
			Away: c.Type == "join" && strings.HasPrefix(c.Session, detached),
		}
		if c.Timer != nil {
			e.Changes[i].Name, e.Changes[i].Set = c.Timer.Name, c.Timer.Due > 0
		}
		if c.Settings != nil {
			e.Changes[i].Settings = new(check.Settings)
			if err := json.Unmarshal(c.Settings, e.Changes[i].Settings); err != nil {
				return check.Entry{}, err
			}
		}
	}
	return e, nil
}

// detached starts the session of a member without a connection.
const detached = "~"

// Plain returns the string in JSON. Players set only strings; "null" means that the data was removed.
func Plain[T ~string | ~[]byte](data T) string {
	if len(data) == 0 || data[0] != '"' {
		return string(data)
	}
	var s string
	if json.Unmarshal([]byte(data), &s) != nil {
		return string(data)
	}
	return s
}
