package coordinator

import (
	"bufio"
	"bytes"
	"context"
	"crypto/sha1"
	"encoding/hex"
	"fmt"
	"io"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/alicebob/miniredis/v2/server"
	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"

	"roomd/lockmgr/redistest"
)

// simServer is the simulated Redis: an embedded one in virtual time, which besides can be restarted from
// an old copy of its data, has a clock that steps, and can be given broken scripts. It writes
// down what is committed.
type simServer struct {
	mini   *miniredis.Miniredis
	admin  *redis.Client // without a link
	ledger *simLedger
	broken brokenScript

	commands atomic.Int64  // that were carried out
	tooMuch  func()        // is called when they are more than simCommands
	turn     chan struct{} // has room for who restarts Redis

	mu      sync.Mutex
	down    bool              // guarded by mu
	run     int               // guarded by mu: how often it was started
	step    time.Duration     // guarded by mu: by which its clock differs
	stepped bool              // guarded by mu: it has differed
	leases  map[string]bool   // guarded by mu: that have ever been there
	begins  map[string]int    // guarded by mu: how often each of them was begun
	ended   map[string]bool   // guarded by mu: that were ended, and Redis has not lost that
	faults  []string          // guarded by mu
	broke   map[string]string // guarded by mu: hash of a broken script, by that of the one in its place
}

// simCommands is how many commands a schedule may take, with those of scripts: six times what the longest needs.
const simCommands = 300_000

// brokenScript is one way in which Redis could carry out other scripts than it was sent. The zero value
// breaks none.
type brokenScript struct {
	name, old, new string

	kinds []string // of the faults under which it is found soon; nil: all
}

func newSimServer(t *testing.T, broken brokenScript) *simServer {
	s := &simServer{mini: miniredis.NewMiniRedis(), broken: broken, broke: make(map[string]string), leases: make(map[string]bool), begins: make(map[string]int), ended: make(map[string]bool), turn: make(chan struct{}, 1)}
	s.ledger = newSimLedger()
	s.mini.ClockTTL(true)
	t.Cleanup(s.mini.Close)
	link := newSimLink(s, 0)
	link.admin = true
	s.admin = simClient(t, link.dial)
	redistest.OK(t, s.admin.Ping(t.Context()).Err()) // which starts it
	s.mini.Server().SetPreHook(s.before)
	return s
}

// simClient returns a client that connects by a function.
func simClient(t *testing.T, dial func(context.Context, string, string) (net.Conn, error)) *redis.Client {
	c := redis.NewClient(&redis.Options{
		Addr: "simulated", Dialer: dial, ContextTimeoutEnabled: true, MaxRetries: 1, DialerRetries: 1,
		DialTimeout: simTimeout, ReadTimeout: simTimeout, WriteTimeout: simTimeout,
		PoolSize:                 1000, // so that nobody waits for a connection; see package embedded
		MaintNotificationsConfig: &maintnotifications.Config{Mode: maintnotifications.ModeDisabled},
	})
	t.Cleanup(func() { _ = c.Close() })
	return c
}

// before is called before each command, also by a script. It reports whether it has answered it.
func (s *simServer) before(peer *server.Peer, cmd string, args ...string) bool {
	if s.commands.Add(1) == simCommands {
		s.tooMuch()
	}
	switch cmd {
	case "INFO":
		s.mu.Lock()
		defer s.mu.Unlock()
		peer.WriteBulk(fmt.Sprintf("# it\r\nrun_id:run%d\r\nmaster_replid:replid%d\r\n", s.run, s.run))
		return true
	case "PUBLISH": // in a commit's script, or a wake-up
		if id, ok := strings.CutSuffix(args[0], ":Events"); ok {
			s.ledger.commit(strings.TrimPrefix(id, "Room:"), args[1])
		}
	case "SET", "DEL":
		if name, ok := strings.CutPrefix(args[0], "Node:"); ok && !strings.Contains(name, ":") && !s.isDown() {
			s.leased(peer, args[0], cmd == "SET")
		}
	case "FLUSHALL":
		s.ledger.lost(nil)
		s.forgetEnds()
	case "SCRIPT":
		if len(args) == 2 && strings.EqualFold(args[0], "load") {
			s.breakScript(args[1], func(text string) {
				s.mini.Server().Dispatch(server.NewPeer(bufio.NewWriter(io.Discard)), []string{"SCRIPT", "load", text})
			})
		}
	case "EVAL":
		s.breakScript(args[0], func(text string) { args[0] = text })
		s.setClock()
	case "EVALSHA":
		s.mu.Lock()
		if broken, ok := s.broke[args[0]]; ok {
			args[0] = broken
		}
		if args[1] == "4" && strings.HasPrefix(args[2], "Node:") && args[len(args)-1] == "" {
			s.begins[args[2]]++
		}
		s.mu.Unlock()
		s.setClock()
	}
	return false
}

// leased is called when a script writes a node's lease, or ends it. One that was ended must not live again. One that has
// expired must not be prolonged; but the request by which it began may come late once more, as another beginning,
// because nobody relies on its end yet.
func (s *simServer) leased(peer *server.Peer, key string, lives bool) {
	if !lives {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.ended[key] = true
		return
	}
	var answer bytes.Buffer
	w := bufio.NewWriter(&answer)
	asking := server.NewPeer(w)
	asking.Ctx = peer.Ctx // inside of the script
	s.mini.Server().Dispatch(asking, []string{"EXISTS", key})
	asking.Flush()
	s.mu.Lock()
	defer s.mu.Unlock()
	switch at := time.Now().Format("4:05.000"); {
	case s.ended[key]:
		s.faults = append(s.faults, fmt.Sprintf("%s was ended, and lives again at %s", key, at))
	case s.leases[key] && s.begins[key] == 1 && strings.HasPrefix(answer.String(), ":0"):
		s.faults = append(s.faults, fmt.Sprintf("%s was over, and is prolonged at %s", key, at))
	}
	s.leases[key] = true
}

// forgetEnds records that Redis does not know any more which leases were ended.
func (s *simServer) forgetEnds() {
	s.mu.Lock()
	defer s.mu.Unlock()
	clear(s.ended)
}

// breakScript calls use with the broken text of a script, if it is that one.
func (s *simServer) breakScript(text string, use func(text string)) {
	if s.broken.old == "" || !strings.Contains(text, s.broken.old) {
		return
	}
	broken := strings.Replace(text, s.broken.old, s.broken.new, 1)
	s.mu.Lock()
	s.broke[sha1Of(text)] = sha1Of(broken)
	s.mu.Unlock()
	use(broken)
}

func sha1Of(text string) string {
	sum := sha1.Sum([]byte(text))
	return hex.EncodeToString(sum[:])
}

// setClock sets the clock of Redis, if that has ever differed from the others'.
func (s *simServer) setClock() {
	s.mu.Lock()
	step, stepped := s.step, s.stepped
	s.mu.Unlock()
	if stepped {
		s.mini.SetTime(time.Now().Add(step))
	}
}

func (s *simServer) stepClock(step time.Duration) {
	s.mu.Lock()
	s.step, s.stepped = step, s.stepped || step != 0
	s.mu.Unlock()
	s.setClock()
}

func (s *simServer) isDown() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.down
}
