package lockmgr

import (
	"fmt"
	"slices"
	"sort"
	"strings"
	"testing"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"

	"roomd/lockmgr/redistest"
)

// explorer tries all orders in which requests of a few clients can arrive, be lost, be late, or
// lose their replies, on the real scripts: depth first, each state once. It reports a write that
// is accepted from a hold after one of a later hold, and what is left when all is over.
type explorer struct {
	mini   *miniredis.Miniredis
	client *redis.Client
	rules  clientRules
	steps  int
	seen   map[string]bool
	trace  []string
	fault  string // the first one that was found, and how it came about
}

// clientRules are how a client behaves that gets no answer.
type clientRules struct{ sameToken bool } // it sends a request for the lock again as it was

// exploredState is all that matters for what can happen.
type exploredState struct {
	holder           string
	queue            []string // in order of their scores
	buried           []string
	quiet            bool // the last number says that there is no queue
	clients          [2]exploredClient
	net              []request
	faults, expiries int
	writer           int   // the hold that wrote last
	past             []int // holds that wrote before it
}

// exploredClient acquires the lock, writes, releases it, and is done; or abandons the attempt.
type exploredClient struct {
	token  string
	doubts string // UUIDs
	serial int
	queued bool
	done   bool
}

// request is under way. Its client waits for the reply, unless it is late.
type request struct {
	kind, token, ids string
	client           int
	late             bool
}

var exploredScripts = map[string]*redis.Script{
	"acquire": acquireScript, "inherit": inheritScript, "abandon": abandonScript, "release": releaseScript,
	"write": NewScript(`return lock_holds(1, ARGV[3]) and 1 or 0`),
}

func (s exploredState) clone() exploredState {
	s.queue, s.buried, s.net, s.past = slices.Clone(s.queue), slices.Clone(s.buried), slices.Clone(s.net), slices.Clone(s.past)
	return s
}

func (s *exploredState) key() string {
	slices.Sort(s.buried)
	slices.Sort(s.past)
	sort.Slice(s.net, func(i, j int) bool { return fmt.Sprint(s.net[i]) < fmt.Sprint(s.net[j]) })
	return fmt.Sprintf("%+v", *s)
}

func exploredToken(client, serial int) string {
	return fmt.Sprintf("a:%08d-0000-4000-8000-%012d", client, serial)
}

// send puts a request of a client on its way.
func (s *exploredState) send(kind string, client int, ids string) {
	s.net = append(s.net, request{kind, s.clients[client].token, ids, client, false})
}

// ask asks for the lock under a new token, or under the same one.
func (s *exploredState) ask(kind string, client int, again bool, rules clientRules) {
	c := &s.clients[client]
	if again && !rules.sameToken {
		c.doubts += c.token[len(c.token)-uuidLen:]
		c.serial++
		c.token = exploredToken(client, c.serial)
	}
	ids := ""
	if kind == "inherit" {
		ids = c.doubts
	}
	s.send(kind, client, ids)
}

// abandon ends the attempt. What the client asks for is in doubt if it does not know the answer.
func (s *exploredState) abandon(client int, inDoubt bool, rules clientRules) {
	c := &s.clients[client]
	ids := c.doubts
	if inDoubt && !rules.sameToken {
		ids += c.token[len(c.token)-uuidLen:]
	}
	c.queued = false
	s.send("abandon", client, ids)
}

// answered has a client go on after a reply.
func (s *exploredState) answered(r request, reply any, rules clientRules) {
	c := &s.clients[r.client]
	fence, _ := parseReply(reply)
	switch r.kind {
	case "acquire":
		switch {
		case c.doubts != "":
			s.ask("inherit", r.client, false, rules)
		case fence != "":
			s.send("write", r.client, "")
		default:
			c.queued = true
		}
	case "inherit":
		c.doubts = ""
		s.ask("acquire", r.client, false, rules)
	case "write":
		s.send("release", r.client, "")
	case "release", "abandon":
		c.done = true
	}
}

// run carries a request out.
func (e *explorer) run(t *testing.T, s *exploredState, r request) any {
	t.Helper()
	e.mini.FlushDB()
	if s.holder != "" {
		_ = e.mini.Set("Lock:a", s.holder)
	}
	for i, token := range s.queue {
		_, _ = e.mini.ZAdd("Lock:a:Queue", float64(i+1), token)
	}
	for _, token := range s.buried {
		_, _ = e.mini.ZAdd("Lock:a:Queue", 1.5e18, token)
	}
	if s.quiet {
		_ = e.mini.Set("Lock:a:Fence", "1.")
	}
	args := []any{"PUBLISH", 60000, r.token}
	switch r.kind {
	case "acquire":
		args = append(args, 60000)
	case "inherit", "abandon":
		args = append(args, r.ids)
	}
	reply, err := exploredScripts[r.kind].Run(t.Context(), e.client, []string{"Lock:a", "Lock:a:Queue", "Lock:a:Fence"}, args...).Result()
	redistest.FatalIf(t, err != nil, "%v %v", r, err)
	s.holder, _ = e.mini.Get("Lock:a")
	last, _ := e.mini.Get("Lock:a:Fence")
	s.quiet = strings.HasSuffix(last, ".")
	s.queue, s.buried = nil, nil
	scores, _ := e.mini.SortedSet("Lock:a:Queue")
	for token, score := range scores {
		if score >= 1e18 {
			s.buried = append(s.buried, token)
		} else {
			s.queue = append(s.queue, token)
		}
	}
	slices.SortFunc(s.queue, func(a, b string) int { return int(scores[a] - scores[b]) })
	if s.quiet && len(s.queue)+len(s.buried) > 0 {
		e.report(fmt.Sprintf("%q wait and %q are buried, and the last number says that there is no queue", s.queue, s.buried))
	}
	if r.kind == "write" && reply == int64(1) {
		hold := r.client
		if slices.Contains(s.past, hold) {
			e.report("a write was accepted from a hold after that of a later one")
		}
		if s.writer != hold && s.writer >= 0 {
			s.past = append(s.past, s.writer)
		}
		s.writer = hold
	}
	return reply
}

