package api

import (
	"time"

	"roomd/room"
)

// entry is a commit of a room's journal.
type entry struct {
	ID      string    `json:"id" doc:"Places the entry in the journal."`
	Time    time.Time `json:"time" doc:"By the clock of Redis."`
	Epoch   string    `json:"epoch" minLength:"1"`
	Version uint64    `json:"version" minimum:"1"`
	Mark    string    `json:"mark" doc:"Of this one commit."`
	Node    string    `json:"node"`
	Changes []change  `json:"changes"`
}

// change is a change of a room, as in the protocol's events.
type change struct {
	Type     string    `json:"type"`
	User     string    `json:"user,omitzero" minLength:"1" maxLength:"64"`
	Seat     *int      `json:"seat,omitzero" minimum:"0" maximum:"65535" doc:"Of a member."`
	Reason   string    `json:"reason,omitzero"`
	Away     bool      `json:"away,omitzero" enum:"true"`
	Ready    *bool     `json:"ready,omitzero" doc:"Of a member; without it that is as before."`
	Text     string    `json:"text,omitzero"`
	Data     rawJSON   `json:"data,omitzero" doc:"Any JSON. Of a member: without it that is as before, and null is none. The private data of a member are here, too."`
	To       any       `json:"to,omitzero" doc:"The users whom a message is for (a list), or the room to which a user was moved (its id)."`
	Settings *settings `json:"settings,omitzero"`
	Name     string    `json:"name,omitzero" minLength:"1" maxLength:"32" doc:"Of a timer."`
	In       **int64   `json:"in,omitzero" minimum:"0" doc:"Of a countdown: in how many ms from the entry's time on the timer fires, or null if it was cancelled."`
}

type journal struct {
	Entries []entry `json:"entries" maxItems:"1000"`
	Next    string  `json:"next,omitzero" doc:"What after gets for the next page; absent on the last."`
}

type journalPage struct {
	After string `query:"after" pattern:"^([0-9]{1,19}-[0-9]{1,19})?$" doc:"Only entries behind this one; next of the page before."`
	Limit int    `query:"limit" minimum:"1" maximum:"1000" default:"100" doc:"How long the page may be."`
}

func readJournal(q *request, in journalPage) (*answer, error) {
	entries, err := q.api.rooms.Journal(q.Context(), q.room, in.After, in.Limit)
	if err != nil {
		return nil, err
	}
	page := journal{Entries: make([]entry, 0, len(entries))}
	for _, e := range entries {
		one := entry{e.ID, e.Time.UTC(), e.Epoch, e.Version, e.CommitID, e.Node, make([]change, 0, len(e.Changes))}
		for i := range e.Changes {
			one.Changes = append(one.Changes, changeOf(&e.Changes[i], e.Time))
		}
		page.Entries = append(page.Entries, one)
	}
	if len(entries) == in.Limit {
		page.Next = entries[in.Limit-1].ID
	}
	return ok(page)
}

// changeOf returns c as the API shows it. at is the time of its commit.
func changeOf(c *room.Change, at time.Time) change {
	one := change{Type: string(c.Type), User: c.User, Reason: string(c.Reason), Away: c.Away}
	if c.Type.OfMember() {
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
		one.Settings = new(settings(*c.Settings))
	}
	if c.Timer != nil {
		switch one.Name = c.Timer.Name; {
		case c.Timer.Due != 0:
			one.In = new(new(max(0, c.Timer.Due-at.UnixMilli())))
		case c.Type == room.KindCountdown:
			one.In = new(*int64) // null
		}
	}
	return one
}
