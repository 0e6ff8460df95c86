package model

import (
	"slices"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// saidHeld is more than a room's largest number of messages. saidBytes is less than their largest total size.
const (
	saidHeld  = 200
	saidBytes = 32 << 10
)

// message is a message that a room keeps.
type message struct {
	Epoch   string         `json:"epoch"`
	Version uint64         `json:"version"`
	User    string         `json:"user"`
	Text    string         `json:"text"`
	Data    jsontext.Value `json:"data"`
	To      []string       `json:"to"`
}

func (m *message) equals(other *message) bool {
	return m.Version == other.Version && m.User == other.User && m.Text == other.Text &&
		slices.Equal(m.To, other.To) && string(normal(m.Data)) == string(normal(other.Data))
}

// size returns about how many bytes Redis counts for it.
func (m *message) size() (n int) {
	for _, user := range m.To {
		n += len(user) + 8
	}
	return n + len(m.Text) + len(m.Data) + len(m.User) + 200
}

// speech has the last messages in the journal.
type speech struct {
	all   []message
	since int // number of messages since the current settings were known
	bytes int // about their total size
}

// say replays a message. known says that the settings are known.
func (s *speech) say(e *Entry, c *Change, known bool) {
	m := message{e.Epoch, e.Version, c.User, c.Text, c.Data, c.To}
	if s.all = append(s.all, m); len(s.all) > saidHeld {
		s.all = slices.Clone(s.all[saidHeld/2:])
	}
	if known {
		s.since++
		s.bytes += m.size()
	}
}

// keep replays a change of the number of messages that the room keeps.
func (s *speech) keep(history int) {
	if s.since, s.bytes = 0, 0; history == 0 {
		s.all = nil
	}
}

// compareSaid judges the messages in Redis: they are the last ones, and none that the room should keep is
// missing.
func (o *ending) compareSaid() {
	s := &o.speech
	var known []message // messages of the versions in the journal
	for _, text := range o.Said {
		var m message
		if err := json.Unmarshal([]byte(text), &m); err != nil {
			o.find(RuleSaid, o.version, says("this program", "cannot read a message: %v", err),
				says(inRedis, "%s", value([]byte(text))))
			return
		}
		if m.Epoch == o.epoch && m.Version >= o.since {
			known = append(known, m)
		}
	}
	last := s.all[max(0, len(s.all)-len(known)):]
	if len(known) > len(last) || !slices.EqualFunc(known, last, func(a, b message) bool { return a.equals(&b) }) {
		o.find(RuleSaid, o.version, says(theJournal, "the last %d messages are others", len(known)),
			says(inRedis, "%d messages", len(o.Said)))
		return
	}
	if o.settings == nil {
		return
	}
	if h := o.settings.history; h == 0 && len(o.Said) > 0 || len(known) < min(h, s.since) && s.bytes < saidBytes {
		o.find(RuleSaid, o.version, says(theJournal, "the room keeps %d messages, and %d were said since", h,
			s.since), says(inRedis, "%d messages", len(known)))
	}
}
