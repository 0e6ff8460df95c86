package api

import (
	"context"
	"errors"
	"net/http"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/go-json-experiment/json"

	"roomd/lockmgr/redisconn/pause"
	"roomd/room"
	"roomd/room/coordinator"
	"roomd/transport/protocol"
)

// feedEntry is a commit of any room, or a gap.
type feedEntry struct {
	Next    string    `json:"next,omitzero" doc:"What after gets to read on behind this entry; absent where that is possible behind a later one only."`
	Room    string    `json:"room,omitzero" pattern:"^[A-Za-z0-9._-]{1,64}$" doc:"Absent where a list of all rooms begins or ends."`
	Time    time.Time `json:"time,omitzero" doc:"Of the commit, by the clock of Redis."`
	Epoch   string    `json:"epoch,omitzero"`
	Version uint64    `json:"version,omitzero" minimum:"1" doc:"With room and epoch it names the commit: what has all three in common is the same."`
	Mark    string    `json:"mark,omitzero" doc:"Of this one commit."`
	Node    string    `json:"node,omitzero"`
	Changes []change  `json:"changes,omitzero"`
	Gap     *feedGap  `json:"gap,omitzero" doc:"Commits are missing here. Such an entry is no commit."`
}

// feedGap describes missing commits.
type feedGap struct {
	After  *feedPoint `json:"after,omitzero" doc:"The commits behind this one are missing; absent for those behind whatever the reader has."`
	Before *feedPoint `json:"before,omitzero" doc:"The commits before this one are missing; absent for all up to the state."`
	State  *roomState `json:"state,omitzero" doc:"The room, later than what is missing; absent if it is gone. Commits that follow may be in it already."`
	List   string     `json:"list,omitzero" enum:"begin,end" doc:"In an entry without a room: of any rooms commits are missing, and a list of all rooms, each as a gap with its state, begins or ends here. A room that you knew before the beginning, and that is not in the list, is over. A list may begin again before it has ended."`
}

// feedPoint names a commit of the room.
type feedPoint struct {
	Epoch   string `json:"epoch"`
	Version uint64 `json:"version" minimum:"1"`
}

func pointOf(at room.Position) *feedPoint {
	if at.Epoch == "" {
		return nil
	}
	return &feedPoint{at.Epoch, at.Version}
}

// newFeedEntry returns an entry as admins see it. now is the nodes' common time, in ms since 1970.
func newFeedEntry(e *coordinator.FeedEntry, now int64) feedEntry {
	one := feedEntry{Next: e.Next, Room: e.Room, Epoch: e.Epoch, Version: e.Version, Mark: e.CommitID, Node: e.Node}
	if !e.Time.IsZero() {
		one.Time = e.Time.UTC()
	}
	if e.Gap != nil {
		one.Gap = &feedGap{After: pointOf(e.Gap.After), Before: pointOf(e.Gap.Before), List: string(e.Gap.List)}
		if e.Gap.Now != nil {
			one.Gap.State = new(stateOf(e.Room, *e.Gap.Now, room.Viewer{Authority: true}, now))
		}
		return one
	}
	one.Changes = make([]change, 0, len(e.Changes))
	for i := range e.Changes {
		one.Changes = append(one.Changes, changeOf(&e.Changes[i], e.Time))
	}
	return one
}

// EncodeFeedEntry returns e in JSON, as admins see it. now is the nodes' common time, in ms since 1970.
func EncodeFeedEntry(e *coordinator.FeedEntry, now int64) []byte {
	text, _ := json.Marshal(newFeedEntry(e, now), json.Deterministic(true)) // our own types, of valid UTF-8
	return text
}

// FeedFilter selects entries of the feed.
type FeedFilter struct {
	Rooms []string // patterns as in path.Match, such as table-*; empty selects all
	Kinds []string // of changes: a commit needs one of them; empty selects all
}

