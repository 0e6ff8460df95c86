package lobby

import (
	"cmp"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/go-json-experiment/json"

	"roomd/room"
)

const (
	// matchKept is how long a request that is sent again finds the same room.
	matchKept = time.Minute

	// maxOthers bounds with how many other labels a room is looked for at once, maxRefused how many rooms that
	// would not do it is looked beyond, and maxAllowed how many are named to it of those that are allowed.
	maxOthers  = 16
	maxRefused = 20
	maxAllowed = 20

	maxKey = 64 // bytes
)

// NewIDLength is how many characters the id of a new room has behind its prefix.
const NewIDLength = 10

// Wanted is what somebody looks for.
type Wanted struct {
	Labels   room.Labels   // that the room has, perhaps among others; not empty
	Seats    int           // together
	Settings room.Settings // of the room that begins if there is none; its labels are Labels
	Prefix   string        // of the id of such a room, which has NewIDLength characters more; empty if none may begin
	NoNew    error         // with which a match fails that finds no room, where none may begin for another reason; nil if one may
	By       string        // who looks
	Key      string        // names the request, among those of who looks for these labels, if it may be sent again; else empty

	// Allow says of a room in which somebody already sits whether it will do; nil allows all. One whose id begins
	// with Prefix does.
	Allow func(id string) bool
}

// Check returns a [room.InvalidError] that names the field if a room cannot be found or begun so.
func (w *Wanted) Check(rules room.Rules) error {
	if w.Labels == "" {
		return &room.InvalidError{Field: "labels", Problem: "must not be empty: without labels no room is found"}
	}
	if w.Settings.Labels != "" && w.Settings.Labels != w.Labels {
		return &room.InvalidError{Field: "settings.labels", Problem: "must be those that are looked for, or be left out"}
	}
	if len(w.Key) > maxKey {
		return &room.InvalidError{Field: "key", Problem: fmt.Sprintf("must be at most %d bytes long, not %d", maxKey, len(w.Key))}
	}
	if w.Prefix != "" {
		if err := room.CheckID(w.newID()); err != nil {
			return fmt.Errorf("prefix %q of new rooms, with %d characters behind it: %w", w.Prefix, NewIDLength, err)
		}
	}
	settings := w.Settings
	settings.Labels = w.Labels
	if _, err := room.Check(room.Configure{Settings: settings}, rules); err != nil {
		return err
	}
	if seats := settings.Seats(); w.Seats < 1 || w.Seats > seats {
		return &room.InvalidError{Field: "users", Problem: fmt.Sprintf("must be 1 to %d, the seats of a room, not %d", seats, w.Seats)}
	}
	return nil
}

// newID returns an id for a new room.
func (w *Wanted) newID() string { return w.Prefix + strings.ToLower(rand.Text()[:NewIDLength]) }

// Found is a room that was found. Its seats count as taken until the room is noted again: see [Lobby.Settle] and
// [Lobby.GiveBack].
type Found struct {
	Room     string        // empty if there is none, and none may begin
	Seats    int           // that count as taken; 0 where an earlier sending of the request has found the room
	New      bool          // nobody else has found it before
	Settings room.Settings // with which it is to begin if nobody has begun it; its labels are those of Wanted
}

