package chaos

import (
	"math/rand/v2"
	"strings"
	"time"
)

// Times of a schedule.
const (
	minGap, maxGap     = 500 * time.Millisecond, 2 * time.Second
	minFault, maxFault = 2 * time.Second, 6 * time.Second

	// pairs: every so many steps have two concurrent faults.
	pairs = 4
)

// Step is a part of a schedule: a pause, and then one fault or two concurrent ones, for a while. The next step
// waits until all is well.
type Step struct {
	Gap   time.Duration
	For   time.Duration
	Picks []Pick
}

// Pick is a fault, and a seed for its random choices, such as its target.
type Pick struct {
	Fault string
	Draw  uint64
}

// Schedule returns the first n steps for a seed. Each fault comes once before one repeats. Of two concurrent
// faults, not both hit Redis servers, nor both nodes.
func Schedule(seed uint64, faults []string, n int) []Step {
	random := rand.New(rand.NewPCG(seed, 0x6368616f73))
	between := func(from, to time.Duration) time.Duration { return from + time.Duration(random.Int64N(int64(to-from))) }
	var deck []string
	draw := func() Pick {
		if len(deck) == 0 {
			deck = append(deck, faults...)
			random.Shuffle(len(deck), func(i, j int) { deck[i], deck[j] = deck[j], deck[i] })
		}
		p := Pick{deck[0], random.Uint64()}
		deck = deck[1:]
		return p
	}
	steps := make([]Step, n)
	for i := range steps {
		s := Step{Gap: between(minGap, maxGap), For: between(minFault, maxFault), Picks: []Pick{draw()}}
		second := random.IntN(pairs) == 0
		if second && len(deck) > 0 && family(deck[0]) != family(s.Picks[0].Fault) {
			s.Picks = append(s.Picks, draw())
		}
		steps[i] = s
	}
	return steps
}

// family returns the target of a fault from its name: node, redis or clients, for example.
func family(fault string) string {
	what, _, _ := strings.Cut(fault, "-")
	if what == "failover" || what == "slot" {
		return "redis"
	}
	return what
}