// Check returns an error, a [room.ErrInvalid], that names a pattern or kind that cannot be used.
func (f *FeedFilter) Check() error {
	for _, pattern := range f.Rooms {
		if _, err := path.Match(pattern, ""); err != nil || pattern == "" {
			return badField("room", "must be a pattern such as table-*, not %q", protocol.Shorten(pattern))
		}
	}
	for _, kind := range f.Kinds {
		if !slices.Contains(room.ChangeKinds, room.Kind(kind)) {
			return badField("kind", "must be one of %v, not %q", room.ChangeKinds, protocol.Shorten(kind))
		}
	}
	return nil
}

// Shows reports whether the filter selects entries of a room.
func (f *FeedFilter) Shows(id string) bool {
	return len(f.Rooms) == 0 || slices.ContainsFunc(f.Rooms,
		func(pattern string) bool { is, _ := path.Match(pattern, id); return is })
}

// Has reports whether the filter selects an entry of a selected room. Gaps are always selected.
func (f *FeedFilter) Has(e *coordinator.FeedEntry) bool {
	return len(f.Kinds) == 0 || e.Gap != nil ||
		slices.ContainsFunc(e.Changes, func(c room.Change) bool { return slices.Contains(f.Kinds, string(c.Type)) })
}

type feedPage struct {
	Entries []feedEntry `json:"entries"`
	Next    string      `json:"next,omitzero" doc:"What after gets to read on, also if this page has no entries; absent while the feed is empty."`
	More    bool        `json:"more" doc:"There is more already. Else ask again a little later."`
}

type feedQuery struct {
	Room  []string `query:"room" doc:"Only rooms whose ids match this pattern, such as table-*; several times for rooms that match one of them."`
	Kind  []string `query:"kind" doc:"Only commits with a change of this type, such as join; several times for commits with one of them. All changes of such a commit are there. Gaps are told always."`
	After string   `query:"after" pattern:"^([0-9]{1,19}-[0-9]{1,19}(~[0-9]{1,18}(\\.[A-Za-z0-9_-]{0,32})?)?)?$" doc:"Only what is behind this; next of the page before. Without it from the first commit that is left. 0-0 begins with all rooms, each as a gap with its state."`
	Watch []string `query:"watch" doc:"Goes on: server-sent events (text/event-stream), commit or gap, with next as id. Last-Event-ID counts as after. A comment comes every 15 s. It ends with the token, or when the node stops: ask again."`
	Limit int      `query:"limit" minimum:"1" maximum:"1000" default:"100" doc:"How many commits a page looks at."`
}

func readFeed(q *request, in feedQuery) (*answer, error) {
	if !q.api.rooms.HasFeed() {
		return nil, notFound("this node has no feed; it needs --journal and --feed, as all nodes do")
	}
	r := &FeedReader{Rooms: q.api.rooms, Filter: FeedFilter{in.Room, in.Kind}, Shows: q.mayEnter, Limit: in.Limit,
		Place: in.After}
	if err := r.Filter.Check(); err != nil {
		return nil, err
	}
	if len(in.Watch) > 0 {
		if last := q.Header.Get("Last-Event-ID"); last != "" {
			r.Place = last
		}
		return q.watchFeed(r)
	}
	page, err := r.read(q.Context())
	if err != nil {
		return nil, err
	}
	body := feedPage{Entries: make([]feedEntry, 0, len(page.Entries)), Next: page.Next, More: page.More}
	for i := range page.Entries {
		body.Entries = append(body.Entries, newFeedEntry(&page.Entries[i], q.api.rooms.Now()))
	}
	return ok(body)
}

// FeedReader reads the entries of the feed that a filter selects.
type FeedReader struct {
	Rooms interface {
		Feed(ctx context.Context, after string, limit int, shows func(id string) bool) (coordinator.FeedPage, error)
		AwaitFeed(ctx context.Context, after string) error
	}
	Filter FeedFilter
	// Shows reports whether to read the entries of a room that Filter selects. Nil reads all.
	Shows func(id string) bool
	// Limit is the number of entries that Next reads at once.
	Limit int
	// Place is the place after which Next reads. Next moves it.
	Place string
}

