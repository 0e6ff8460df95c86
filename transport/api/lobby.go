package api

import (
	"cmp"
	"context"
	"errors"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json"

	"roomd/room"
	"roomd/room/coordinator"
	"roomd/transport/protocol"
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
			return f, badField(name,
				"must be a room's id or a part of it, of A-Z a-z 0-9 . _ -, not %q", protocol.Shorten(text))
		}
	}
	labels := make(map[string]string)
	for _, label := range in.Label {
		name, value, ok := strings.Cut(label, ":")
		if _, twice := labels[name]; !ok || twice {
			return f, badField("label", "must be name:value, each name once, not %q", protocol.Shorten(label))
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
			protocol.Shorten(f.After))
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

// page returns the first page of the filter's rooms that the caller may see, or if some is true the page after behind.
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

type lobbyEvent struct {
	Rooms []listed `json:"rooms"`
	Gone  []string `json:"gone,omitzero"`
	More  bool     `json:"more,omitzero"` // the list is complete only with the next event
}

// watchLobby streams the rooms of a filter, and then their changes; for its end see watchBy.
func (q *request) watchLobby(f *filter) (*answer, error) {
	if f.Sort != "" || f.After != "" || q.URL.Query().Has("limit") {
		return nil, badField("watch", "does not go with sort, after or limit")
	}
	return q.watchBy(func(ctx context.Context, events *eventStream) {
		s := &lobbyStream{events, q, f}
		for before, err := s.next(ctx, nil); err == nil; before, err = s.next(ctx, before) {
		}
	})
}

type lobbyStream struct {
	events *eventStream
	q      *request
	f      *filter
}

// next waits for a list newer than before, and writes the differences; without before, it writes the whole list. If
// none comes within watchBeat, it writes an empty comment. It returns the list that the caller has now.
func (s *lobbyStream) next(ctx context.Context, before *coordinator.Lobby) (*coordinator.Lobby, error) {
	patience, cancel := context.WithTimeout(ctx, watchBeat)
	defer cancel()
	now, ids, err := s.q.api.rooms.NextLobby(patience, before)
	switch {
	case errors.Is(err, context.DeadlineExceeded) && ctx.Err() == nil:
		return before, s.events.write(":\n\n")
	case err != nil:
		return nil, err
	case before == nil:
		return now, s.whole(now)
	}
	return now, s.changes(before, now, ids)
}

// shows reports whether the caller sees a room; nil is no room.
func (s *lobbyStream) shows(r *coordinator.Listed) bool {
	return r != nil && s.f.has(r) && s.q.lists(r.ID)
}

func (s *lobbyStream) whole(now *coordinator.Lobby) error {
	e := lobbyEvent{Rooms: []listed{}}
	for _, r := range now.Rooms {
		if s.shows(r) {
			e.Rooms = append(e.Rooms, newListed(r))
		}
	}
	return s.send("rooms", e)
}

func (s *lobbyStream) changes(before, now *coordinator.Lobby, ids []string) error {
	e := lobbyEvent{Rooms: []listed{}}
	for _, id := range ids {
		was, is := before.Find(id), now.Find(id)
		switch shown := s.shows(was); {
		case s.shows(is) && (!shown || differ(*was, *is)):
			e.Rooms = append(e.Rooms, newListed(is))
		case shown && !s.shows(is):
			e.Gone = append(e.Gone, id)
		}
	}
	if len(e.Rooms) == 0 && len(e.Gone) == 0 {
		return nil
	}
	return s.send("changes", e)
}

// differ reports whether two states of a room look different in the lobby.
func differ(was, is coordinator.Listed) bool {
	was.Epoch, was.Version = is.Epoch, is.Version
	return was != is
}

// send writes an event, in parts if it has many rooms.
func (s *lobbyStream) send(name string, e lobbyEvent) error {
	parts := slices.Collect(slices.Chunk(e.Rooms, maxEvent))
	if len(parts) == 0 {
		parts = [][]listed{{}}
	}
	for i, part := range parts {
		data, err := json.Marshal(lobbyEvent{part, e.Gone, i < len(parts)-1}, json.Deterministic(true))
		if err == nil {
			err = s.events.write("event: " + name + "\ndata: " + string(data) + "\n\n")
		}
		if err != nil {
			return err
		}
		name, e.Gone = "changes", nil
	}
	return nil
}
