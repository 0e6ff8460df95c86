package check

import (
	"cmp"
	"fmt"
	"time"
)

// Member is a user on a seat.
type Member struct {
	User  string `json:"user"`
	Seat  int    `json:"seat"`
	Away  bool   `json:"away,omitzero"`
	Ready bool   `json:"ready,omitzero"`
	Data  string `json:"data,omitzero"`
}

// Settings are the settings of a room that limit its members and their rights.
type Settings struct {
	Capacity int    `json:"capacity"`
	Closed   bool   `json:"closed,omitzero"`
	Host     string `json:"host,omitzero"` // with Longest, one of the members is always the host
	Labels   Labels `json:"labels,omitzero"`
}

// Longest is the policy for choosing a host.
const Longest = "longest"

// Labels are a room's labels: JSON in the form of Redis, or "".
type Labels string

// MarshalJSON returns the JSON.
func (l Labels) MarshalJSON() ([]byte, error) { return []byte(cmp.Or(l, "null")), nil }

// UnmarshalJSON accepts any JSON.
func (l *Labels) UnmarshalJSON(text []byte) error {
	*l = Labels(text)
	return nil
}

// List is a room in the view of a client.
type List struct {
	Users    []Member `json:"users"`
	Data     string   `json:"data,omitzero"`
	Settings Settings `json:"settings"`
	Host     string   `json:"host,omitzero"`   // the user who is the host
	Timers   []string `json:"timers,omitzero"` // sorted names

	All     bool              `json:"all,omitzero"`     // Private is everybody's
	For     string            `json:"for"`              // the user who got the list
	Private map[string]string `json:"private,omitzero"` // by user; only what For may see
}

// Change is one change in an event or a journal.
type Change struct {
	Type     string    `json:"type"`
	User     string    `json:"user,omitzero"`
	Seat     int       `json:"seat,omitzero"`
	Away     bool      `json:"away,omitzero"`
	Reason   string    `json:"reason,omitzero"`
	Text     string    `json:"text,omitzero"`
	Target   string    `json:"target,omitzero"`
	Data     string    `json:"data,omitzero"` // of a member, or private: "" if unchanged, null removes it
	Ready    *bool     `json:"ready,omitzero"`
	To       []string  `json:"to,omitzero"`
	Settings *Settings `json:"settings,omitzero"`
	Name     string    `json:"name,omitzero"` // of a timer
	Set      bool      `json:"set,omitzero"`  // of a countdown: the timer was set, not cancelled

	// Only in journals. Times are in ms since 1970, by the clock of Redis.
	At    int64 `json:"-"` // of a join
	Until int64 `json:"-"` // of a ban
	// the change restores what Redis lost, or a member of a closed room whom a failure removed
	Again bool `json:"-"`
}

// Event is a message to a connection other than a reply: changes from one version to another, the whole room,
// or (Lost) the end of the membership.
type Event struct {
	Conn int           `json:"conn"` // number of the user's connection in the run
	User string        `json:"user"`
	At   time.Duration `json:"at"`
	*Frame
}

// String describes a snapshot.
func (e *Event) String() string { return fmt.Sprintf("a snapshot for %q", e.User) }

// Frame is the content of an Event. Many connections may share it, so it must not be changed.
type Frame struct {
	Room    string   `json:"room"`
	Epoch   string   `json:"epoch,omitzero"`
	Version uint64   `json:"version,omitzero"`
	From    uint64   `json:"from,omitzero"`
	Changes []Change `json:"changes,omitzero"`
	List    *List    `json:"list,omitzero"`
	Lost    string   `json:"lost,omitzero"` // the reason
	Reply   bool     `json:"reply,omitzero"`
}
