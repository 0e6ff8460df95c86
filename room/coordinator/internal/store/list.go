package store

import (
	"context"
	"crypto/sha1"
	_ "embed"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"
	"unicode/utf8"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"roomd/lockmgr"
)

var (
	//go:embed lua/import.lua
	importLua string

	// ImportScript makes a room of a list.
	ImportScript = NewScript(importLua, roomLua)
)

// ErrNoList: no other program has written under the key of the room's members.
var ErrNoList = errors.New("there is no list")

// List is a list of users that another program keeps under the key of a room's members.
type List struct {
	Entries []Entry
	Backup  string // the key that it gets when a room is made of it

	digest string // see import.lua
}

// Entry is one of a list.
type Entry struct {
	Text string
	Err  error // why it cannot be a user's name, if that is certain
}

// ReadList reads the list of a room. It is a list of names in Redis, or a string with a JSON array of names or whole
// numbers. What is neither fails with a [room.ErrForeign], and nothing at all with ErrNoList.
func (s *Store) ReadList(ctx context.Context, id string) (l List, err error) {
	k := s.KeysOf(id)
	l.Backup = fmt.Sprintf("%s:imported-%d", k.Users, time.Now().UnixMilli())
	kind, err := s.Client.Type(ctx, k.Users).Result()
	if err != nil {
		return l, err
	}
	var raw []string
	switch kind {
	case "none", "hash":
		return l, ErrNoList
	case "list":
		raw, err = s.Client.LRange(ctx, k.Users, 0, -1).Result()
		for _, text := range raw {
			l.Entries = append(l.Entries, Entry{Text: text})
		}
	case "string":
		var text string
		if text, err = s.Client.Get(ctx, k.Users).Result(); err == nil {
			raw = []string{text}
			if l.Entries, err = parseList(text); err != nil {
				return l, s.foreign(id, fmt.Sprintf("%s is a string, and not a JSON array of users: it holds %s", k.Users, shown(text)))
			}
		}
	default:
		return l, s.foreign(id, fmt.Sprintf("%s is a %s and not a list", k.Users, kind))
	}
	if err != nil {
		return l, err
	}
	if n, err := s.Client.Exists(ctx, k.Meta).Result(); err != nil {
		return l, err
	} else if n > 0 {
		return l, s.foreign(id, fmt.Sprintf("%s is a list, and %s is there, too, since roomd has used the room before; "+
			"when nobody needs its settings and data any more, delete %[2]s, and import the list then", k.Users, k.Meta))
	}
	hash := sha1.New()
	for _, text := range raw {
		_, _ = hash.Write([]byte(strconv.Itoa(len(text)) + ":" + text))
	}
	l.digest = hex.EncodeToString(hash.Sum(nil))
	return l, nil
}

func parseList(text string) (entries []Entry, err error) {
	var values []jsontext.Value
	if err := json.Unmarshal([]byte(text), &values, jsontext.AllowInvalidUTF8(true)); err != nil {
		return nil, err
	}
	if values == nil {
		return nil, errors.New("it is null")
	}
	for _, value := range values {
		e := Entry{Text: string(value)}
		switch {
		case !utf8.Valid(value): // which the decoder would replace
			e.Err = errors.New("is not valid UTF-8")
		case value.Kind() == '"':
			e.Err = json.Unmarshal(value, &e.Text)
		case value.Kind() == '0':
			if _, err := strconv.ParseInt(e.Text, 10, 64); err != nil {
				e.Err = errors.New("is not a whole number")
			}
		default:
			e.Err = errors.New("is neither a string nor a number")
		}
		entries = append(entries, e)
	}
	return entries, nil
}

// NewImport prepares a request that makes a room of a list by that commit, whose Hold has a Token. Close it.
func (s *Store) NewImport(locks *lockmgr.Manager, c *Commit, l List) (*Move, error) {
	m := &Move{store: s, script: ImportScript, commits: []*Commit{c}, args: append(slices.Clip(c.args), l.digest)}
	var err error
	m.slot, err = locks.Slot(c.ID, c.keys.Users, c.keys.Meta, c.keys.Log, l.Backup)
	return m, err
}
