package coordinator

import (
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"roomd/lockmgr/redistest"
)

// simEnv returns a number from the environment.
func simEnv(t *testing.T, name string, otherwise int) int {
	text := os.Getenv(name)
	if text == "" {
		return otherwise
	}
	n, err := strconv.Atoi(text)
	redistest.FatalIf(t, err != nil, "%s must be a number, not %q", name, text)
	return n
}

// Four nodes play under seeded schedules of faults, in virtual time; see simJudge for what has to hold. ROOMD_SIM
// says how many schedules, ROOMD_SIM_SEED which is the first (then only that one, unless ROOMD_SIM is there, too), and
// ROOMD_SIM_FAULTS which of its faults happen, by their numbers.
func TestSim(t *testing.T) {
	first, count := simEnv(t, "ROOMD_SIM_SEED", 0), 3
	switch {
	case first > 0:
		count = 1
	case os.Getenv("ROOMD_TESTS") == "nightly":
		count = 300
	}
	first, count = max(1, first), simEnv(t, "ROOMD_SIM", count)
	for seed := first; seed < first+count; seed++ {
		t.Run(strconv.Itoa(seed), func(t *testing.T) {
			t.Parallel()
			s := newSimSchedule(uint64(seed))
			if only := os.Getenv("ROOMD_SIM_FAULTS"); only != "" {
				s = s.with(func(f simFault) bool { return strings.Contains(","+only+",", ","+strconv.Itoa(f.number)+",") })
			}
			if failed := s.play(t, brokenScript{}); len(failed) > 0 {
				t.Log(s.report(failed)) // as a smaller one takes a while
				t.Error(s.smallestReport(t, brokenScript{}, failed))
			}
		})
	}
}

func (s simSchedule) smallestReport(t *testing.T, broken brokenScript, failed []string) string {
	smallest, failed := s.smallest(t, broken, failed, time.Minute)
	return smallest.report(failed)
}

// simTries is in how many schedules a broken script has to be found.
const simTries = 20

// Redis with a broken script is found out within a few schedules.
func TestSim_FindsBrokenScripts(t *testing.T) {
	late, stalls, lost := []string{"late copy", "lost reply", "short stall", "article"}, []string{"long stall", "hole", "dies"}, []string{"old copy", "flush"}
	for _, broken := range []brokenScript{
		{"the mark is not looked at", "(is[1] or '') == ARGV[at + 1] and ", "", nil},
		{"the incarnation is not looked at", "(epoch ~= '' or not is[1] or is[2] == '", "(true or is[2] == '", lost},
		{"a commit that came before is not known", "local before = is[3] == ARGV[5]\n", "local before = false\n", late},
		{"by:<node> is forgotten", "'mark', ARGV[at + 10], ARGV[at + 2], ARGV[at])", "'mark', ARGV[at + 10])", late},
		{"a commit does not look whether another has the lock", "known and redis.call('EXISTS', KEYS[1], KEYS[2]) == 0", "known", []string{"article"}},
		{"a commit keeps the lock", "held, position = release(1, next ~= '' and next, next_ttl ~= '' and next_ttl)", "held = false", nil},
		{"the lock is given back by whoever leaves", "  if not lock_holds(at, token) then\n    return false\n  end\n  lock_release(at)", "  lock_release(at)", []string{"article", "late copy"}},
		{"a lease goes on after its end", "if ARGV[6] ~= '' and (not beat or beat < tonumber(ARGV[6])) then", "if false then", stalls},
		{"a move writes to one of the rooms", "for _, room in ipairs(rooms) do\n  if ARGV[room.at + 4] ~= '' then", "for _, room in ipairs({rooms[1]}) do\n  if ARGV[room.at + 4] ~= '' then", nil},
		{"an event is not told", "  local told = redis.pcall(ARGV[1], ARGV[at + 5], ARGV[at + 4])", "  local told = {}", nil},
	} {
		t.Run(broken.name, func(t *testing.T) {
			redistest.Nightly(t)
			t.Parallel()
			start := time.Now()
			for seed := uint64(1); seed <= simTries; seed++ {
				if failed := newSimSchedule(seed, broken.kinds...).play(t, broken); len(failed) > 0 {
					t.Logf("found by seed %d after %v: %s", seed, time.Since(start).Round(time.Second), failed[0])
					return
				}
			}
			t.Errorf("%d schedules do not find it", simTries)
		})
	}
}
