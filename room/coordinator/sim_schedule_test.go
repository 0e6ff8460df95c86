package coordinator

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"
)

// simSchedule is which faults happen when. The seed says, besides, what players do.
type simSchedule struct {
	seed   uint64
	faults []simFault
}

// simFault is one fault. Which fields count depends on its kind.
type simFault struct {
	number int // in the schedule of its seed
	kind   string
	at     time.Duration
	lasts  time.Duration
	node   int
	room   int
	calls  int           // the script call so many from then on
	older  time.Duration // of a copy; of a late request by how much
}

const (
	simNodes = 4
	simRooms = 3

	simHorizon = 12 * time.Second // faults begin before it
	simLockTTL = 2 * time.Second
	simNodeTTL = 3 * time.Second
	simGrace   = 4 * time.Second
)

// simKinds are the kinds of faults, each as often as it is to be drawn.
var simKinds = slices.Concat(
	slices.Repeat([]string{"lost reply", "late copy", "hole"}, 3), slices.Repeat([]string{"reset", "short stall", "long stall", "old copy", "article"}, 2),
	[]string{"slow", "dies", "flush", "script flush", "empty", "clock"},
)

// newSimSchedule draws a schedule, with faults of all kinds unless some are named.
func newSimSchedule(seed uint64, kinds ...string) simSchedule {
	if len(kinds) == 0 {
		kinds = simKinds
	}
	rng := rand.New(rand.NewPCG(seed, 0))
	between := func(least, most time.Duration) time.Duration {
		return least + time.Duration(rng.Int64N(int64(most-least)))
	}
	s := simSchedule{seed: seed}
	deaths := 0
	for n := range 3 + rng.IntN(8) {
		f := simFault{
			number: n, kind: kinds[rng.IntN(len(kinds))], at: between(0, simHorizon), node: rng.IntN(simNodes), room: rng.IntN(simRooms),
			calls: 1 + rng.IntN(6),
		}
		switch f.kind {
		case "late copy":
			f.older = between(10*time.Millisecond, 3*simLockTTL)
		case "slow":
			f.lasts, f.older = between(time.Second, 5*time.Second), between(20*time.Millisecond, 150*time.Millisecond)
		case "hole":
			f.lasts = between(50*time.Millisecond, 2*simNodeTTL)
		case "short stall":
			f.lasts = simLockTTL + between(0, time.Second)
		case "long stall":
			f.lasts = simNodeTTL*3/2 + simGrace + between(0, 3*time.Second)
		case "dies":
			if deaths++; deaths == simNodes-1 { // two have to live on
				continue
			}
		case "old copy":
			f.lasts, f.older = between(50*time.Millisecond, time.Second), time.Duration(math.Pow(rng.Float64(), 3)*float64(4*time.Second))
		case "empty":
			f.lasts = between(50*time.Millisecond, time.Second)
		case "article":
			f.lasts = between(100*time.Millisecond, 2*simLockTTL)
		case "clock":
			f.lasts, f.older = between(time.Second, 5*time.Second), between(-5*time.Second, 5*time.Second)
		}
		s.faults = append(s.faults, f)
	}
	slices.SortFunc(s.faults, func(a, b simFault) int { return int(a.at - b.at) })
	return s
}

// with returns the schedule with only those of its faults.
func (s simSchedule) with(keep func(simFault) bool) simSchedule {
	s.faults = slices.DeleteFunc(slices.Clone(s.faults), func(f simFault) bool { return !keep(f) })
	return s
}

func (f simFault) String() string {
	ms := func(d time.Duration) time.Duration { return d.Round(time.Millisecond) }
	what := map[string]string{
		"lost reply":   fmt.Sprintf("node %d loses the reply to script call %d from now, and the connection with it", f.node, f.calls),
		"late copy":    fmt.Sprintf("node %d gives up the connection of script call %d from now; the call arrives %v late", f.node, f.calls, ms(f.older)),
		"slow":         fmt.Sprintf("node %d: each way takes up to %v, for %v", f.node, ms(f.older), ms(f.lasts)),
		"hole":         fmt.Sprintf("node %d: nothing arrives for %v, and what was under way never does", f.node, ms(f.lasts)),
		"reset":        fmt.Sprintf("node %d: all connections end", f.node),
		"short stall":  fmt.Sprintf("node %d stands still for %v; what was under way arrives afterwards", f.node, ms(f.lasts)),
		"long stall":   fmt.Sprintf("node %d stands still for %v; what was under way arrives afterwards", f.node, ms(f.lasts)),
		"dies":         fmt.Sprintf("node %d dies", f.node),
		"flush":        "Redis is emptied by FLUSHALL",
		"script flush": "SCRIPT FLUSH",
		"old copy":     fmt.Sprintf("a copy of Redis is made; %v later it is away for %v, and comes back with the copy", ms(f.older), ms(f.lasts)),
		"empty":        fmt.Sprintf("Redis is away for %v, and comes back empty", ms(f.lasts)),
		"article":      fmt.Sprintf("another client takes the lock of %s by SET NX EX, and stands still for %v", simRoom(f.room), ms(f.lasts)),
		"clock":        fmt.Sprintf("the clock of Redis is %v off, for %v", ms(f.older), ms(f.lasts)),
	}[f.kind]
	return fmt.Sprintf("%7.3fs  %s  [%d]", f.at.Seconds(), what, f.number)
}

func simRoom(n int) string { return string(rune('a' + n)) }

// smallest removes faults from a schedule one after the other, as long as it still fails. Goroutines do not
// run alike each time, so each smaller one gets some tries. It returns what the last one failed with.
func (s simSchedule) smallest(t *testing.T, broken brokenScript, failed []string, limit time.Duration) (simSchedule, []string) {
	const tries = 4
	for from := time.Now(); ; {
		before := len(s.faults)
		for _, f := range slices.Clone(s.faults) {
			smaller := s.with(func(other simFault) bool { return other.number != f.number })
			for range tries {
				if time.Since(from) > limit {
					return s, failed
				}
				if wrong := smaller.play(t, broken); len(wrong) > 0 {
					s, failed = smaller, wrong
					break
				}
			}
		}
		if len(s.faults) == before {
			return s, failed
		}
	}
}

// report describes a failure, and how to see it again.
func (s simSchedule) report(failed []string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "seed %d fails:\n", s.seed)
	for _, text := range failed {
		fmt.Fprintf(&b, "    %s\n", text)
	}
	fmt.Fprintf(&b, "the smallest schedule that was seen to fail, of %d nodes:\n", simNodes)
	numbers := make([]string, len(s.faults))
	for i, f := range s.faults {
		fmt.Fprintf(&b, "    %v\n", f)
		numbers[i] = fmt.Sprint(f.number)
	}
	fmt.Fprintf(&b, "again (goroutines do not run alike each time): ROOMD_SIM_SEED=%d ROOMD_SIM_FAULTS=%s go test ./room/coordinator -run 'TestSim$' -count=10",
		s.seed, strings.Join(append(numbers, "none")[:max(1, len(numbers))], ","))
	return b.String()
}
