package api

import (
	"net/http"
	"slices"
	"strings"

	"roomd/room"
	"roomd/room/coordinator"
)

// Pages of the lobby and of the log.
const (
	defaultPage = 100
	maxPage     = 1000
)

// lobbyAge lets a caller keep the lobby for as long as it is fresh. It is private, because a token
// decides what is in it.
const lobbyAge = "private, max-age=1"

// listed is a room in the lobby.
type listed struct {
	Room     string `json:"room"`
	Count    int    `json:"count"`
	Capacity int    `json:"capacity"` // 0 is as many as there can be
	Free     int    `json:"free"`
	Closed   bool   `json:"closed"`
}

// lobbyPage is a part of the lobby.
type lobbyPage struct {
	Rooms []listed `json:"rooms"`
	// Next is what ?after= gets for the next page; empty if this is the last.
	Next string `json:"next,omitzero"`
	// Truncated says that not all rooms could be found.
	Truncated bool `json:"truncated,omitzero"`
}

// listRooms is GET /api/rooms.
func listRooms(q *request) (*answer, error) {
	values, err := q.query("prefix", "contains", "after", "limit", "free")
	if err != nil {
		return nil, err
	}
	for _, name := range []string{"prefix", "contains", "after"} {
		if text := values.Get(name); text != "" && room.CheckID(text) != nil {
			return nil, badField(name, "must be a room's id or a part of it, of A-Z a-z 0-9 . _ -, not %q", excerpt(text))
		}
	}
	limit, err := number(values, "limit", defaultPage, 1, maxPage)
	if err != nil {
		return nil, err
	}
	free, err := number(values, "free", 0, 0, room.MaxSeats)
	if err != nil {
		return nil, err
	}
	all, err := q.api.rooms.Lobby(q.Context())
	if err != nil {
		return nil, err
	}
	page := q.page(all, search{values.Get("prefix"), values.Get("contains"), values.Get("after"), limit, free})
	return &answer{status: http.StatusOK, cache: lobbyAge, body: page}, nil
}

// search says which rooms a page has: so many behind one, with that in their ids, and so many free
// seats.
type search struct {
	prefix, contains, after string
	limit, free             int
}

// page returns the rooms that the caller may see.
func (q *request) page(all *coordinator.Lobby, s search) lobbyPage {
	page := lobbyPage{Rooms: []listed{}, Truncated: all.Truncated}
	byID := func(r coordinator.Listed, id string) int { return strings.Compare(r.ID, id) }
	first, _ := slices.BinarySearchFunc(all.Rooms, max(s.prefix, s.after), byID)
	for _, r := range all.Rooms[first:] {
		if !strings.HasPrefix(r.ID, s.prefix) {
			break
		}
		if r.ID == s.after || !strings.Contains(r.ID, s.contains) || s.free > 0 && (r.Closed || r.Free() < s.free) || q.allow(r.ID) != nil {
			continue
		}
		if len(page.Rooms) == s.limit {
			page.Next = page.Rooms[s.limit-1].Room
			break
		}
		page.Rooms = append(page.Rooms, listed{r.ID, r.Members, r.Capacity, r.Free(), r.Closed})
	}
	return page
}
