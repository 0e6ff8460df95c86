package coordinator

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"time"

	"roomd/room"
	"roomd/room/coordinator/internal/relay"
)

// MaxFeedPage is how many entries [Coordinator.Feed] returns at most, not counting gaps.
const MaxFeedPage = 1000

// maxFeedRooms limits the rooms listed at once, because each is read by itself.
const maxFeedRooms = 100

// FeedEntry is a commit of any room, or a gap where commits are missing.
type FeedEntry struct {
	Next string // where to continue after this entry; empty if that is possible only after a later entry
	Room string // empty where the list of all rooms begins or ends
	JournalEntry
	Gap *FeedGap // nil for a commit; in a gap only Time of JournalEntry is set
}

// FeedGap says that commits of a room are missing, because its journal or the feed dropped them before they were
// read: those after After and before Before. A zero After stands for whatever the reader knows, a zero Before for
// Now.
type FeedGap struct {
	After, Before room.Position
	Now           *room.Snapshot // the room after the missing commits; nil if there is none, or an [room.ErrForeign]
	List          FeedList       // set only in an entry without a room
}

// FeedList says that a list of all rooms begins or ends, because commits of any rooms are missing. The list has a gap
// for each room. A room that the reader knows and does not find there is gone. A list may begin again before it has
// ended.
type FeedList string

// The ends of a list of all rooms.
const (
	FeedListBegins FeedList = "begin"
	FeedListEnds   FeedList = "end"
)

// FeedPage is a part of the feed.
type FeedPage struct {
	Entries []FeedEntry
	Next    string // where to continue; empty for the beginning
	More    bool   // more entries are available already
}

// feedCursor matches an entry's id, followed by the place in the list of all rooms while the list is read.
var feedCursor = regexp.MustCompile(`^[0-9]{1,19}-[0-9]{1,19}(~[0-9]{1,18}(\.[A-Za-z0-9_-]{0,32})?)?$`)

// HasFeed reports whether this node has Options.Feed.
func (h *history) HasFeed() bool { return h.feed > 0 }

// Feed returns a page of the commits in the rooms that shows accepts. after is where it begins: the Next of an earlier
// page, or "" for the first remaining entry. It looks at most at limit entries; limit is from 1 to MaxFeedPage. Each
// room's commits come in order, at least once: repeated ones have the same epoch and version. Nodes need Options.Feed.
//
// If entries after that place were dropped, all rooms come first, each as a gap, between two entries with a FeedList.
//
// It fails with [room.ErrInvalid], [room.ErrUnavailable] or the cause of ctx.
func (h *history) Feed(ctx context.Context, after string, limit int, shows func(id string) bool) (page FeedPage,
	err error) {
	switch {
	case limit < 1 || limit > MaxFeedPage:
		return page, &room.InvalidError{Field: "limit",
			Problem: fmt.Sprintf("must be from 1 to %d, not %d", MaxFeedPage, limit)}
	case after != "" && !feedCursor.MatchString(after):
		return page, &room.InvalidError{Field: "after",
			Problem: fmt.Sprintf("must be next of the page before, such as 1767225600000-0, not %.100q", after)}
	}
	id, from, listing := strings.Cut(after, "~")
	if !listing {
		entries, dropped, err := h.relay.Read(ctx, id, limit)
		if err != nil {
			return page, h.explainFeed(ctx, err)
		}
		if !dropped {
			return h.feedPage(ctx, after, entries, limit, shows)
		}
		return h.beginList(ctx, limit, shows)
	}
	return h.roomsPage(ctx, id, from, limit, shows)
}

func (h *history) feedPage(ctx context.Context, after string, entries []relay.Entry, limit int,
	shows func(string) bool) (FeedPage, error) {
	page := FeedPage{Next: after, More: len(entries) == limit}
	for _, e := range entries {
		page.Next = e.ID
		if !shows(e.Room) {
			continue
		}
		one := FeedEntry{Next: e.ID, Room: e.Room}
		if one.Time = e.Time; e.Gap != nil {
			now, err := h.snapshot(ctx, e.Room)
			if err != nil {
				return page, err
			}
			one.Gap = &FeedGap{After: e.Gap.After, Before: e.Gap.Before, Now: now}
		} else {
			one.Position, one.Node, one.Changes = e.Commit.Position, e.Commit.Node, e.Commit.Event(e.Room).Changes
		}
		page.Entries = append(page.Entries, one)
	}
	return page, nil
}

