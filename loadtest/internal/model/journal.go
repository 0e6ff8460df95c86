package model

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"slices"
)

// Each entry has a mark that its text makes, and names the mark of the entry before. So who changes
// an entry has to change all that come after it, and Meta, which has the last mark.

// marksAt begins the mark in the text of an entry, and blankMark is what counts in its place.
var (
	marksAt   = []byte(`"mark":"`)
	blankMark = []byte("0000000000000000")
)

// markSum is how many bytes of the SHA-256 a mark has.
const markSum = 12

// markOf returns the mark that the text of an entry makes, "" if there is no place for one. It blanks
// the mark in text.
func markOf(text []byte) string {
	at := bytes.Index(text, marksAt)
	if at += len(marksAt); at < len(marksAt) || len(text) < at+len(blankMark) {
		return ""
	}
	copy(text[at:], blankMark)
	sum := sha256.Sum256(text)
	return base64.RawURLEncoding.EncodeToString(sum[:markSum])
}

// knownMarks are the marks of the last versions.
type knownMarks [64]struct {
	version uint64
	mark    string
}

func (k *knownMarks) put(version uint64, mark string) {
	at := &k[version%uint64(len(k))]
	at.version, at.mark = version, mark
}

// of returns the mark of a version, "" if it is not known.
func (k *knownMarks) of(version uint64) string {
	if at := k[version%uint64(len(k))]; at.version == version {
		return at.mark
	}
	return ""
}

// Journal replays the journal of a room, and compares what it makes with what Redis has.
type Journal struct {
	*Room
	Begun       bool   // an entry was read
	Middle      bool   // it begins in the middle of its room
	LostCommits uint64 // that were not in the room any more when an epoch began behind another one

	name   string
	tell   func(Finding)
	mark   string
	epochs map[string]bool // that are over
	marks  knownMarks
	at     string // the entry that is read; empty at the end
}

// NewJournal returns the journal of the room of that name. report is told what does not fit.
func NewJournal(room string, report func(Finding)) *Journal {
	j := &Journal{name: room, tell: report, epochs: make(map[string]bool)}
	j.Room = NewRoom(false, j.find)
	return j
}

// find reports a finding.
func (j *Journal) find(rule Rule, version uint64, one, other Side) {
	j.tell(Finding{Rule: rule, Room: j.name, Epoch: j.epoch, Version: version, Entry: j.at, One: one, Other: other})
}

// Skip says that entries were trimmed before they could be read.
func (j *Journal) Skip() {
	j.begin(false)
	j.Begun, j.Middle = false, true
}

// Next replays an entry: its id, and its text.
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
	j.marks.put(e.Version, e.Mark)
	j.Commit(&e)
}

// follows judges the entry's position. It reports whether the entry is to be applied.
func (j *Journal) follows(e *Entry) bool {
	switch {
	case !j.Begun:
		if e.Prev == "" { // with what comes back, if Redis had forgotten the room
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

// whyGap says what a gap can come from.
const whyGap = "did nodes with another --journal work, or were entries deleted?"

// checkPrev judges whether the entry builds on the commit before it, if that is known.
func (j *Journal) checkPrev(e *Entry, before string, known bool) {
	switch says1 := says(theEntry, "it builds on mark %s", quoted(e.Prev)); {
	case known && e.Prev != before:
		j.find(RuleChain, e.Version, says1, says("the chain", "version %d has mark %s", e.Version-1, quoted(before)))
	case e.Version == 1 && e.Prev != "", e.Version > 1 && e.Prev == "" && !e.recalls():
		j.find(RuleChain, e.Version, says1, says("the chain", "only version 1, and what comes back, builds on nothing"))
	}
}

// recalls reports whether the entry brings something back that Redis had lost.
func (e *Entry) recalls() bool {
	return slices.ContainsFunc(e.Changes, func(o Change) bool { return o.Again })
}

// renew judges where an epoch begins: a new one begins at 1, or goes on behind a version that Redis still had, or
// that a node knew. What was committed after that is lost. Where Redis had forgotten the room, what comes back builds
// on nothing.
func (j *Journal) renew(e *Entry) {
	switch was := j.marks.of(e.Version - 1); {
	case j.epochs[e.Epoch], e.Version > j.version+1 && !(e.recalls() && (e.Prev == "" || e.Prev == j.mark)):
		j.find(RuleEpoch, e.Version, says(theEntry, "epoch %s, version %d", quoted(e.Epoch), e.Version),
			says(before, "epoch %s, version %d; a new epoch begins at 1, or goes on after a loss", quoted(j.epoch),
				j.version))
	default:
		j.checkPrev(e, was, was != "" && !(e.Prev == "" && e.recalls()))
		j.LostCommits += j.version - min(j.version, e.Version-1)
	}
	j.epochs[j.epoch] = true
	j.Lost++
}
