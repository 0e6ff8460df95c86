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
	// matchTTL is how long a repeated request finds the same room.
	matchTTL = time.Minute

	// maxOthers limits the other labels searched at once, maxRefused the unsuitable rooms that are skipped, and
	// maxAllowed the suitable rooms named to the script.
	maxOthers  = 16
	maxRefused = 20
	maxAllowed = 20

	maxKey = 64 // bytes
)

// NewIDLength is the number of characters after the prefix in a new room's id.
const NewIDLength = 10

// Wanted describes the room that a player looks for.
type Wanted struct {
	Labels   room.Labels   // labels that the room must have, perhaps among others; not empty
	Seats    int           // number of free seats that the room must have
	Settings room.Settings // of a new room; its labels are Labels
	Prefix   string        // of a new room's id, followed by NewIDLength characters; empty if no room may be created
	NoNew    error         // the error if no room is found and a reason other than Prefix forbids a new one; else nil
	By       string        // the user
	Key      string        // identifies a request for these labels that By may send again; else empty

	// Allow reports whether an occupied room is suitable; nil allows all. Rooms whose ids begin with Prefix are
	// always suitable.
	Allow func(id string) bool
}

// Check returns a [room.InvalidError] that names the field, unless w can find and create rooms.
func (w *Wanted) Check(rules room.Rules) error {
	if w.Labels == "" {
		return &room.InvalidError{Field: "labels", Problem: "must not be empty: without labels no room is found"}
	}
	if w.Settings.Labels != "" && w.Settings.Labels != w.Labels {
		return &room.InvalidError{Field: "settings.labels",
			Problem: "must be those that are looked for, or be left out"}
	}
	if len(w.Key) > maxKey {
		return &room.InvalidError{Field: "key", Problem: fmt.Sprintf("must be at most %d bytes long, not %d", maxKey,
			len(w.Key))}
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
		return &room.InvalidError{Field: "users", Problem: fmt.Sprintf("must be 1 to %d, the seats of a room, not %d",
			seats, w.Seats)}
	}
	return nil
}

func (w *Wanted) newID() string { return w.Prefix + strings.ToLower(rand.Text()[:NewIDLength]) }

// Found is the result of Claim. The room's seats count as taken until the room is written to the index again: see
// [Lobby.Settle] and [Lobby.GiveBack].
type Found struct {
	Room     string        // empty if there is none, and none may be created
	Seats    int           // seats that count as taken; 0 if an earlier sending of the request found the room
	New      bool          // nobody has found the room before
	Settings room.Settings // for creating the room, if nobody has; its labels are those of Wanted
}

// Claim finds a room and claims seats there, or creates one in the index. It skips rooms that were tried before (not),
// at most the last maxRefused. If begin is true, it skips all existing rooms.
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
		kept = matchTTL.Milliseconds()
	}
	not = not[max(0, len(not)-maxRefused):]
	allowed, only, id := list.allowed(w), "", ""
	if w.Allow != nil {
		only = cmp.Or(w.Prefix, "/") // no id begins with this
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
	labels := []string{string(w.Labels)}
	if !begin {
		for _, other := range list.including(w.Labels) {
			labels = append(labels, string(other))
		}
		for i := range labels {
			args = append(args, labels[i])
		}
	}
	reply, err := l.index.run(ctx, claimScript, []string{l.index.match(w)}, labels, args...)
	if err != nil {
		return Found{}, l.explain(ctx, err)
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

// Tried is a found room as the join left or saw it. The version is 0 if the join has not read the room.
type Tried struct {
	Room     string
	At       room.Position
	Members  int
	Settings room.Settings
}

// Settle frees claimed seats that were not used, because the users already sat in the room.
func (l *Lobby) Settle(r Tried) {
	if r.At.Version > 0 {
		l.news.put(changeOf(r.Room, r.At, r.Members, r.Settings))
	}
}

// GiveBack frees the claimed seats, and drops a new room, after a join that wrote nothing. If Redis does not answer,
// the next search frees the seats.
func (l *Lobby) GiveBack(ctx context.Context, w Wanted, f Found, r Tried) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), l.news.timeout)
	defer cancel()
	var err error
	switch {
	case r.At.Version > 0:
		err = l.index.note(ctx, []*change{changeOf(r.Room, r.At, r.Members, r.Settings)})
	case f.Seats > 0:
		_, err = l.index.run(ctx, unclaimScript, []string{l.index.match(w)}, []string{string(w.Labels)}, f.Room,
			f.Seats, room.MaxSeats)
	}
	if err != nil && l.open.Err() == nil {
		l.failed.Happened(err)
	}
}

// allowed returns some suitable rooms of the list for a user who may not enter all, the fullest first.
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

func (x *index) match(w Wanted) string {
	sum := sha256.Sum256([]byte(w.By + "\n" + string(w.Labels) + "\n" + w.Key))
	return x.store.Lobby("Match:" + base64.RawURLEncoding.EncodeToString(sum[:12]))
}

// including returns other labels in the list that include these, at most maxOthers.
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
