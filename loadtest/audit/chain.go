package audit

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

// chain is how far the journal of a room was read, and where what does not fit is told.
type chain struct {
	room   string
	report func(Finding)

	epoch    string
	version  uint64
	mark     string
	begun    bool            // an entry was read
	epochs   map[string]bool // that are over
	renewals int             // how many epochs began behind another one
	lost     uint64          // how many commits were not there any more when they began
	marks    knownMarks
	at       string // the entry that is read; empty at the end
}

// find reports a finding.
func (c *chain) find(rule Rule, version uint64, one, other Side) {
	c.report(Finding{Rule: rule, Room: c.room, Epoch: c.epoch, Version: version, Entry: c.at, One: one, Other: other})
}

// checkText judges whether the entry is as it was written.
func (c *chain) checkText(e *entry) {
	if e.Mark != e.sum {
		c.find(RuleChanged, e.Version, says(theEntry, "mark %s", quoted(e.Mark)), says("its text", "makes mark %s", quoted(e.sum)))
	}
}

// checkPrev judges whether the entry builds on the commit before it, if that is known.
func (c *chain) checkPrev(e *entry, before string, known bool) {
	switch says1 := says(theEntry, "it builds on mark %s", quoted(e.Prev)); {
	case known && e.Prev != before:
		c.find(RuleChain, e.Version, says1, says("the chain", "version %d has mark %s", e.Version-1, quoted(before)))
	case e.Version == 1 && e.Prev != "", e.Version > 1 && e.Prev == "" && !e.recalls():
		c.find(RuleChain, e.Version, says1, says("the chain", "only version 1, and what comes back, builds on nothing"))
	}
}

// recalls reports whether the entry brings something back that Redis had lost.
func (e *entry) recalls() bool {
	return slices.ContainsFunc(e.Changes, func(o change) bool { return o.Again })
}

// renew judges where an epoch begins: a new one begins at 1, or goes on behind a version that Redis still had, or that a node
// knew. What was committed after that is lost. Where Redis had forgotten the room, what comes back builds on nothing.
func (c *chain) renew(e *entry) {
	switch was := c.marks.of(e.Version - 1); {
	case c.epochs[e.Epoch], e.Version > c.version+1 && !(e.recalls() && (e.Prev == "" || e.Prev == c.mark)):
		c.find(RuleEpoch, e.Version, says(theEntry, "epoch %s, version %d", quoted(e.Epoch), e.Version),
			says(before, "epoch %s, version %d; a new epoch begins at 1, or goes on after a loss", quoted(c.epoch), c.version))
	default:
		c.checkPrev(e, was, was != "" && !(e.Prev == "" && e.recalls()))
		c.lost += c.version - min(c.version, e.Version-1)
	}
	c.epochs[c.epoch] = true
	c.renewals++
}
