package api

import (
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"roomd/room"
	"roomd/room/coordinator"
)

// entry is a commit of a room's journal.
type entry struct {
	ID      string    `json:"id"`
	Time    time.Time `json:"time"`
	Epoch   string    `json:"epoch"`
	Version uint64    `json:"version"`
	Mark    string    `json:"mark"`
	Node    string    `json:"node"`
	Changes []change  `json:"changes"`
}

// change is what happened to a room, as the events of the protocol have it.
type change struct {
	Type     string         `json:"type"`
	User     string         `json:"user,omitzero"`
	Seat     *int           `json:"seat,omitzero"` // of a member
	Reason   string         `json:"reason,omitzero"`
	Away     bool           `json:"away,omitzero"`
	Ready    bool           `json:"ready,omitzero"`
	Text     string         `json:"text,omitzero"`
	Data     jsontext.Value `json:"data,omitzero"`
	To       any            `json:"to,omitzero"` // users of a message, or the room of a leave
	Settings *settings      `json:"settings,omitzero"`
}

// journalPage is a part of a journal.
type journalPage struct {
	Entries []entry `json:"entries"`
	// Next is what ?after= gets for the next page; empty if this is the last.
	Next string `json:"next,omitzero"`
}

// readJournal is GET /api/rooms/{id}/log.
func readJournal(q *request) (*answer, error) {
	values, err := q.query("after", "limit")
	if err != nil {
		return nil, err
	}
	limit, err := number(values, "limit", defaultPage, 1, maxPage)
	if err != nil {
		return nil, err
	}
	entries, err := q.api.rooms.Journal(q.Context(), q.room, values.Get("after"), limit)
	if err != nil {
		return nil, err
	}
	page := journalPage{Entries: make([]entry, 0, len(entries))}
	for _, e := range entries {
		page.Entries = append(page.Entries, entryOf(e))
	}
	if len(entries) == limit {
		page.Next = entries[limit-1].ID
	}
	return ok(page)
}

func entryOf(e coordinator.JournalEntry) entry {
	all := entry{e.ID, e.Time.UTC(), e.Epoch, e.Version, e.Mark, e.Node, make([]change, 0, len(e.Changes))}
	for i := range e.Changes {
		all.Changes = append(all.Changes, changeOf(&e.Changes[i]))
	}
	return all
}

func changeOf(c *room.Change) change {
	one := change{Type: string(c.Type), User: c.User, Reason: string(c.Reason), Away: c.Away}
	switch c.Type {
	case room.KindSettings, room.KindData, room.KindMessage:
	default:
		one.Seat = &c.Seat
	}
	if c.Detail == nil {
		return one
	}
	one.Ready, one.Text, one.Data = c.Ready, c.Text, c.Data
	switch {
	case c.To != nil:
		one.To = c.To
	case c.Target != "":
		one.To = c.Target
	}
	if c.Settings != nil {
		one.Settings = new(settingsOf(*c.Settings))
	}
	return one
}
