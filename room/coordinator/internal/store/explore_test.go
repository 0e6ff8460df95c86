package store

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"

	"roomd/lockmgr/redistest"
)

// situation is where an exploration begins.
type situation struct {
	name    string
	before  []string   // actions in the room
	actions [][]string // of each writer; those after a "later" come while it is at work
	rules   writerRules
	left    bounds
}

func (c situation) explore(t *testing.T, scripts scriptSet, most int) (trace string, _ stats) {
	mini := miniredis.RunT(t)
	mini.SetTime(clock)
	client := redis.NewClient(&redis.Options{Addr: mini.Addr()})
	defer client.Close()
	e := &explorer{t: t, rules: c.rules, copies: make(map[string]*copied), store: New(client, Options{LockTTL: 2 * time.Second, Idle: time.Hour, Unused: time.Minute})}
	e.rules.maxBatch = max(1, e.rules.maxBatch)
	e.x = &executor{mini: mini, client: client, scripts: scripts, known: make(map[string]effect)}
	s := &state{left: c.left, writers: make([]writer, len(c.actions))}
	var known *copied
	s.db, known = serverWith(t, e.x, e.store, c.before...)
	for i, actions := range c.actions {
		now := slices.Index(append(slices.Clone(actions), "later"), "later")
		w := &s.writers[i]
		w.queue, w.copy = actions[:now], known
		w.todo = slices.DeleteFunc(slices.Clone(actions[now:]), func(a string) bool { return a == "later" })
		s.renew(i)
		s.serve(i)
	}
	trace = e.explore(s, most)
	return trace, e.stats
}

var (
	both  = [][]string{{"a"}, {"b"}}
	grows = [][]string{{"a", "later", "b"}, {"c"}}
	pair  = writerRules{maxBatch: 2}
)

// Whatever arrives late or never, and whoever dies: what is acknowledged is in the room once, what is refused is
// not, and nothing is left behind.
func TestAllOrders(t *testing.T) {
	t.Parallel()
	old := []string{"join m"} // so that what is said has a room
	situations := []situation{
		{"replies are missing", old, both, writerRules{}, bounds{unanswered: 2}},
		{"replies are missing, and writers hear of each other", old, both, writerRules{hears: true}, bounds{unanswered: 2}},
		{"a client of the lock alone", old, both, writerRules{}, bounds{unanswered: 1, foreign: 1}},
		{"a hold expires", old, both, writerRules{}, bounds{expiries: 1, foreign: 1}},
		{"a writer gives up", old, both, writerRules{}, bounds{unanswered: 1, giveUps: 1}},
		{"a writer dies", old, both, writerRules{}, bounds{unanswered: 1, crashes: 1}},
		{"an older copy takes over", old, both, writerRules{}, bounds{unanswered: 1, failovers: 1}},
		{"the batch grows", old, grows, pair, bounds{unanswered: 1, giveUps: 1}},
		{"the next token is known", old, grows, writerRules{lookahead: true}, bounds{unanswered: 1}},
		{"the room is new", nil, [][]string{{"join a"}, {"join b"}}, writerRules{}, bounds{unanswered: 1, expiries: 1}},
		{"nothing is to be written", old, [][]string{{"look"}, {"b"}}, writerRules{}, bounds{unanswered: 1, expiries: 1}},
		{"alone", old, [][]string{{"a"}}, writerRules{}, bounds{unanswered: 2, foreign: 1}},
		{"three", old, [][]string{{"a"}, {"b"}, {"c"}}, writerRules{}, bounds{expiries: 1}},
	}
	deeper := []situation{
		{"writers hear of each other, and an older copy takes over", old, both, writerRules{hears: true}, bounds{unanswered: 1, failovers: 1}},
		{"three hear of each other", old, [][]string{{"a"}, {"b"}, {"c"}}, writerRules{hears: true}, bounds{foreign: 1}},
		{"many replies are missing", old, both, writerRules{}, bounds{unanswered: 3}},
		{"replies are missing, and a client of the lock alone", old, both, writerRules{}, bounds{unanswered: 2, foreign: 1}},
		{"two holds expire", old, both, writerRules{}, bounds{unanswered: 1, expiries: 2, foreign: 1, giveUps: 1}},
		{"all but a failover", old, both, writerRules{}, bounds{1, 1, 1, 0, 1, 1}},
		{"all but a crash", old, both, writerRules{}, bounds{1, 1, 0, 1, 1, 0}},
		{"the batch grows, and a client of the lock alone", old, grows, pair, bounds{unanswered: 1, giveUps: 1, foreign: 1}},
		{"the batch grows, and a copy takes over", old, grows, pair, bounds{unanswered: 1, failovers: 1}},
		{"the next token is known, and a hold expires", old, grows, writerRules{lookahead: true}, bounds{unanswered: 1, expiries: 1}},
		{"the room is new, and a copy takes over", nil, [][]string{{"join a"}, {"join b"}}, writerRules{}, bounds{unanswered: 1, giveUps: 1, failovers: 1}},
		{"alone, and all goes wrong", old, [][]string{{"a", "later", "b"}}, pair, bounds{2, 1, 0, 0, 2, 1}},
		{"three, and replies are missing", old, [][]string{{"a"}, {"b"}, {"c"}}, writerRules{}, bounds{unanswered: 1}},
		{"three, and a client of the lock alone", old, [][]string{{"a"}, {"b"}, {"c"}}, writerRules{}, bounds{expiries: 1, foreign: 1}},
	}
	for i, c := range slices.Concat(situations, deeper) {
		for _, c.rules.behind = range []int{0, 2} {
			if c.rules.hears && c.rules.behind == 0 {
				continue
			}
			t.Run(fmt.Sprintf("%s, behind %d times", c.name, c.rules.behind), func(t *testing.T) {
				if i >= len(situations) {
					redistest.Nightly(t)
				}
				fault, stats := c.explore(t, shippedScripts(), 3e6)
				t.Log(stats)
				redistest.ErrorIf(t, fault != "", "%v", fault)
			})
		}
	}
}