// Claim finds a room. Some of them will not do, and are passed over. If begin is true all will not do, and a room
// begins.
func (l *Lobby) Claim(ctx context.Context, w Wanted, begin bool, not ...string) (Found, error) {
	list, err := l.Get(ctx)
	if err != nil {
		return Found{}, err
	}
	settings := w.Settings
	settings.Labels, settings.Default = w.Labels, true
	text, err := json.Marshal(settings)
	if err != nil {
		return Found{}, fmt.Errorf("%w: %w", room.ErrInvalid, err)
	}
	kept := int64(0)
	if w.Key != "" {
		kept = matchKept.Milliseconds()
	}
	not = not[max(0, len(not)-maxRefused):]
	allowed, only, id := list.allowed(w), "", ""
	if w.Allow != nil {
		only = cmp.Or(w.Prefix, "/") // with which no id begins
	}
	if w.Prefix != "" && w.NoNew == nil {
		id = w.newID()
	}
	args := []any{w.Seats, id, string(w.Labels), settings.Seats(), text, kept, only, len(not), len(allowed)}
	for _, id := range not {
		args = append(args, id)
	}
	for _, id := range allowed {
		args = append(args, id)
	}
	if !begin {
		args = append(args, string(w.Labels))
		for _, labels := range list.including(w.Labels) {
			args = append(args, string(labels))
		}
	}
	reply, err := l.index.store.Run(ctx, claimScript, append(slices.Clip(l.index.keys), l.index.match(w)), args...)
	if err != nil {
		return Found{}, l.explain(ctx, l.index.store.Explain(ctx, err, l.index.freeKey(w.Labels)))
	}
	seats, _ := reply[3].(int64)
	f := Found{Seats: int(seats), New: reply[1] == int64(1), Settings: settings}
	f.Room, _ = reply[0].(string)
	if begun, _ := reply[2].(string); begun != "" {
		if err := json.Unmarshal([]byte(begun), &f.Settings); err != nil {
			return Found{}, l.explain(ctx, err)
		}
		f.Settings.Adapt()
		f.Settings.Labels = w.Labels
	}
	return f, nil
}

// Tried is a room that was found, as the join has left it or found it. Without a version the join has not read it.
type Tried struct {
	Room     string
	At       room.Position
	Members  int
	Settings room.Settings
}

// Settle has the seats of a room be free again that somebody claimed who has not taken them, since they sat there
// before.
func (l *Lobby) Settle(r Tried) {
	if r.At.Version > 0 {
		l.news.put(changeOf(r.Room, r.At, r.Members, r.Settings))
	}
}

// GiveBack has the seats of a room be free again, and forgets a new room, after a join that has written nothing. If
// Redis does not answer, the next search does it.
func (l *Lobby) GiveBack(ctx context.Context, w Wanted, f Found, r Tried) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), l.news.timeout)
	defer cancel()
	var err error
	switch {
	case r.At.Version > 0:
		err = l.index.note(ctx, []*change{changeOf(r.Room, r.At, r.Members, r.Settings)})
	case f.Seats > 0:
		_, err = l.index.store.Run(ctx, unclaimScript, append(slices.Clip(l.index.keys), l.index.match(w)), f.Room, f.Seats, room.MaxSeats)
	}
	if err != nil && l.open.Err() == nil {
		l.failed.Happened(err)
	}
}

// allowed returns some rooms in the list that will do for who may not enter all, the fullest first.
func (l *List) allowed(w Wanted) (ids []string) {
	if w.Allow == nil {
		return nil
	}
	will := map[room.Labels]bool{w.Labels: true}
	for _, other := range l.including(w.Labels) {
		will[other] = true
	}
	var rooms []*Listed
	for _, r := range l.Rooms {
		if !r.Closed && will[r.Labels] && r.Free() >= w.Seats && w.Allow(r.ID) {
			rooms = append(rooms, r)
		}
	}
	slices.SortFunc(rooms, func(a, b *Listed) int { return cmp.Compare(a.Free(), b.Free()) })
	for _, r := range rooms[:min(len(rooms), maxAllowed)] {
		ids = append(ids, r.ID)
	}
	return ids
}

// match returns the key under which the room of a request is kept.
func (x *index) match(w Wanted) string {
	sum := sha256.Sum256([]byte(w.By + "\n" + string(w.Labels) + "\n" + w.Key))
	return x.store.Lobby("Match:" + base64.RawURLEncoding.EncodeToString(sum[:12]))
}

// including returns other labels than these, of rooms in the list, that include them.
func (l *List) including(labels room.Labels) (others []room.Labels) {
	l.once.Do(func() {
		seen := map[room.Labels]bool{"": true}
		for _, r := range l.Rooms {
			if !seen[r.Labels] && !r.Closed {
				seen[r.Labels], l.labels = true, append(l.labels, r.Labels)
			}
		}
	})
	for _, other := range l.labels {
		if other != labels && other.Include(labels) && len(others) < maxOthers {
			others = append(others, other)
		}
	}
	return others
}
