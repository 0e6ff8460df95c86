package model

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"unicode/utf8"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// Entry is one commit of a journal.
type Entry struct {
	Epoch   string   `json:"epoch"`
	Version uint64   `json:"version"`
	Mark    string   `json:"mark"`
	Prev    string   `json:"prev"`
	Node    string   `json:"node"`
	Changes []Change `json:"changes"`

	sum string // the mark computed from its text
}

// Change is a change of one user, or of the room.
type Change struct {
	Type     string         `json:"type"`
	User     string         `json:"user"`
	Seat     int            `json:"seat"`
	Session  string         `json:"session"`
	Old      string         `json:"old"`
	At       int64          `json:"at"`
	Settings jsontext.Value `json:"settings"`
	Ready    *bool          `json:"ready"` // of a member; nil if unchanged
	Data     jsontext.Value `json:"data"`  // of a member, or private; nil if unchanged, null for none
	Agreed   jsontext.Value `json:"agreed"`
	Until    int64          `json:"until"`
	Reason   string         `json:"reason"`
	Text     string         `json:"text"`
	Target   string         `json:"target"`
	Labels   string         `json:"labels"`
	Shut     bool           `json:"shut"`
	Again    bool           `json:"again"`
	Of       string         `json:"of"` // for a join that restores a member: its node, if another than the entry's
	To       []string       `json:"to"`
	Timer    *Countdown     `json:"timer"`
}

// Countdown is the state of a timer in a change.
type Countdown struct {
	Name string `json:"name"`
	Due  int64  `json:"due"` // 0 if it was cancelled
	Was  int64  `json:"was"` // due of the timer before; 0 without one
}

func parseEntry(text string) (e Entry, err error) {
	raw := []byte(text)
	switch err = json.Unmarshal(raw, &e); {
	case err != nil:
		return e, err
	case e.Version == 0:
		return e, errors.New("it has no version")
	case e.Epoch == "" || e.Mark == "":
		return e, errors.New("it has no epoch, or no mark")
	}
	e.sum = markOf(raw)
	return e, nil
}

// settings are the settings that the replay needs.
type settings struct {
	Settings                // the capacity is MaxSeats if the room has none
	text     jsontext.Value // in normal form, for comparison
	keep     bool
	host     string // the policy
	history  int
}

// UnmarshalJSON reads what a node wrote.
func (s *settings) UnmarshalJSON(text []byte) error {
	var has struct {
		Capacity int    `json:"capacity"`
		Closed   bool   `json:"closed"`
		Keep     bool   `json:"keep"`
		History  int    `json:"history"`
		Host     string `json:"host"`
	}
	if err := json.Unmarshal(text, &has); err != nil {
		return err
	}
	if has.Capacity < 0 || has.Capacity > MaxSeats {
		return fmt.Errorf("capacity %d", has.Capacity)
	}
	limits := Settings{Capacity: cmp.Or(has.Capacity, MaxSeats), Closed: has.Closed}
	*s = settings{limits, normal(text), has.Keep, cmp.Or(has.Host, "none"), has.History}
	return nil
}

// normal returns JSON in a form for comparison: without spaces, names in order. JSON null becomes "".
func normal(text []byte) jsontext.Value {
	v := jsontext.Value(bytes.Clone(text))
	if err := v.Canonicalize(jsontext.CanonicalizeRawFloats(false), jsontext.CanonicalizeRawInts(false)); err != nil {
		return v
	}
	if string(v) == "null" {
		return nil
	}
	return v
}

// record is a member in Redis.
type record struct {
	Seat    int            `json:"seat"`
	Session string         `json:"session"`
	Node    string         `json:"node"`
	At      int64          `json:"at"`
	Ready   bool           `json:"ready"`
	Data    *datum         `json:"data"`
	Private *datum         `json:"private"`
	Agreed  jsontext.Value `json:"agreed"`
}

// datum is the data of a member or a room in Redis.
type datum struct {
	Version uint64         `json:"version"`
	Value   jsontext.Value `json:"value"`
}

