package coordinator

import (
	"context"
	"fmt"
	"regexp"
	"time"

	"roomd/lockmgr"
	"roomd/room"
	"roomd/room/coordinator/internal/relay"
	"roomd/room/coordinator/internal/store"
)

// history reads earlier commits: the journals of rooms, and the feed of all rooms (feed.go).
type history struct {
	store *store.Store
	locks *lockmgr.Manager
	relay *relay.Relay
	feed  int // Options.Feed
	read  func(ctx context.Context, id string) (room.Snapshot, error)
}

// MaxJournalPage is how many entries [Coordinator.Journal] returns at most.
const MaxJournalPage = 1000

// JournalEntry is a commit in a room's journal.
type JournalEntry struct {
	ID            string    // its place in the journal
	Time          time.Time // when it was written, by the clock of Redis
	room.Position           // of the room after the commit
	Node          string
	Changes       []room.Change // as in its event, also those that [room.Change.IsFor] shows only to some
}

// entryID matches the id of a stream's entry: ms since 1970, and a number.
var entryID = regexp.MustCompile(`^[0-9]{1,19}-[0-9]{1,19}$`)

// Journal returns at most limit entries of a room's journal, oldest first. after is the ID of the entry before them, or
// "" to begin with the first remaining one. limit is from 1 to MaxJournalPage. Nodes without Options.Journal can read a
// journal, too.
//
// It fails with [room.ErrInvalid], [room.ErrForeign], [room.ErrUnavailable] or the cause of ctx.
func (h *history) Journal(ctx context.Context, id, after string, limit int) ([]JournalEntry, error) {
	if err := room.CheckID(id); err != nil {
		return nil, err
	}
	from := "-"
	switch {
	case limit < 1 || limit > MaxJournalPage:
		return nil, &room.InvalidError{Field: "limit",
			Problem: fmt.Sprintf("must be from 1 to %d, not %d", MaxJournalPage, limit)}
	case after != "" && !entryID.MatchString(after):
		return nil, &room.InvalidError{Field: "after",
			Problem: fmt.Sprintf("must be the id of an entry, such as 1767225600000-0, not %.100q", after)}
	case after != "":
		from = "(" + after
	}
	messages, err := h.store.Journal(ctx, id, from, limit)
	if err != nil {
		return nil, unavailable(ctx, fmt.Errorf("read the journal of room %s: %w", id, err))
	}
	entries := make([]JournalEntry, 0, len(messages))
	for _, m := range messages {
		commit, at, err := store.ParseEntry(m)
		if err != nil {
			return nil, fmt.Errorf("%w: entry %s in the journal of room %s: %w", room.ErrUnavailable, m.ID, id, err)
		}
		entries = append(entries, JournalEntry{ID: m.ID, Time: at, Position: commit.Position, Node: commit.Node,
			Changes: commit.Event(id).Changes})
	}
	return entries, nil
}

// Kept returns the last messages that a room has kept under its settings, at most as many as most says. It fails with
// [room.ErrInvalid], [room.ErrUnavailable] or the cause of ctx.
func (c *Coordinator) Kept(ctx context.Context, id string, most int) (room.Kept, error) {
	if err := room.CheckID(id); err != nil {
		return room.Kept{}, err
	}
	kept, err := c.store.Kept(ctx, id, most)
	if err != nil {
		return room.Kept{}, unavailable(ctx, err)
	}
	return kept, nil
}