// beginList returns the first part of the list of all rooms. Commits from now on follow the list.
func (h *history) beginList(ctx context.Context, limit int, shows func(string) bool) (FeedPage, error) {
	id, err := h.relay.Newest(ctx)
	if err != nil {
		return FeedPage{}, h.explainFeed(ctx, err)
	}
	return h.roomsPage(ctx, cmp.Or(id, "0-0"), "", limit, shows)
}

// roomsPage returns a part of the list of all rooms. from is where it begins, id where the feed continues after the
// list. If Redis was restarted or replaced since the earlier part, the list begins again.
func (h *history) roomsPage(ctx context.Context, id, from string, limit int, shows func(string) bool) (FeedPage,
	error) {
	list, err := h.relay.List(ctx, from, min(limit, maxFeedRooms))
	if err != nil {
		return FeedPage{}, h.explainFeed(ctx, err)
	}
	if list.Begins && from != "" { // another server, which may not know id
		return h.beginList(ctx, limit, shows)
	}
	page := FeedPage{Next: id, More: true}
	if list.Begins {
		page.Entries = append(page.Entries, FeedEntry{Gap: &FeedGap{List: FeedListBegins}})
	}
	for _, id := range list.Rooms {
		if shows(id) {
			now, err := h.snapshot(ctx, id)
			if err != nil {
				return page, err
			}
			page.Entries = append(page.Entries, FeedEntry{Room: id, Gap: &FeedGap{Now: now}})
		}
	}
	if list.Next == "" {
		page.Entries = append(page.Entries, FeedEntry{Gap: &FeedGap{List: FeedListEnds}})
	} else {
		page.Next += "~" + list.Next
	}
	if n := len(page.Entries); n > 0 {
		page.Entries[n-1].Next = page.Next
	}
	return page, nil
}

// snapshot returns a room as it is now; nil if there is none, or its key holds what roomd has not written.
func (h *history) snapshot(ctx context.Context, id string) (*room.Snapshot, error) {
	now, err := h.read(ctx, id)
	if errors.Is(err, room.ErrForeign) || err == nil && now.Epoch == "" {
		return nil, nil
	}
	return &now, err
}

// AwaitFeed waits for an entry that follows a page. after is the page's Next; in a list of all rooms it does not wait.
// It fails with [room.ErrUnavailable] or the cause of ctx.
func (h *history) AwaitFeed(ctx context.Context, after string) error {
	if strings.Contains(after, "~") {
		return nil
	}
	return h.explainFeed(ctx, h.relay.Await(ctx, after))
}

func (h *history) explainFeed(ctx context.Context, err error) error {
	if err == nil {
		return nil
	}
	return unavailable(ctx, fmt.Errorf("the feed: %w", h.store.Explain(ctx, err, h.store.Shared()...)))
}

// feedLock precedes a reader's name in the name of its lock. No room can have such an id.
const feedLock = "~feed-"

// ReadFeedAs calls read on one node at a time, with the place that the named reader kept last. name has letters and
// digits. A new reader waits for an entry, and begins with the first remaining one. keep saves a place, the Next of a
// [FeedPage], even after ctx has ended. The context of read ends when another node may read. ReadFeedAs returns the
// error of read, lockmgr.ErrHeld if another node reads, or an error of Redis.
func (h *history) ReadFeedAs(ctx context.Context, name string,
	read func(ctx context.Context, place string, keep func(place string) error) error) error {
	lock, err := h.locks.TryAcquire(ctx, feedLock+name)
	if err != nil {
		return err
	}
	lock.KeepAlive()
	holds, cancel := lock.Context(ctx)
	ending := func(do func(context.Context) error) error { // calls do even if ctx has ended
		soon, stop := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
		defer stop()
		return do(soon)
	}
	defer func() {
		cancel()
		_ = ending(lock.Release) // if this fails, the lock expires
	}()
	place, err := h.relay.Begin(holds, name)
	if err != nil {
		return err
	}
	return read(holds, place, func(place string) error {
		return ending(func(ctx context.Context) error { return h.relay.Keep(ctx, name, place) })
	})
}