// Rule names the broken rule of a finding.
type Rule string

// The rules.
const (
	RuleEntry    Rule = "entry cannot be read"
	RuleChanged  Rule = "entry was changed"
	RuleChain    Rule = "chain broken"
	RuleGap      Rule = "versions are missing"
	RuleTwice    Rule = "version came twice"
	RuleEpoch    Rule = "epoch out of place"
	RuleJoin     Rule = "join of who is in"
	RuleAbsent   Rule = "change of who is not in"
	RuleSeat     Rule = "seat taken twice"
	RuleMoved    Rule = "seat changed"
	RuleSession  Rule = "session out of turn"
	RuleCapacity Rule = "over capacity"
	RuleClosed   Rule = "join into a closed room"
	RuleBanned   Rule = "join of who is banned"
	RuleSettings Rule = "settings differ"
	RulePosition Rule = "position differs"
	RuleCount    Rule = "member count differs"
	RuleMember   Rule = "member differs"
	RuleData     Rule = "data differs"
	RuleTimer    Rule = "timer out of turn"
	RuleTimers   Rule = "timers differ"
	RuleSaid     Rule = "kept messages differ"
	RuleBans     Rule = "bans differ"
	RuleGone     Rule = "removed users differ"
	RuleHost     Rule = "host out of turn"
	RuleExpiry   Rule = "expiry differs"
)

// Finding is a contradiction. One and Other are its two sides.
type Finding struct {
	Rule    Rule   `json:"rule"`
	Room    string `json:"room"`
	Epoch   string `json:"epoch,omitempty"`
	Version uint64 `json:"version,omitempty"`
	Entry   string `json:"entry,omitempty"` // id in the stream; "" for the end
	One     Side   `json:"one"`
	Other   Side   `json:"other"`
}

// Side is the statement of one source.
type Side struct {
	Source string `json:"source"`
	Says   string `json:"says"`
}

// Sources of a Side.
const (
	theEntry   = "the entry says"
	before     = "before it"
	theJournal = "the journal"
	inRedis    = "Redis has"
)

func says(source, format string, args ...any) Side {
	return Side{source, fmt.Sprintf(format, args...)}
}

// String returns the finding in three lines.
func (f Finding) String() string {
	at := "at the end"
	if f.Entry != "" {
		at = "entry " + f.Entry
	}
	return fmt.Sprintf("room %s, version %d, %s: %s\n    %-14s  %s\n    %-14s  %s\n",
		f.Room, f.Version, at, f.Rule, f.One.Source, f.One.Says, f.Other.Source, f.Other.Says)
}

// maxQuoted is the longest part of a name or a value in a finding.
const maxQuoted = 200

// quoted returns text that is safe to show.
func quoted[T ~string | ~[]byte](text T) string {
	if len(text) > maxQuoted {
		return strconv.Quote(string(text[:maxQuoted])) + "…"
	}
	return strconv.Quote(string(text))
}

// value returns JSON that is safe to show.
func value(text []byte) string {
	if len(text) == 0 {
		return "none"
	}
	if len(text) > maxQuoted || !utf8.Valid(text) ||
		bytes.ContainsFunc(text, func(r rune) bool { return !strconv.IsPrint(r) }) {
		return quoted(text)
	}
	return string(text)
}

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

// size returns about how many bytes Redis counts for the message.
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

// compareSaid judges the messages in Redis: they are the last ones, and none that the room should keep is missing.
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
		o.differs(RuleSaid, says(inRedis, "%d messages", len(o.Said)), "the last %d messages are others", len(known))
		return
	}
	if o.settings == nil {
		return
	}
	if h := o.settings.history; h == 0 && len(o.Said) > 0 || len(known) < min(h, s.since) && s.bytes < saidBytes {
		o.differs(RuleSaid, says(inRedis, "%d messages", len(known)),
			"the room keeps %d messages, and %d were said since",
			h, s.since)
	}
}
