package chaos

import (
	"reflect"
	"testing"
)

func TestSchedule_IsThatOfItsSeed(t *testing.T) {
	names := Config{Profile: Standalone, Persist: PersistAlways}.faults()
	a := Schedule(7, names, 50)
	if !reflect.DeepEqual(a, Schedule(7, names, 50)) {
		t.Error("the same seed makes another schedule")
	}
	if !reflect.DeepEqual(a[:20], Schedule(7, names, 20)) {
		t.Error("a longer schedule begins otherwise")
	}
	if reflect.DeepEqual(a, Schedule(8, names, 50)) {
		t.Error("another seed makes the same schedule")
	}
}

// Each fault comes before one comes again, and two at once strike different things.
func TestSchedule_Fair(t *testing.T) {
	names := Config{Profile: Standalone, Persist: PersistAlways}.faults()
	seen, pairs := make(map[string]int), 0
	for _, s := range Schedule(1, names, 200) {
		if s.Gap < minGap || s.Gap > maxGap || s.For < minFault || s.For > maxFault || len(s.Picks) < 1 || len(s.Picks) > 2 {
			t.Errorf("%v", s)
		}
		if len(s.Picks) == 2 {
			pairs++
			if family(s.Picks[0].Fault) == family(s.Picks[1].Fault) {
				t.Errorf("two of one kind at once: %v", s)
			}
		}
		for _, p := range s.Picks {
			seen[p.Fault]++
		}
	}
	least, most := 1000, 0
	for _, name := range names {
		least, most = min(least, seen[name]), max(most, seen[name])
	}
	if most-least > 1 || pairs < 20 {
		t.Errorf("from %d to %d times each, %d pairs", least, most, pairs)
	}
}

// What loses something by itself is injected only by its name.
func TestFaults_LoseNothingUnlessNamed(t *testing.T) {
	for _, persist := range Persists {
		c := Config{Profile: Standalone, Persist: persist}
		for _, name := range c.faults() {
			if FaultNamed(name).mayLose(c) != nothing {
				t.Errorf("%s with %s", name, persist)
			}
		}
	}
}
