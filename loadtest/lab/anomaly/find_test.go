package anomaly

import (
	"slices"
	"strings"
	"testing"
	"time"
)

// story makes a history from few words. Each event is a millisecond after the one before,
// unless it begins with a time.
//
//	"a join", "a leave"   asks
//	"a got", "a reads x y", "a writes x y", "a gave"
//	"a ok", "a failed", "a unknown", "a crash", "a pause", "a resume", "a waits"
//	"a locks", "a locks for b", "a unlocks b", "expires b", "forgets b", "a stores x y"
func story(lines ...string) []Event {
	kinds := map[string]Kind{
		"join": Asked, "leave": Asked, "waits": Refused, "got": Acquired, "reads": Read, "writes": Wrote, "gave": Released,
		"ok": ToldOK, "failed": ToldFailed, "unknown": ToldUnknown, "crash": Crashed, "pause": Paused, "resume": Resumed,
		"locks": Locked, "unlocks": Unlocked, "stores": Stored,
	}
	var events []Event
	at := time.Duration(0)
	for _, line := range lines {
		at += time.Millisecond
		words := strings.Fields(line)
		if d, err := time.ParseDuration(words[0]); err == nil {
			at, words = d, words[1:]
		}
		if kind, alone := map[string]Kind{"expires": Expired, "forgets": Forgotten}[words[0]]; alone {
			events = append(events, Event{At: at, Kind: kind, Owner: words[1]})
			continue
		}
		e := Event{At: at, Caller: words[0], Kind: kinds[words[1]], Leave: words[1] == "leave"}
		switch e.Kind {
		case Read, Wrote, Stored:
			e.Users = words[2:]
		case Locked:
			e.Owner = words[0]
			if len(words) > 2 {
				e.Owner = words[3]
			}
		case Unlocked:
			e.Owner = words[2]
		}
		events = append(events, e)
	}
	return events
}

// Histories with known anomalies, and the counts that Find must return.
var histories = []struct {
	name    string
	events  []Event
	initial string
	final   string
	forever bool
	want    Counts // without times
}{
	{name: "nothing happens"},
	{name: "joins and leaves in turn", initial: "x",
		events: story("a join", "a got", "a reads x", "a writes x a", "a gave", "a ok",
			"x leave", "x got", "x reads x a", "x writes a", "x gave", "x ok"),
		final: "a"},

	{name: "an acknowledged user is not there", events: story("a join", "a ok"), want: Counts{Lost: 1}},
	{name: "a user who was always there is gone", initial: "x y", final: "y", want: Counts{Lost: 1}},
	{name: "a user who has left is there", initial: "x", events: story("x leave", "x ok"), final: "x", want: Counts{Phantom: 1}},
	{name: "a refused user is there", events: story("a join", "a failed"), final: "a", want: Counts{Phantom: 1}},
	{name: "an unknown user is there", final: "z", want: Counts{Phantom: 1}},
	{name: "a refused leave changes nothing", initial: "x", events: story("x leave", "x failed"), final: "x"},
	{name: "lost, seen at the next request", events: story("a join", "a ok", "a leave", "a reads x", "a ok"), initial: "x", final: "x",
		want: Counts{Lost: 1}},
	{name: "back, seen at the next request", initial: "x", events: story("x leave", "x ok", "x join", "x reads x", "x ok"), final: "x",
		want: Counts{Phantom: 1}},
	{name: "lost twice", events: story("a join", "a ok", "a leave", "a reads x", "a ok", "a join", "a ok"), initial: "x", final: "x",
		want: Counts{Lost: 2}},
	{name: "an error after the write may be in", events: story("a join", "a unknown"), final: "a"},
	{name: "or out", events: story("a join", "a unknown")},
	{name: "a crash may be in", events: story("a join", "a crash"), final: "a"},
	{name: "or out", initial: "x", events: story("x leave", "x crash")},
	{name: "so may a user without a reply at the end", events: story("a join", "a got"), final: "a"},

	{name: "twice in the end", initial: "x", events: story("x join", "x ok"), final: "x x", want: Counts{Duplicate: 1}},
	{name: "three times is once too often", initial: "x", final: "x x x", want: Counts{Duplicate: 1}},
	{name: "twice, until the next request", initial: "x", events: story("x leave", "x reads x x", "x ok"), want: Counts{Duplicate: 1}},
	{name: "twice, then and in the end", initial: "x", events: story("x join", "x reads x x", "x ok"), final: "x x", want: Counts{Duplicate: 1}},
	{name: "twice, gone, and twice again", initial: "x", final: "x x",
		events: story("x leave", "x reads x x", "x ok", "x join", "x reads", "x ok"), want: Counts{Duplicate: 2}},
	{name: "a phantom joins again", initial: "x", events: story("x leave", "x ok", "x join", "x reads x", "x ok"), final: "x x",
		want: Counts{Phantom: 1, Duplicate: 1}},

	{name: "two write under one lock", initial: "a b", final: "a b",
		events: story("a got", "b got", "b writes a b", "a writes a b"), want: Counts{TwoHolders: 1}},
	{name: "one after the other", initial: "a b", final: "a b",
		events: story("a got", "a writes a b", "b got", "b writes a b")},
	{name: "a hold without a write harms nobody", initial: "a b", final: "a b",
		events: story("a got", "b got", "b writes a b", "b ok", "a ok")},
	{name: "a hold ends with its last write", initial: "a b", final: "a b",
		events: story("a got", "a writes a b", "b got", "b writes a b", "a gave")},
	{name: "without a lock it begins with the read", initial: "a b", final: "a b",
		events: story("a reads a b", "b reads a b", "a writes a b", "b writes a b"), want: Counts{TwoHolders: 1}},
	{name: "three at once", initial: "a b c", final: "a b c",
		events: story("a got", "b got", "c got", "a writes a b c", "b writes a b c", "c writes a b c"), want: Counts{TwoHolders: 2}},
	{name: "each request has a hold of its own", initial: "a b", final: "a b",
		events: story("a join", "a got", "a writes a b", "a ok", "b got", "b writes a b", "b ok", "a join", "a got", "a writes a b", "a ok")},
	{name: "taken again after it was stolen", initial: "a b", final: "a b",
		events: story("a locks", "b locks", "b stores b a", "a stores a b", "a locks", "a stores a b"), want: Counts{TwoHolders: 1}},
	{name: "as Redis held it", initial: "a b", final: "a b",
		events: story("a locks", "b locks", "b stores b a", "a stores a b"), want: Counts{TwoHolders: 1}},
	{name: "handed from one to the other", initial: "a b", final: "a b",
		events: story("a locks", "a stores b a", "a locks for b", "b stores a b")},
	{name: "taken again after its own expiry", initial: "a b", final: "a b",
		events: story("a locks", "expires a", "b locks", "b stores b a", "b unlocks b", "a locks", "a got", "a stores a b")},

	{name: "another's lock is deleted", events: story("a locks", "b unlocks a"), want: Counts{Deleted: 1}},
	{name: "one's own is not", events: story("a locks", "a unlocks a", "b locks", "expires b")},

	{name: "a lock stays after its release", events: story("a locks", "a gave"), want: Counts{Kept: 1}},
	{name: "and for ever", events: story("a locks", "a gave"), forever: true, want: Counts{Kept: 1, Forever: true}},
	{name: "it is gone before", events: story("a locks", "a unlocks a", "a gave", "b locks", "expires b", "b gave", "c locks", "forgets c", "c gave")},
	{name: "it is another's by then", events: story("a locks", "expires a", "b locks", "a gave")},

	{name: "stuck", events: story("0ms a join", "200ms a failed"), want: Counts{Stuck: 1}},
	{name: "stuck for ever", events: story("0ms a join", "200ms a failed"), forever: true, want: Counts{Stuck: 1, Forever: true}},
	{name: "not yet", events: story("0ms a join", "199ms a failed")},
	{name: "but nobody will ever free it", events: story("0ms a join", "199ms a failed"), forever: true, want: Counts{Stuck: 1, Forever: true}},
	{name: "somebody gets in after all", events: story("0ms a join", "199ms a got", "a ok"), final: "a", forever: true},
	{name: "somebody got in", events: story("0ms a join", "0ms b join", "150ms b got", "300ms a failed", "b failed")},
	{name: "and in the end", events: story("0ms a join", "300ms a got", "a ok"), final: "a"},
	{name: "the last to give up counts", events: story("0ms a join", "10ms b join", "205ms a failed", "210ms b failed"), want: Counts{Stuck: 1}},
	{name: "a stopped caller does not wait", events: story("0ms a join", "0ms a pause", "300ms a resume", "a failed")},
	{name: "but waits again", events: story("0ms a join", "0ms a pause", "100ms a resume", "300ms a failed"), want: Counts{Stuck: 1}},
	{name: "a dead caller does not wait", events: story("0ms a join", "a crash", "500ms b join", "b ok"), final: "b"},
	{name: "times without anybody do not count", events: story("0ms a join", "a ok", "900ms b join", "b failed"), final: "a"},
}

