package coordinator

import (
	"context"
	"errors"
	"fmt"

	"github.com/redis/go-redis/v9"
)

// errForeign: a room's keys hold something that roomd has not written. Nothing was
// written, and only an operator can help.
var errForeign = errors.New("the key holds something that is not roomd's")

// maxShown is how much of a foreign value an error shows, in bytes.
const maxShown = 80

func (s *store) foreign(id, found string) error {
	return fmt.Errorf("room %s: %w: %s; roomd keeps a room in hashes of its own: "+
		"rename or delete what is there, or give roomd another Redis or another database", id, errForeign, found)
}

// explain adds the key to an error of Redis which says only that some key is of another
// type, and returns any other error as it is. In the article's form Room:<id>:Users is a
// string that holds a list.
func (s *store) explain(ctx context.Context, id string, err error) error {
	if !redis.HasErrorPrefix(err, "WRONGTYPE") {
		return err
	}
	for _, key := range s.keysOf(id).both {
		kind, unknown := s.client.Type(ctx, key).Result()
		if unknown != nil || kind == "hash" || kind == "none" {
			continue
		}
		found := fmt.Sprintf("%s is a %s and not a hash", key, kind)
		if kind == "string" {
			value := s.client.GetRange(ctx, key, 0, maxShown).Val()
			found = fmt.Sprintf("%s is a string and not a hash, and holds %s", key, shown(value))
		}
		return s.foreign(id, found)
	}
	return err
}

// shown returns the beginning of a value for an error.
func shown(value string) string {
	if len(value) <= maxShown {
		return fmt.Sprintf("%q", value)
	}
	return fmt.Sprintf("%q…", value[:maxShown])
}
