package model

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"

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
	Until    int64          `json:"until"`
	Reason   string         `json:"reason"`
	Text     string         `json:"text"`
	Target   string         `json:"target"`
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

// The types of changes.
const (
	typeJoin     = "join"
	typeLeave    = "leave"
	typeReplace  = "replace"
	typeAway     = "away"
	typeBack     = "back"
	typeSeat     = "seat"
	typeMember   = "member"
	typePrivate  = "private"
	typeSettings = "settings"
	typeDefaults = "defaults"
	typeData     = "data"
	typeMessage  = "message"
	typeBan      = "ban"

	typeTimer     = "timer"     // it has fired
	typeCountdown = "countdown" // it was set, or cancelled
	typeHost      = "host"
)

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
	*s = settings{limits, normal(text), has.Keep, cmp.Or(has.Host, hostNone), has.History}
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
	Seat    int    `json:"seat"`
	Session string `json:"session"`
	Node    string `json:"node"`
	At      int64  `json:"at"`
	Ready   bool   `json:"ready"`
	Data    *datum `json:"data"`
	Private *datum `json:"private"`
}

// datum is the data of a member or a room in Redis.
type datum struct {
	Version uint64         `json:"version"`
	Value   jsontext.Value `json:"value"`
}
