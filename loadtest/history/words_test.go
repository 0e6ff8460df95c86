package history

import (
	"slices"
	"strings"
	"testing"
)

func members(list string) []Member { return parseMembers(strings.Fields(list)) }

func parseMembers(words []string) (users []Member) {
	for _, word := range words {
		users = append(users, parseMember(word))
	}
	return users
}

func parseMember(s string) (m Member) {
	s, m.Data, _ = strings.Cut(s, "=")
	m.Ready, m.Away = strings.HasSuffix(s, "!"), strings.HasSuffix(s, "?")
	s = strings.TrimRight(s, "!?")
	at := strings.IndexAny(s, "0123456789")
	m.User, m.Seat = s[:at], number[int](s[at:])
	return m
}

// parseChanges reads
//
//	+a0 +a0?     join, and on a reserved seat
//	-a -a:kicked leave; -a:moved:x into room x
//	?a0 !a0      away and back
//	*a0! *a0=7   the state of a member
//	#7 #a:7      the room's data, set by a
//	%5 %5c       settings: 5 seats, and closed
//	"a:hi "a:hi>b,c  messages
//	^a0          a change of an unknown type
func parseChanges(words []string) (all []Change) {
	for _, f := range words {
		rest := f[1:]
		first, then, two := strings.Cut(rest, ":")
		var c Change
		switch f[0] {
		case '-':
			c.Type, c.User = Leave, first
			c.Reason, c.Target, _ = strings.Cut(then, ":")
		case '#':
			c.Type, c.User, c.Data = RoomData, first, then
			if !two {
				c.User, c.Data = "", first
			}
		case '%':
			c.Type = Settings
			c.Settings = *parseRules(rest)
		case '"':
			c.Type, c.User = Said, first
			text, to, private := strings.Cut(then, ">")
			if c.Text = text; private {
				c.To = strings.Split(to, ",")
			}
		default:
			m := parseMember(rest)
			types := map[byte]string{'+': Join, '?': Away, '!': Back, '*': MemberState, '^': "unheard of"}
			c = Change{Type: types[f[0]], User: m.User, Seat: m.Seat}
			c.Away, c.Ready, c.Data = m.Away, m.Ready, m.Data
		}
		all = append(all, c)
	}
	return all
}

// parseRules reads "5" or, closed, "5c".
func parseRules(s string) *Rules {
	return &Rules{Capacity: number[int](s), Closed: strings.HasSuffix(s, "c")}
}

// parseRequest reads
//
//	ready, unready, close
//	set 7 if 3 of e1    the room's data, expected to be of version 3 (of epoch e1); member: of oneself
//	configure 5c if 3   settings
//	say hi>b,c          to b and c
//	kick b until 1000   and ban; unban
//	reserve a0 b1       release; out a0 to r2; in a0 from r2
func parseRequest(t *testing.T, words []string) (q Request) {
	option := func(name string) string {
		at := slices.Index(words, name)
		if at < 0 {
			return ""
		}
		value := words[at+1]
		words = slices.Delete(slices.Clone(words), at, at+2)
		return value
	}
	if expected := option("if"); expected != "" {
		q.Expect = at(number[uint64](expected))
	}
	q.ExpectEpoch, q.BannedUntil, q.Target = option("of"), number[int64](option("until")), option("to")+option("from")
	what := strings.Join(words[1:], " ")
	switch q.Action = words[0]; q.Action {
	case "ready", "unready":
		q.Action, q.Ready = SetReady, words[0] == "ready"
	case Close:
	case SetData, SetMember:
		q.Data = what
	case Configure:
		q.Settings = *parseRules(what)
	case Say:
		text, to, private := strings.Cut(what, ">")
		if q.Text = text; private {
			q.To = strings.Split(to, ",")
		}
	case Kick, Unban:
		q.Users = []Member{{User: what}}
	case Reserve, Release:
		q.Users = members(what)
	case "in", "out":
		q.Action, q.Users = map[string]string{"in": MoveIn, "out": MoveOut}[q.Action], members(what)
	default:
		t.Fatalf("no request %q", words)
	}
	return q
}

// parseCounts reads "lost, oversold 2".
func parseCounts(t *testing.T, s string) (c Counts) {
	for part := range strings.SplitSeq(s, ", ") {
		kind, n, many := strings.Cut(part, " ")
		of := c.of(Kind(kind))
		switch {
		case s == "":
			return c
		case of == &c.Diverged && Kind(kind) != Diverged:
			t.Fatalf("no kind of violation %q", kind)
		case many:
			*of = number[int](n)
		default:
			*of = 1
		}
	}
	return c
}

func at(version uint64) *uint64 { return &version }
