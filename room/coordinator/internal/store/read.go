package store

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"

	"github.com/go-json-experiment/json"

	"roomd/room"
)

// parseRoom reads a script's reply: epoch, version, commit id, number of members, settings, data, bans, gone, timers,
// host, incarnation, members. The room begins a new epoch if it may have lost commits: it is from another incarnation,
// or its number of members is not the recorded one, because Redis evicted a key or somebody edited one. parseRoom fails
// with a [room.ErrForeign] for fields that roomd has not written.
func (s *Store) parseRoom(ctx context.Context, id string, reply []any) (*room.Room, error) {
	if len(reply) != 12 {
		return nil, fmt.Errorf("read room %s: %d parts instead of 12", id, len(reply))
	}
	epoch, _ := reply[0].(string)
	var version uint64
	if text, ok := reply[1].(string); ok {
		var err error
		if version, err = strconv.ParseUint(text, 10, 63); err != nil {
			return nil, s.foreign(id, fmt.Sprintf("field version of %s holds %s", s.KeysOf(id).Meta, shown(text)))
		}
	}
	flat, _ := reply[11].([]any)
	members := make(map[string]room.Member, len(flat)/2)
	for pair := range slices.Chunk(flat, 2) {
		user, _ := pair[0].(string)
		text, _ := pair[len(pair)-1].(string)
		m, err := ParseMember(text)
		if err != nil {
			return nil, s.foreign(id, fmt.Sprintf(
				"field %q of %s holds %s, which is no member as roomd writes it (%v)", user, s.KeysOf(id).Users,
				shown(text), err))
		}
		members[user] = m
	}
	r := room.NewRoom(id, room.Position{Epoch: epoch, Version: version}, members)
	r.CommitID, _ = reply[2].(string)
	if err := s.restore(r, reply[4:10]); err != nil {
		return nil, err
	}
	left, _ := reply[3].(string)
	began, _ := reply[10].(string)
	continues, err := s.continues(ctx, id, epoch, began)
	switch {
	case err != nil:
		return nil, err
	case !continues, strconv.Itoa(len(members)) != cmp.Or(left, "0"):
		r.Renew()
	}
	return r, nil
}

// restore sets a room's settings, data, bans, gone, timers and host from a script's reply.
func (s *Store) restore(r *room.Room, fields []any) error {
	var from room.State
	some := false
	for i, field := range metaOf(&from) {
		text, _ := fields[i].(string)
		if text == "" {
			continue
		}
		some = true
		if err := json.Unmarshal([]byte(text), field.value); err != nil {
			return s.foreign(r.ID, fmt.Sprintf("field %s of %s holds %s (%v)", field.name, s.KeysOf(r.ID).Meta,
				shown(text), err))
		}
	}
	if from.Settings != nil {
		from.Settings.Adapt()
	}
	if some {
		r.Restore(from)
	}
	return nil
}

// continues reports whether the incarnation in which the room's epoch began still lasts. If it differs from the
// cached one, the server is asked, because the cached one may be old.
func (s *Store) continues(ctx context.Context, id, epoch, began string) (bool, error) {
	meta := s.KeysOf(id).Meta
	if epoch == "" { // the room has no commit
		return true, nil
	} else if now, err := s.Servers.Incarnation(ctx, meta, false); err != nil || now == began {
		return err == nil, err
	}
	now, err := s.Servers.Incarnation(ctx, meta, true)
	return now == began, err
}