func TestKnownAnomaliesAreCounted(t *testing.T) {
	for _, h := range histories {
		t.Run(h.name, func(t *testing.T) {
			found, got := Find(History{
				Events: h.events, Initial: strings.Fields(h.initial), Final: strings.Fields(h.final),
				TTL: 100 * time.Millisecond, Forever: h.forever,
			})
			got.StuckMS = 0
			if got != h.want {
				t.Errorf("counted %+v, want %+v: %v", got, h.want, found)
			}
			if got.Total() != len(found) {
				t.Errorf("%d counted, %d found", got.Total(), len(found))
			}
		})
	}
}

func TestTimes(t *testing.T) {
	_, c := Find(History{Events: story("10ms a got", "20ms b got", "30ms c got", "40ms b writes", "50ms a writes",
		"60ms c writes", "100ms d got", "110ms d writes", "200ms e join", "270ms e got", "e failed")})
	if c.TwoHolders != 2 || c.StuckMS != 70 || c.Stuck != 0 {
		t.Errorf("%+v", c)
	}
}

func TestFindingsSayWhoAndWhen(t *testing.T) {
	found, _ := Find(History{Initial: []string{"a", "b"}, Final: []string{"b", "c", "c"}, TTL: time.Millisecond, Events: story(
		"1ms a locks", "2ms b got", "3ms b unlocks a", "4ms b writes", "5ms a stores", "6ms c join", "20ms c failed")})
	var got []string
	for _, finding := range found {
		got = append(got, finding.At.String()+" "+finding.String())
	}
	want := []string{
		"2ms b took the lock and wrote while a held it and wrote",
		"3ms b deleted a's lock",
		"20ms a's acknowledged request is not in the list",
		"20ms c is in the list after a leave or a refused join",
		"20ms c is in the list more than once",
		"20ms c gave up, and the room was still stuck",
	}
	if !slices.Equal(got, want) {
		t.Errorf("got\n%s", strings.Join(got, "\n"))
	}
}
