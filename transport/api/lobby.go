package api

import (
	"cmp"
	"errors"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"roomd/room"
	"roomd/room/coordinator"
)

// lobbyAge is no-cache, so that creators find their rooms, and private, because the list depends on the token.
const lobbyAge = "private, no-cache"

// listed is a room in the lobby.
type listed struct {
	Room     string      `json:"room" pattern:"^[A-Za-z0-9._-]{1,64}$"`
	Count    int         `json:"count" minimum:"0" doc:"How many members there are."`
	Capacity int         `json:"capacity" minimum:"0" maximum:"65536" doc:"How many seats there are; 0 is as many as there can be."`
	Free     int         `json:"free" minimum:"0" maximum:"65536"`
	Closed   bool        `json:"closed"`
	Labels   room.Labels `json:"labels,omitzero" doc:"What the room is for; absent for none."`
	Since    int64       `json:"since,omitzero" minimum:"0" doc:"When the lobby first had the room, in ms since 1970; absent in its first moment."`
}

func newListed(r *coordinator.Listed) listed {
	return listed{r.ID, r.Members, r.Capacity, r.Free(), r.Closed, r.Labels, r.Since}
}

// lobby is a page of the list of rooms.
type lobby struct {
	Rooms     []listed `json:"rooms" maxItems:"1000"`
	Next      string   `json:"next,omitzero" pattern:"^([0-9]{1,15}~)?[A-Za-z0-9._-]{1,64}$" doc:"What after gets for the next page; absent on the last."`
	Truncated bool     `json:"truncated,omitzero" enum:"true" doc:"Not all rooms have been found yet."`
}

// search is the query of the lobby.
type search struct {
	Prefix   string   `query:"prefix" pattern:"^[A-Za-z0-9._-]{0,64}$" doc:"Only rooms whose ids begin so."`
	Contains string   `query:"contains" pattern:"^[A-Za-z0-9._-]{0,64}$" doc:"Only rooms that have this somewhere in their ids."`
	Label    []string `query:"label" doc:"Only rooms with this label, as name:value, such as mode:ranked; several times for rooms with all of them."`
	Free     int      `query:"free" minimum:"0" maximum:"65536" default:"0" doc:"Only rooms that are not closed and have at least so many free seats."`
	Sort     string   `query:"sort" enum:"id,members,age" doc:"The order: by id, the fullest first, or the newest first; without it by id. Rooms that come and go do not shift pages."`
	After    string   `query:"after" pattern:"^([0-9]{1,15}~)?[A-Za-z0-9._-]{0,64}$" doc:"Only rooms behind this one; next of the page before."`
	Watch    []string `query:"watch" doc:"Goes on: server-sent events (text/event-stream). rooms has rooms in place of all before; changes has rooms as they are now, and in gone the ids of those that are no longer among them. With more an event is only a part: the list is whole again with the first event without. Without sort, after and limit."`
	Limit    int      `query:"limit" minimum:"1" maximum:"1000" default:"100" doc:"How long the page may be."`
}

// The orders of a lobby.
const (
	byMembers = "members"
	byAge     = "age"
)

type filter struct {
	search
	labels room.Labels
}

func newFilter(in search) (f filter, err error) {
	f.search = in
	for name, text := range map[string]string{"prefix": in.Prefix, "contains": in.Contains} {
		if strings.Trim(text, ".") != "" && room.CheckID(text) != nil {
			return f, badField(name, "must be a room's id or a part of it, of A-Z a-z 0-9 . _ -, not %q", excerpt(text))
		}
	}
	labels := make(map[string]string)
	for _, label := range in.Label {
		name, value, ok := strings.Cut(label, ":")
		if _, twice := labels[name]; !ok || twice {
			return f, badField("label", "must be name:value, each name once, not %q", excerpt(label))
		}
		labels[name] = value
	}
	f.labels = room.MakeLabels(labels)
	if invalid, is := errors.AsType[*room.InvalidError](f.labels.Check()); is {
		_, name, _ := strings.Cut(invalid.Field, ".")
		return f, badField("label", "%s", strings.TrimSpace(name+" "+invalid.Problem))
	}
	return f, nil
}

func (f *filter) has(r *coordinator.Listed) bool {
	return strings.HasPrefix(r.ID, f.Prefix) && strings.Contains(r.ID, f.Contains) &&
		(f.Free == 0 || !r.Closed && r.Free() >= f.Free) &&
		(f.labels == "" || r.Labels.Include(f.labels))
}

// key is a room's position in the order of a page.
type key struct {
	n  int64 // larger ones first
	id string
}

// numbered reports whether rooms are ordered by a number first, not by their ids alone.
func (f *filter) numbered() bool { return f.Sort == byMembers || f.Sort == byAge }

func (f *filter) key(r *coordinator.Listed) key {
	switch f.Sort {
	case byMembers:
		return key{int64(r.Members), r.ID}
	case byAge:
		return key{cmp.Or(r.Since, newest), r.ID}
	}
	return key{0, r.ID}
}

// newest is the sort key of a room whose age the lobby does not know yet.
const newest = 999_999_999_999_999

func (k key) compare(other key) int {
	return cmp.Or(cmp.Compare(other.n, k.n), strings.Compare(k.id, other.id))
}

// after returns the position after which a page starts, and whether there is one.
func (f *filter) after() (k key, some bool, err error) {
	if f.After == "" {
		return k, false, nil
	}
	number, id, numbered := strings.Cut(f.After, "~")
	if k.id = f.After; numbered {
		k.id = id
		k.n, err = strconv.ParseInt(number, 10, 64)
	}
	if numbered != f.numbered() {
		err = errors.New("it is of another order")
	}
	if err != nil || strings.Trim(k.id, ".") != "" && room.CheckID(k.id) != nil {
		return k, true, badField("after", "must be next of the page before, in the same order, not %q",
			excerpt(f.After))
	}
	return k, true, nil
}

func (f *filter) next(last key) string {
	if f.numbered() {
		return strconv.FormatInt(last.n, 10) + "~" + last.id
	}
	return last.id
}

func listRooms(q *request, in search) (*answer, error) {
	f, err := newFilter(in)
	if err != nil {
		return nil, err
	}
	after, some, err := f.after()
	if err != nil {
		return nil, err
	}
	if len(in.Watch) > 0 {
		return q.watchLobby(&f)
	}
	all, err := q.api.rooms.Lobby(q.Context())
	if err != nil {
		return nil, err
	}
	return &answer{status: http.StatusOK, cache: lobbyAge, body: q.page(all, &f, after, some)}, nil
}

// page returns the filter's first rooms that the caller may see; if some is true, the first after behind.
func (q *request) page(all *coordinator.Lobby, f *filter, behind key, some bool) lobby {
	var keys []key
	for _, r := range all.Rooms {
		if k := f.key(r); (!some || behind.compare(k) < 0) && f.has(r) && q.lists(r.ID) {
			if keys = append(keys, k); !f.numbered() && len(keys) > f.Limit {
				break // ids come in order
			}
		}
	}
	slices.SortFunc(keys, key.compare)
	page := lobby{Rooms: []listed{}, Truncated: all.Truncated}
	for _, k := range keys[:min(len(keys), f.Limit)] {
		page.Rooms = append(page.Rooms, newListed(all.Find(k.id)))
	}
	if len(keys) > f.Limit {
		page.Next = f.next(keys[f.Limit-1])
	}
	return page
}
