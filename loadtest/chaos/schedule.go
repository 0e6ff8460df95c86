package chaos

import (
	"math/rand/v2"
	"strings"
	"time"
)

// The times of a schedule.
const (
	minGap, maxGap     = 500 * time.Millisecond, 2 * time.Second
	minFault, maxFault = 2 * time.Second, 6 * time.Second

	// pairs is that every so many faults come two at once.
	pairs = 4
)

// Step is a part of a schedule: a pause, and then one fault, or two at once, that last for a while. What comes after
// waits until all is well again.
type Step struct {
	Gap   time.Duration
	For   time.Duration
	Picks []Pick
}

// Pick is a fault, and a number that says whom it strikes, and when and how, where a fault leaves that open.
type Pick struct {
	Fault string
	Draw  uint64
}

// Schedule returns the first n steps that a seed makes of these faults. Each fault comes before one comes again.
// Two at once do not both strike the servers of Redis, or the nodes.
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

// family returns what a fault strikes, by its name: node, redis or clients, for example.
func family(fault string) string {
	what, _, _ := strings.Cut(fault, "-")
	if what == "failover" || what == "slot" {
		return "redis"
	}
	return what
}
