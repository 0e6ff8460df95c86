package history

import (
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"testing"
)

func TestViolations_FieldsOfReport(t *testing.T) {
	got, err := json.Marshal(Counts{1, 2, 3, 4, 5, 6, 7, 8, 9, 10})
	if err != nil {
		t.Fatal(err)
	}
	const want = `{"lost":1,"phantom":2,"duplicate":3,"oversold":4,"seat_clash":5,"version_gap":6,"diverged":7,"intruder":8,"torn":9,"conflict":10}`
	if string(got) != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

func TestViolations_EachKindCounted(t *testing.T) {
	for _, kind := range []Kind{Lost, Phantom, Duplicate, Oversold, SeatClash, VersionGap, Diverged, Intruder, Torn, Conflict} {
		var v Violations
		v.report(place{kind: kind}, 1, "x")
		got, err := json.Marshal(v.Counts())
		if err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(string(got), fmt.Sprintf(`"%s":1`, kind)) || v.Total() != 1 || v.Verdict() != "inconsistent" {
			t.Errorf("%s is counted as %s, verdict %s", kind, got, v.Verdict())
		}
	}
}

func TestViolations_BoundedAndCountedOnce(t *testing.T) {
	var v Violations
	var all sync.WaitGroup
	for range 4 {
		all.Go(func() {
			for i := range 500 {
				v.report(place{Lost, "r", "e", uint64(i), "a"}, uint64(i), "a is missing")
			}
		})
	}
	all.Wait()
	if v.Total() != 500 || len(v.Descriptions()) != 100 {
		t.Errorf("%d counted and %d described, want 500 and 100", v.Total(), len(v.Descriptions()))
	}
}

func TestViolations_Descriptions(t *testing.T) {
	l := NewLedger(Options{})
	l.View("load-1", "张三", "player-1").Joined(2, List{Epoch: "e", Version: 18, Count: 1, Users: []Member{{User: "李四", Seat: 0}}})
	const want = "room load-1 version 18: 张三's acknowledged join is missing from the list (seat 2) [lost]"
	if got := l.Violations().Descriptions(); len(got) != 1 || got[0] != want {
		t.Errorf("got %q, want %q", got, want)
	}
}