// read returns the page after Place, with the selected entries.
func (r *FeedReader) read(ctx context.Context) (coordinator.FeedPage, error) {
	page, err := r.Rooms.Feed(ctx, r.Place, r.Limit,
		func(id string) bool { return r.Filter.Shows(id) && (r.Shows == nil || r.Shows(id)) })
	page.Entries = slices.DeleteFunc(page.Entries, func(e coordinator.FeedEntry) bool { return !r.Filter.Has(&e) })
	return page, err
}

const (
	feedPages = 1000            // entries read at once for a watcher
	feedRetry = time.Second     // the pause after a failure
	feedRead  = 8 * time.Second // how long one read may take
	feedBytes = 64 << 10        // roughly the size of a write
)

// Next returns the next selected entries. It waits up to 15 s for some, and returns none if none come, or none of a
// page is selected. passed is the new Place if it is not the Next of the last entry returned, otherwise empty.
func (r *FeedReader) Next(ctx context.Context) (entries []coordinator.FeedEntry, passed string, err error) {
	waiting, cancel := context.WithTimeout(ctx, watchBeat)
	defer cancel()
	for before := r.Place; ; {
		reading, cancel := context.WithTimeout(ctx, feedRead)
		page, err := r.read(reading)
		cancel()
		if err != nil {
			return nil, "", err
		}
		if r.Place = page.Next; len(page.Entries) == 0 && !page.More {
			err = r.Rooms.AwaitFeed(waiting, r.Place)
		}
		late := errors.Is(err, context.DeadlineExceeded) && ctx.Err() == nil
		switch n := len(page.Entries); {
		case err != nil && !late:
			return nil, "", err
		case n == 0 && !late && !page.More:
			continue
		case r.Place != before && (n == 0 || page.Entries[n-1].Next != r.Place):
			passed = r.Place
		}
		return page.Entries, passed, nil
	}
}

// watchFeed streams the entries after r.Place; for its end see watchBy.
func (q *request) watchFeed(r *FeedReader) (*answer, error) {
	if q.URL.Query().Has("limit") {
		return nil, badField("watch", "does not go with limit")
	}
	r.Limit = 1
	if _, err := r.read(q.Context()); err != nil { // an impossible place, or no Redis
		return nil, err
	}
	r.Limit = feedPages
	return q.watchBy(func(ctx context.Context, s *eventStream) {
		var err error
		for err == nil {
			entries, passed, failed := r.Next(ctx)
			switch {
			case failed != nil: // Redis does not answer: keep the caller
				if err = s.write(":\n\n"); err == nil {
					err = pause.For(ctx, feedRetry)
				}
			case len(entries) == 0 && passed == "":
				err = s.write(":\n\n")
			default:
				err = s.writeFeed(entries, passed, q.api.rooms.Now())
			}
		}
	})
}

// writeFeed writes entries, and then the place in passed, unless that is empty.
func (s *eventStream) writeFeed(entries []coordinator.FeedEntry, passed string, now int64) error {
	var text strings.Builder
	for i := range entries {
		e := &entries[i]
		name := "commit"
		if e.Gap != nil {
			name = "gap"
		}
		if e.Next != "" {
			text.WriteString("id: " + e.Next + "\n")
		}
		text.WriteString("event: " + name + "\ndata: ")
		text.Write(EncodeFeedEntry(e, now))
		text.WriteString("\n\n")
		if text.Len() >= feedBytes {
			if err := s.write(text.String()); err != nil {
				return err
			}
			text.Reset()
		}
	}
	if passed != "" {
		text.WriteString("id: " + passed + "\n\n") // entries that were left out need not be read again
	}
	return s.write(text.String())
}

// mayEnter reports whether the token gives authority over a room.
func (q *request) mayEnter(id string) bool {
	return q.allow(id, &operation{method: http.MethodGet, admin: true}) == nil
}

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
		one.Settings = new(settings(c.Settings.Named()))
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
