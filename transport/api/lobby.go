package api

import (
	"net/http"
	"slices"
	"strings"

	"roomd/room"
	"roomd/room/coordinator"
)

// lobbyAge lets nobody show a list again: who has just made a room looks for it. It is private, because
// a token decides what is in it.
const lobbyAge = "private, no-cache"

// listed is a room in the lobby.
type listed struct {
	Room     string `json:"room" pattern:"^[A-Za-z0-9._-]{1,64}$"`
	Count    int    `json:"count" minimum:"0" doc:"How many members there are."`
	Capacity int    `json:"capacity" minimum:"0" maximum:"65536" doc:"How many seats there are; 0 is as many as there can be."`
	Free     int    `json:"free" minimum:"0" maximum:"65536"`
	Closed   bool   `json:"closed"`
}

// lobby is a page of the rooms.
type lobby struct {
	Rooms     []listed `json:"rooms" maxItems:"1000"`
	Next      string   `json:"next,omitzero" pattern:"^[A-Za-z0-9._-]{1,64}$" doc:"What after gets for the next page; absent on the last."`
	Truncated bool     `json:"truncated,omitzero" enum:"true" doc:"Not all rooms could be found."`
}

// search is the query of the lobby.
type search struct {
	Prefix   string `query:"prefix" pattern:"^[A-Za-z0-9._-]{0,64}$" doc:"Only rooms whose ids begin so."`
	Contains string `query:"contains" pattern:"^[A-Za-z0-9._-]{0,64}$" doc:"Only rooms that have this somewhere in their ids."`
	After    string `query:"after" pattern:"^[A-Za-z0-9._-]{0,64}$" doc:"Only rooms behind this id; next of the page before."`
	Limit    int    `query:"limit" minimum:"1" maximum:"1000" default:"100" doc:"How long the page may be."`
	Free     int    `query:"free" minimum:"0" maximum:"65536" default:"0" doc:"Only rooms that are not closed and have at least so many free seats."`
}

func listRooms(q *request, in search) (*answer, error) {
	for name, text := range map[string]string{"prefix": in.Prefix, "contains": in.Contains, "after": in.After} {
		if strings.Trim(text, ".") != "" && room.CheckID(text) != nil {
			return nil, badField(name, "must be a room's id or a part of it, of A-Z a-z 0-9 . _ -, not %q", excerpt(text))
		}
	}
	all, err := q.api.rooms.Lobby(q.Context())
	if err != nil {
		return nil, err
	}
	return &answer{status: http.StatusOK, cache: lobbyAge, body: q.page(all, in)}, nil
}

// page returns the rooms that the caller may see.
func (q *request) page(all *coordinator.Lobby, in search) lobby {
	page := lobby{Rooms: []listed{}, Truncated: all.Truncated}
	byID := func(r coordinator.Listed, id string) int { return strings.Compare(r.ID, id) }
	first, _ := slices.BinarySearchFunc(all.Rooms, max(in.Prefix, in.After), byID)
	for _, r := range all.Rooms[first:] {
		if !strings.HasPrefix(r.ID, in.Prefix) {
			break
		}
		if r.ID == in.After || !strings.Contains(r.ID, in.Contains) || in.Free > 0 && (r.Closed || r.Free() < in.Free) || !q.lists(r.ID) {
			continue
		}
		if len(page.Rooms) == in.Limit {
			page.Next = page.Rooms[in.Limit-1].Room
			break
		}
		page.Rooms = append(page.Rooms, listed{r.ID, r.Members, r.Capacity, r.Free(), r.Closed})
	}
	return page
}
