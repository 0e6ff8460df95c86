package check

import (
	"fmt"
	"slices"
	"time"
)

// Verdict is the result of a checker.
type Verdict struct {
	Violations []Violation
	Judged     int         // number of operations
	Lost       map[int]int // acknowledged actions missing in the journals, by index of the fault
	Unsure     []string    // descriptions of what could not be decided
	Watched    int         // number of rooms in which events to watchers replaced the journal
	Strange    []string    // kinds of changes that it does not know and ignores
}

// Violation is a broken rule.
type Violation struct {
	Checker string        `json:"checker"`
	Rule    string        `json:"rule"`
	Room    string        `json:"room,omitzero"`
	At      time.Duration `json:"at,omitzero"`
	Text    string        `json:"text"`
}

// String describes the violation in one or more lines.
func (v Violation) String() string {
	return fmt.Sprintf("%s, room %s, %.3f s: %s: %s", v.Checker, v.Room, v.At.Seconds(), v.Rule, v.Text)
}

// mostViolations limits the described violations of a rule in a room, because one defect has many consequences.
const mostViolations = 5

// complaints collects the violations that a checker finds in a room.
type complaints struct {
	checker, room string
	told          map[string]int // number of violations by rule
	list          *[]Violation
}

func (c *complaints) broken(rule string, at time.Duration, format string, args ...any) {
	if c.told[rule]++; c.told[rule] <= mostViolations {
		*c.list = append(*c.list, Violation{c.checker, rule, c.room, at, fmt.Sprintf(format, args...)})
	}
}

// Kind groups rules of the checkers, for readers and for scripts.
type Kind struct {
	Name  string // in JSON
	About string
	rules []string
}

// Kinds has all kinds.
var Kinds = []Kind{
	{"lost", "An acknowledged join, leave or other action is missing, or a timer has not fired, or private data did not come along.", []string{"lost", "missing", "private", "timer"}},
	{"phantom", "A user is in the list, or leaves it, and never joined; or something happened that nobody asked for, or that was refused.", []string{"phantom", "refused"}},
	{"duplicate", "A user joined who was there, or a message, data or a timer came twice.", []string{"twice"}},
	{"oversold", "A room has more members than its capacity at that version, or a member on a seat beyond it.",
		[]string{"oversold"}},
	{"seat_clash", "Two users have one seat, or a seat changed hands that nobody had left.", []string{"seat"}},
	{"version_gap", "A version was skipped, or came twice.", []string{"gap"}},
	{"diverged", "Two sources contradict each other about one version; or what was told has no order in which it can have happened; or a room has no host, or a stranger.",
		[]string{"reply", "event", "two contents", "content", "host", "order", "linearizability", "settles", "lock"}},
	{"intruder", "Somebody came into a closed room, or in spite of a ban, or did what only the host may.",
		[]string{"closed", "banned", "rights"}},
	{"torn", "A party, a deal or a move took place in part.", []string{"torn"}},
	{"conflict", "A compare-and-set replaced what it did not expect, or was refused without a reason; or a match found no seat.", []string{"conflict", "match"}},
}

// Kind returns the name of the violation's kind.
func (v Violation) Kind() string {
	for _, k := range Kinds {
		if slices.Contains(k.rules, v.Rule) {
			return k.Name
		}
	}
	return "diverged"
}

// Counts has the number of violations by the name of the kind.
type Counts map[string]int

// Count counts violations.
func Count(list []Violation) Counts {
	c := make(Counts)
	for _, k := range Kinds {
		c[k.Name] = 0
	}
	for _, v := range list {
		c[v.Kind()]++
	}
	return c
}
