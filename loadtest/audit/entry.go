package audit

import (
	"bytes"
	"errors"
	"fmt"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// entry is one commit of a journal.
type entry struct {
	id string // in the stream

	Epoch   string   `json:"epoch"`
	Version uint64   `json:"version"`
	Mark    string   `json:"mark"`
	Node    string   `json:"node"`
	Changes []change `json:"changes"`
}

// change is what became of one user, or of the room.
type change struct {
	Type     string         `json:"type"`
	User     string         `json:"user"`
	Seat     int            `json:"seat"`
	Session  string         `json:"session"`
	Old      string         `json:"old"`
	At       int64          `json:"at"`
	Settings jsontext.Value `json:"settings"`
	Ready    bool           `json:"ready"`
	Data     jsontext.Value `json:"data"`
	Until    int64          `json:"until"`
}

// The types of changes.
const (
	typeJoin     = "join"
	typeLeave    = "leave"
	typeReplace  = "replace"
	typeAway     = "away"
	typeBack     = "back"
	typeMember   = "member"
	typeSettings = "settings"
	typeDefaults = "defaults"
	typeData     = "data"
	typeMessage  = "message"
	typeBan      = "ban"
)

func parseEntry(id, text string) (entry, error) {
	e := entry{id: id}
	switch err := json.Unmarshal([]byte(text), &e); {
	case err != nil:
		return e, err
	case e.Version == 0:
		return e, errors.New("it has no version")
	case e.Epoch == "" || e.Mark == "":
		return e, errors.New("it has no epoch, or no mark")
	}
	return e, nil
}

// settings are what the oracle has to know of a room's settings.
type settings struct {
	text   jsontext.Value // as they are compared
	seats  int
	closed bool
	keep   bool
}

// maxSeats is how many seats a room without a capacity has.
const maxSeats = 1 << 16

func parseSettings(text []byte) (settings, error) {
	var s struct {
		Capacity int  `json:"capacity"`
		Closed   bool `json:"closed"`
		Keep     bool `json:"keep"`
	}
	if err := json.Unmarshal(text, &s); err != nil {
		return settings{}, err
	}
	if s.Capacity < 0 || s.Capacity > maxSeats {
		return settings{}, fmt.Errorf("capacity %d", s.Capacity)
	}
	if s.Capacity == 0 {
		s.Capacity = maxSeats
	}
	return settings{normal(text), s.Capacity, s.Closed, s.Keep}, nil
}

// normal returns JSON in the form in which it is compared: without spaces, names in order. JSON
// null is nothing.
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

// record is a member as Redis holds it.
type record struct {
	Seat    int    `json:"seat"`
	Session string `json:"session"`
	Node    string `json:"node"`
	At      int64  `json:"at"`
	Ready   bool   `json:"ready"`
	Data    *datum `json:"data"`
}

// datum is the data of a member or a room as Redis holds it.
type datum struct {
	Version uint64         `json:"version"`
	Value   jsontext.Value `json:"value"`
}
