package model

import (
	"bytes"
	"fmt"
	"strconv"
	"unicode/utf8"
)

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
