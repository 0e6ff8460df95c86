package model

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"maps"
	"slices"
)

// Each entry has a mark that is computed from its text, and the mark of the entry before. So to change an
// entry, one has to change all later ones, and Meta, which has the last mark.

// marksAt precedes the mark in the text of an entry. blankMark replaces the mark while it is computed.
var (
	marksAt   = []byte(`"mark":"`)
	blankMark = []byte("0000000000000000")
)

// markSum is how many bytes of the SHA-256 form a mark.
const markSum = 12

// markOf computes the mark of an entry's text, "" if the text has no place for one. It blanks the mark in text.
func markOf(text []byte) string {
	at := bytes.Index(text, marksAt)
	if at += len(marksAt); at < len(marksAt) || len(text) < at+len(blankMark) {
		return ""
	}
	copy(text[at:], blankMark)
	sum := sha256.Sum256(text)
	return base64.RawURLEncoding.EncodeToString(sum[:markSum])
}

// keptMarks is how many of the last versions' marks are kept.
const keptMarks = 64

// Journal replays the journal of a room, and compares the result with Redis.
type Journal struct {
	*Room
	Begun       bool   // an entry was read
	Middle      bool   // its first entry is not the room's first commit
	LostCommits uint64 // commits that the room had lost when a new epoch began

	name   string
	tell   func(Finding)
	mark   string
	epochs map[string]bool   // earlier epochs
	marks  map[uint64]string // of the last versions
	at     string            // id of the current entry; "" at the end
}

// NewJournal returns the journal of a room. It calls report for each contradiction.
func NewJournal(room string, report func(Finding)) *Journal {
	j := &Journal{name: room, tell: report, epochs: make(map[string]bool), marks: make(map[uint64]string)}
	j.Room = NewRoom(false, j.find)
	return j
}

func (j *Journal) find(rule Rule, version uint64, one, other Side) {
	j.tell(Finding{Rule: rule, Room: j.name, Epoch: j.epoch, Version: version, Entry: j.at, One: one, Other: other})
}

// Skip says that entries were trimmed before they could be read.
func (j *Journal) Skip() {
	j.begin(false)
	j.Begun, j.Middle = false, true
}

// Next replays an entry with its id and text.
func (j *Journal) Next(id, text string) {
	j.at = id
	defer func() { j.at = "" }()
	e, err := parseEntry(text)
	if err != nil {
		j.find(RuleEntry, j.version, says(theEntry, "%s", value([]byte(text))),
			says("this program", "cannot read it: %v", err))
		return
	}
	if e.Mark != e.sum {
		j.find(RuleChanged, e.Version, says(theEntry, "mark %s", quoted(e.Mark)),
			says("its text", "makes mark %s", quoted(e.sum)))
	}
	j.Middle = j.Middle || !j.Begun && e.Version != 1
	if !j.follows(&e) {
		return
	}
	j.Begun, j.epoch, j.mark = true, e.Epoch, e.Mark
	j.marks[e.Version] = e.Mark
	delete(j.marks, e.Version-keptMarks)
	j.Commit(&e)
}

// follows judges the entry's position. It reports whether the entry has to be applied.
func (j *Journal) follows(e *Entry) bool {
	switch {
	case !j.Begun:
		if e.Prev == "" { // it restores a room that Redis had forgotten
			j.begin(true)
		}
		j.checkPrev(e, "", false)
	case e.Epoch != j.epoch:
		j.renew(e)
		j.begin(false)
	case e.Version == j.version+1:
		j.checkPrev(e, j.mark, true)
	case e.Version <= j.version:
		j.find(RuleTwice, e.Version, says(theEntry, "version %d, mark %s", e.Version, quoted(e.Mark)),
			says(before, "version %d, mark %s", j.version, quoted(j.mark)))
		return false
	default:
		j.find(RuleGap, e.Version, says(theEntry, "version %d", e.Version),
			says(before, "version %d: %s", j.version, whyGap))
		j.begin(false)
	}
	return true
}

// whyGap suggests causes of a gap.
const whyGap = "did nodes with another --journal work, or were entries deleted?"

// checkPrev judges whether the entry builds on the previous commit, if that is known.
func (j *Journal) checkPrev(e *Entry, before string, known bool) {
	switch says1 := says(theEntry, "it builds on mark %s", quoted(e.Prev)); {
	case known && e.Prev != before:
		j.find(RuleChain, e.Version, says1, says("the chain", "version %d has mark %s", e.Version-1, quoted(before)))
	case e.Version == 1 && e.Prev != "", e.Version > 1 && e.Prev == "" && !e.recalls():
		j.find(RuleChain, e.Version, says1, says("the chain", "only version 1, and what comes back, builds on nothing"))
	}
}

// recalls reports whether the entry restores data that Redis had lost.
func (e *Entry) recalls() bool {
	return slices.ContainsFunc(e.Changes, func(o Change) bool { return o.Again })
}

// renew judges the start of an epoch: at version 1, or after a version that Redis still had, or that a node knew.
// Later commits of the old epoch are lost. If Redis had forgotten the room, the restored room builds on nothing.
func (j *Journal) renew(e *Entry) {
	switch was := j.marks[e.Version-1]; {
	case j.epochs[e.Epoch], e.Version > j.version+1 && !(e.recalls() && (e.Prev == "" || e.Prev == j.mark)):
		j.find(RuleEpoch, e.Version, says(theEntry, "epoch %s, version %d", quoted(e.Epoch), e.Version),
			says(before, "epoch %s, version %d; a new epoch begins at 1, or goes on after a loss", quoted(j.epoch),
				j.version))
	default:
		j.checkPrev(e, was, was != "" && !(e.Prev == "" && e.recalls()))
		j.LostCommits += j.version - min(j.version, e.Version-1)
	}
	maps.DeleteFunc(j.marks, func(version uint64, _ string) bool { return version >= e.Version }) // these are lost
	j.epochs[j.epoch] = true
	j.Lost++
}
