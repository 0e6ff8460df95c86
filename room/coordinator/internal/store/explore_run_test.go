package store

import (
	"fmt"
	"hash/maphash"
	"slices"
	"strings"
	"testing"
	"time"

	"roomd/lockmgr/redistest"
)

// explorer tries all orders in which the requests of a few writers can arrive, be late or be lost, on the
// real scripts: breadth first, each state once. So the first fault comes about in the fewest steps.
type explorer struct {
	t      *testing.T
	x      *executor
	store  *Store
	rules  writerRules
	copies map[string]*copied // by commit id: what events say of it
	fault  string             // what the last step has broken
	stats  stats
}

// writerRules are how the writers behave.
type writerRules struct {
	maxBatch  int  // actions in a commit
	behind    int  // how often a commit may find another room before it takes the lock
	hears     bool // it does not read the room then
	lookahead bool // a hold puts the next token into the queue though nothing waits
	idOfHold  bool // broken: the id of a commit does not name what it writes
	mayLeave  bool // what is left behind is no fault
}

type stats struct {
	states, steps, depth, ran int
	took                      time.Duration
}

func (s stats) String() string {
	return fmt.Sprintf("%d states, %d steps to a depth of %d, %d executions, %v", s.states, s.steps, s.depth, s.ran, s.took.Round(time.Millisecond))
}

// move is something that can happen next.
type move struct {
	what string
	do   func(s *state)
}

// node is a state that was reached: from where, and by which of the moves there.
type node struct {
	from, move int32
	ends       bool // all can come to an end from here without anything else going wrong; or has to go wrong
}

// explore tries all that can happen. It returns how the first fault comes about.
func (e *explorer) explore(start *state, most int) (trace string) {
	began, seed := time.Now(), maphash.MakeSeed()
	seen := map[uint64]int32{maphash.String(seed, start.key()): 0}
	nodes := []node{{from: -1}}
	var smooth [][2]int32 // the moves from state to state by which nothing goes wrong
	level, at := []*state{start}, []int32{0}
	defer func() {
		e.stats.states, e.stats.ran, e.stats.took = len(nodes), e.x.ran, time.Since(began)
	}()
	for ; len(level) > 0; e.stats.depth++ {
		var next []*state
		var nextAt []int32
		for k, s := range level {
			for m, mv := range e.moves(s) {
				child := s.clone()
				e.fault = ""
				mv.do(child)
				child.prune()
				e.stats.steps++
				e.check(child)
				if e.fault != "" {
					return e.trace(start, append(path(nodes, at[k]), int32(m)))
				}
				hash := maphash.String(seed, child.key())
				to, known := seen[hash]
				if !known {
					to = int32(len(nodes))
					seen[hash] = to
					nodes = append(nodes, node{at[k], int32(m), child.isOver() || child.isExcused()})
					next, nextAt = append(next, child), append(nextAt, to)
				}
				if child.left == s.left {
					smooth = append(smooth, [2]int32{at[k], to})
				}
			}
			level[k] = nil
		}
		redistest.FatalIf(e.t, len(nodes) > most, "more than %d states", most)
		level, at = next, nextAt
	}
	if stuck := stuckAt(nodes, smooth); stuck >= 0 && !e.rules.mayLeave {
		e.fault = "nothing comes to an end from here unless the lock expires"
		return e.trace(start, path(nodes, stuck))
	}
	return ""
}

// stuckAt returns the first state from which no end can be reached, or -1.
func stuckAt(nodes []node, smooth [][2]int32) int32 {
	for changed := true; changed; {
		changed = false
		for _, edge := range slices.Backward(smooth) {
			if nodes[edge[1]].ends && !nodes[edge[0]].ends {
				nodes[edge[0]].ends, changed = true, true
			}
		}
	}
	return int32(slices.IndexFunc(nodes, func(n node) bool { return !n.ends }))
}

// path returns the moves by which a state was reached.
func path(nodes []node, at int32) (moves []int32) {
	for ; at > 0; at = nodes[at].from {
		moves = append(moves, nodes[at].move)
	}
	slices.Reverse(moves)
	return moves
}

// trace describes what happens on a path, the last step of which breaks a rule.
func (e *explorer) trace(start *state, moves []int32) string {
	var b strings.Builder
	s, fault := start.clone(), e.fault
	for i, m := range moves {
		mv := e.moves(s)[m]
		mv.do(s)
		s.prune()
		fmt.Fprintf(&b, "\n%3d. %s\n       %s", i+1, mv.what, s.shown())
	}
	return fault + b.String()
}

// check looks for what must not be.
func (e *explorer) check(s *state) {
	if e.fault == "" {
		e.checkRefused(s)
	}
	if e.fault == "" && !e.rules.mayLeave && s.isOver() {
		e.fault = s.leftBehind()
	}
}