func (e *explorer) report(what string) {
	if e.fault == "" {
		e.fault = what + ":\n\t" + strings.Join(e.trace, "\n\t")
	}
}

// explore tries all that can happen next.
func (e *explorer) explore(t *testing.T, s exploredState) {
	if key := s.key(); e.seen[key] || e.fault != "" {
		return
	} else {
		e.seen[key] = true
	}
	try := func(what string, do func(s *exploredState)) {
		next := s.clone()
		e.trace = append(e.trace, what)
		e.steps++
		do(&next)
		e.explore(t, next)
		e.trace = e.trace[:len(e.trace)-1]
	}
	for i, r := range s.net {
		if s.net[i].late && slices.Contains(s.net[:i], r) {
			continue // a copy of one that was tried
		}
		name := fmt.Sprintf("%s of client %d (%s)", r.kind, r.client, r.token[len(r.token)-2:])
		take := func(s *exploredState) { s.net = slices.Delete(s.net, i, i+1) }
		try(name, func(s *exploredState) {
			take(s)
			if reply := e.run(t, s, r); !r.late {
				s.answered(r, reply, e.rules)
			}
		})
		if r.late || s.faults == 0 {
			continue
		}
		for _, how := range []string{"its reply is lost", "it is late", "it is lost"} {
			unanswered := func(then string, do func(s *exploredState)) {
				try(name+": "+how+", "+then, func(s *exploredState) {
					s.faults--
					switch how {
					case "its reply is lost":
						take(s)
						e.run(t, s, r)
					case "it is late":
						s.net[i].late = true
					case "it is lost":
						take(s)
					}
					do(s)
				})
			}
			if asks := r.kind == "acquire" || r.kind == "inherit"; asks {
				unanswered("asked again", func(s *exploredState) { s.ask(r.kind, r.client, true, e.rules) })
				unanswered("given up", func(s *exploredState) { s.abandon(r.client, true, e.rules) })
			} else {
				unanswered("sent again", func(s *exploredState) { s.send(r.kind, r.client, r.ids) })
			}
		}
	}
	over := len(s.net) == 0
	for i, c := range s.clients {
		over = over && c.done
		if !c.queued {
			continue
		}
		if s.holder == c.token {
			try(fmt.Sprintf("client %d is woken", i), func(s *exploredState) {
				s.clients[i].queued = false
				s.send("write", i, "")
			})
		}
		try(fmt.Sprintf("client %d polls", i), func(s *exploredState) {
			s.clients[i].queued = false
			s.ask("acquire", i, false, e.rules)
		})
		try(fmt.Sprintf("client %d gives up", i), func(s *exploredState) { s.abandon(i, false, e.rules) })
	}
	if s.holder != "" && s.expiries > 0 {
		try("the lock expires", func(s *exploredState) { s.holder, s.expiries = "", s.expiries-1 })
	}
	if over && (s.holder != "" || len(s.queue) > 0) {
		e.report(fmt.Sprintf("in the end %q holds the lock, and %q wait", s.holder, s.queue))
	}
}

// exploreAll explores what two clients can meet. It returns the first fault, and the number of steps.
func exploreAll(t *testing.T, rules clientRules, faults, expiries int) (fault string, steps int) {
	mini := miniredis.RunT(t)
	client := redis.NewClient(&redis.Options{Addr: mini.Addr()})
	defer client.Close()
	e := &explorer{mini: mini, client: client, rules: rules, seen: make(map[string]bool)}
	s := exploredState{faults: faults, expiries: expiries, writer: -1}
	for i := range s.clients {
		s.clients[i].token = exploredToken(i, 0)
		s.send("acquire", i, "")
	}
	e.explore(t, s)
	return e.fault, e.steps
}

// Whatever arrives twice, late or never: no hold writes after a later one, and nothing is left.
func TestAllOrders(t *testing.T) {
	t.Parallel()
	for _, bounds := range [][2]int{{1, 0}, {0, 1}, {1, 1}, {2, 0}} {
		t.Run(fmt.Sprintf("%d faults, %d expiries", bounds[0], bounds[1]), func(t *testing.T) {
			if bounds[0]+bounds[1] > 1 {
				redistest.Thorough(t)
			}
			fault, steps := exploreAll(t, clientRules{}, bounds[0], bounds[1])
			t.Logf("%d steps", steps)
			redistest.ErrorIf(t, fault != "", "%s", fault)
		})
	}
}

// Clients that send the same token again are found out.
func TestAllOrdersFindAFault(t *testing.T) {
	fault, steps := exploreAll(t, clientRules{sameToken: true}, 2, 0)
	t.Logf("after %d steps: %s", steps, fault)
	redistest.ErrorIf(t, fault == "", "no fault was found")
}
