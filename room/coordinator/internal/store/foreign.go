package store

import (
	"context"
	"fmt"

	"github.com/redis/go-redis/v9"

	"roomd/lockmgr/redisconn"
	"roomd/room"
	"roomd/room/coordinator/internal/keys"
)

// keyTypes finds keys whose values roomd has not written.
type keyTypes struct {
	client redis.UniversalClient
	keys.Space
}

// Foreign is another program's value under the key of a room's members.
type Foreign struct {
	Key, Type string // as Redis names its key and type
	Room      string // the room's id; CheckID may refuse it
}

// FindForeign searches all masters for keys of members that are not hashes, and calls found for each, one at a time.
// It scans the whole key space: about a second for a million keys.
func (t keyTypes) FindForeign(ctx context.Context, found func(Foreign)) error {
	seen := make(map[string]bool)
	return redisconn.Scan(ctx, t.client, t.Room("*", keys.Users), 0, func(ctx context.Context, users []string) error {
		types, err := t.client.Pipelined(ctx, func(p redis.Pipeliner) error {
			for _, key := range users {
				p.Type(ctx, key)
			}
			return nil
		})
		if err != nil {
			return err
		}
		for i, key := range users {
			kind := types[i].(*redis.StatusCmd).Val()
			if kind != "hash" && kind != "none" && !seen[key] {
				seen[key] = true
				found(Foreign{key, kind, t.RoomOf(key, keys.Users)})
			}
		}
		return nil
	})
}

// maxShown limits how much of a foreign value an error shows, in bytes: in a member's JSON, private data come later.
const maxShown = 80

func (t keyTypes) foreign(id, found string) error {
	return room.Refuse(room.ErrForeign, "room %s holds something that is not roomd's: %s; roomd keeps a room in hashes "+
		"of its own: rename or delete what is there, or give roomd a key prefix, another Redis or another database",
		id, found)
}

// explain is Explain for the keys of a room.
func (t keyTypes) explain(ctx context.Context, id string, err error) error {
	if !redis.HasErrorPrefix(err, "WRONGTYPE") {
		return err
	} else if found := t.wrongType(ctx, t.OfRoom(id)); found != "" {
		return t.foreign(id, found)
	}
	return err
}

// Explain turns a WRONGTYPE error, which names no key, into a [room.ErrForeign] that names the first of keys with
// another type. It returns other errors as they are.
func (t keyTypes) Explain(ctx context.Context, err error, keys ...string) error {
	if !redis.HasErrorPrefix(err, "WRONGTYPE") {
		return err
	} else if foreign := t.CheckTypes(ctx, keys...); foreign != nil {
		return foreign
	}
	return err
}

// CheckTypes fails with a [room.ErrForeign] if Redis says that one of the keys is of another type than roomd's.
func (t keyTypes) CheckTypes(ctx context.Context, keys ...string) error {
	if found := t.wrongType(ctx, keys); found != "" {
		return room.Refuse(room.ErrForeign, "a key that all rooms share holds something that is not roomd's: %s; "+
			"rename or delete it, or give roomd a key prefix, another Redis or another database", found)
	}
	return nil
}

// wrongType describes the first of these keys that is of another type; "" if none is, or Redis does not answer. Some
// other program may keep a list in Room:<id>:Users, as a string.
func (t keyTypes) wrongType(ctx context.Context, keys []string) string {
	types := make([]*redis.StatusCmd, len(keys))
	_, _ = t.client.Pipelined(ctx, func(p redis.Pipeliner) error {
		for i, key := range keys {
			types[i] = p.Type(ctx, key)
		}
		return nil
	})
	for i, key := range keys {
		kind, want := types[i].Val(), t.TypeOf(key)
		switch {
		case kind == "", kind == "none", kind == want, want == "":
			continue
		case kind == "string":
			value := t.client.GetRange(ctx, key, 0, maxShown).Val()
			return fmt.Sprintf("%s is a string and not a %s, and holds %s", key, want, shown(value))
		}
		return fmt.Sprintf("%s is a %s and not a %s", key, kind, want)
	}
	return ""
}

func shown(value string) string {
	if len(value) <= maxShown {
		return fmt.Sprintf("%q", value)
	}
	return fmt.Sprintf("%q…", value[:maxShown])
}
