package room

import (
	"slices"

	"github.com/go-json-experiment/json/jsontext"
)

// MaxHistory is how many bytes of messages a room keeps at most, whatever its settings say. The oldest go first.
const MaxHistory = 64 << 10

// Said is a message that a room has kept, in the form in which Redis holds it.
type Said struct {
	Epoch   string `json:"epoch"`
	Version uint64 `json:"version"` // at which it was said

	User string         `json:"user,omitzero"` // empty if it was somebody with authority over the room
	Text string         `json:"text,omitzero"` // or
	Data jsontext.Value `json:"data,omitzero"`
	To   []string       `json:"to,omitzero"` // whom it is for; nil is everybody
}

// SaidIn returns the messages of a commit.
func (c *Commit) SaidIn() (all []Said) {
	for i := range c.Updates {
		if u := &c.Updates[i]; u.Type == KindMessage {
			d := u.detail()
			all = append(all, Said{c.Epoch, c.Version, u.User, d.Text, d.Data, d.To})
		}
	}
	return all
}

// Kept is what a room has kept of its messages, oldest first, and the epoch that it was in when they were read.
type Kept struct {
	Epoch string
	Said  []Said
}

// Missed returns the last messages, at most so many, that somebody who joined has not heard: up to the version of that
// join, which now is, and behind the version that the join expected, if it expected one. What was said behind now comes as
// events. Of an epoch of which nobody can tell whether it was before, nothing is returned.
func (k Kept) Missed(now Snapshot, since Expect, to Viewer, most int) []Said {
	all := k.Said
	current := slices.IndexFunc(all, func(s Said) bool { return s.Epoch == now.Epoch })
	if k.Epoch != now.Epoch { // the room has begun anew since the join
		if current < 0 {
			return nil
		}
		all = all[:lastOf(all, now.Epoch)+1]
	}
	if since.given {
		all = since.behind(all, now.Epoch)
	}
	all = slices.Collect(func(yield func(Said) bool) {
		for _, s := range all {
			after := s.Epoch == now.Epoch && s.Version > now.Version
			if !after && s.change().IsFor(to) && !yield(s) {
				return
			}
		}
	})
	return all[max(0, len(all)-most):]
}

// behind returns the messages behind the version. Where no message of its epoch is left, those of the present epoch are, if
// that is another one.
func (e Expect) behind(all []Said, present string) []Said {
	epoch := e.epoch
	if epoch == "" {
		epoch = present
	}
	first := slices.IndexFunc(all, func(s Said) bool { return s.Epoch == epoch })
	if first < 0 {
		if first = slices.IndexFunc(all, func(s Said) bool { return s.Epoch == present }); first < 0 {
			return nil
		}
		return all[first:]
	}
	for first < len(all) && all[first].Epoch == epoch && all[first].Version <= e.version {
		first++
	}
	return all[first:]
}

func lastOf(all []Said, epoch string) (last int) {
	for i := range all {
		if all[i].Epoch == epoch {
			last = i
		}
	}
	return last
}

func (s *Said) change() *Change {
	return &Change{Type: KindMessage, User: s.User, Detail: &Detail{To: s.To}}
}

// HistoryEnds reports whether the settings let the room keep messages until now, and do so no more.
func (r *Room) HistoryEnds() bool {
	return len(r.before) > 0 && r.before[0].state != nil && r.before[0].state.settings.History > 0 && r.state.settings.History == 0
}
