package transport

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"roomd/lockmgr/redistest"
	"roomd/room"
	"roomd/transport/auth"
	"roomd/transport/internal/frames"
	"roomd/transport/protocol"
)

// meet returns clients of room 42, of whom a, b and c are members through two nodes, and w watches.
// The room is at version 3.
func meet(t *testing.T, opts Options) (a, b, c, w *testClient) {
	t.Helper()
	first, second, a, b := twoNodes(t, room.Rules{}, opts)
	c, w = first.connect(t, "c"), second.connect(t, "w")
	c.ask(`"join"`, `"version":3,"seat":2,"count":3,"users":[{"user":"b","seat":0},{"user":"a","seat":1},{"user":"c","seat":2}]`)
	w.ask(`"watch"`, `"version":3,"count":3,"users":[{"user":"b","seat":0},{"user":"a","seat":1},{"user":"c","seat":2}]`)
	expectAll(eventOf(3, `{"type":"join","user":"c","seat":2}`), a, b)
	return a, b, c, w
}

// Everybody in the room hears a message, also who has sent it: as an event behind the reply. What is
// for some is heard by those and the sender; to others it is a version without changes.
func TestSay_Messages(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, b, c, w := meet(t, Options{})
		for i, tt := range []struct{ said, change, heard string }{
			{`"text":"hi \"all\""`, `"text":"hi \"all\""`, "abcw"},
			{`"data":{"x": [1]}`, `"data":{"x":[1]}`, "abcw"},
			{`"data":null`, `"data":null`, "abcw"},
			{`"text":"psst","to":["b"]`, `"text":"psst","to":["b"]`, "ab"},
			{`"data":1,"to":["b","c"]`, `"data":1,"to":["b","c"]`, "abc"},
			{`"text":"to me","to":["a"]`, `"text":"to me","to":["a"]`, "a"},
		} {
			a.ask(`"say",`+tt.said, fmt.Sprintf(`"version":%d,"count":3`, 4+i))
			for name, v := range map[string]*testClient{"a": a, "b": b, "c": c, "w": w} {
				if strings.Contains(tt.heard, name) {
					v.expect(eventOf(4+i, `{"type":"message","user":"a",`+tt.change+`}`))
				} else {
					v.expect(eventOf(4 + i))
				}
			}
		}
	})
}

// A frame that merges events keeps from each client what is not for it.
func TestSay_Merged(t *testing.T) {
	said := func(version uint64, text string, to ...string) *room.Event {
		return &room.Event{Room: "42", Epoch: "e", Version: version, From: version - 1, Changes: []room.Change{
			{Type: room.KindMessage, User: "a", Detail: &room.Detail{Text: text, To: to}},
		}}
	}
	events := []*room.Event{said(1, "1 b", "b"), said(2, "2 all"), said(3, "3 b c", "b", "c"), said(4, "4 c", "c")}
	for user, want := range map[string]string{"a": "1 b,2 all,3 b c,4 c", "b": "1 b,2 all,3 b c", "c": "2 all,3 b c,4 c", "w": "2 all"} {
		for n := 1; n <= len(events); n++ { // as many at once
			var texts []string
			at := uint64(0)
			for i := 0; i < len(events); i += n {
				for _, frame := range frames.Append(nil, room.Viewer{User: user}, nil, events[i:min(i+n, len(events))]) {
					decoded, err := protocol.DecodeFrame(frame[strings.IndexByte(string(frame), '{'):])
					e, ok := decoded.(*protocol.Event)
					redistest.FatalIf(t, err != nil || !ok || e.From != at, "at %d: %s, %v", at, frame, err)
					at = e.Version
					for _, c := range e.Changes {
						texts = append(texts, c.Text)
					}
				}
			}
			got := strings.Join(texts, ",")
			redistest.ErrorIf(t, got != want || at != 4, "%s hears %s, and is at %d", user, got, at)
		}
	}
}

// A message counts as five requests, for a connection and for a user. Where fewer may come at once,
// it counts as all of them.
func TestSay_Rate(t *testing.T) {
	t.Parallel()
	for burst, atOnce := range map[int]int{0: 19, 16: 3, 11: 2, 4: 1, 1: 1} { // a request comes before, where it leaves something
		bubble(t, fmt.Sprint(burst), func(t *testing.T) {
			_, second, a, b := twoNodes(t, room.Rules{}, Options{Burst: burst, Rate: 10})
			time.Sleep(time.Minute)
			a.send(users42)
			limit := burst
			if burst == 0 {
				limit = defaultBurst
			}
			if limit < 6 {
				time.Sleep(time.Minute)
			}
			said := 0
			for range 40 {
				a.send(`{"id":7,"room":"42","action":"say","text":"hi"}`)
			}
			time.Sleep(time.Millisecond)
			synctest.Wait()
			for len(a.frames) > 0 {
				if strings.HasPrefix(<-a.frames, `{"id":7,"room":"42","version"`) {
					said++
				}
			}
			redistest.ErrorIf(t, said != atOnce, "of 40 messages at once %d were said, want %d", said, atOnce)
			time.Sleep(time.Minute)
			if now, err := second.rooms.Read(t.Context(), "42"); err != nil || now.Version != uint64(2+said) {
				t.Errorf("the room is at %d, %v", now.Version, err)
			}
			start, said := time.Now(), 0
			for time.Since(start) < 10*time.Second {
				b.send(`{"id":7,"room":"42","action":"say","text":"hi"}`)
				time.Sleep(time.Second / 2)
				synctest.Wait()
			}
			for len(b.frames) > 0 {
				if strings.HasPrefix(<-b.frames, `{"id":7,"room":"42","version"`) {
					said++
				}
			}
			if said != 20 { // 10 a second, of which a message is 5, or fewer where fewer may come at once
				t.Errorf("%d of 20 messages at the highest rate were said", said)
			}
			a.expectOpen()
		})
	}
}

func keeps(n int) room.Action { return room.Configure{Settings: room.Settings{History: n}} }

// Who comes in gets as many of the last messages as it asks for, who comes back those behind the version that it knows, and
// each only those that are for it.
func TestHistory_WhoGetsWhat(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		first, second, a, b := twoNodes(t, room.Rules{}, Options{})
		first.act(t, keeps(3)) // 3
		const list = `"settings":{"capacity":0,"history":3},`
		said := func(version int, text string) string {
			return fmt.Sprintf(`{"version":%d,"user":"b","text":%q}`, version, text)
		}
		b.tell(`"say","text":"x"`, `"version":4,"count":2`)
		b.tell(`"say","text":"two"`, `"version":5,"count":2`)
		b.tell(`"say","text":"for a","to":["a"]`, `"version":6,"count":2`)
		const seats = `"users":[{"user":"b","seat":0},{"user":"a","seat":1},{"user":"c","seat":2}]`
		c := first.connect(t, "c")
		c.ask(`"join","history":100`, `"version":7,"seat":2,"count":3,`+list+`"said":[`+said(4, "x")+`,`+said(5, "two")+`],`+seats)
		c.ask(`"join","history":100`, `"version":7,"seat":2,"count":3,`+list+seats) // it has the events
		a.cut()
		time.Sleep(time.Second) // 8: away
		b.tell(`"say","text":"for c","to":["c"]`, `"version":9,"count":3`)
		b.tell(`"say","text":"last"`, `"version":10,"count":3`)
		a = second.connect(t, "a")
		a.ask(`"join","seat":1,"expect":5`, `"version":11,"seat":1,"count":3,`+list+`"said":[{"version":6,"user":"b","text":"for a","to":["a"]},`+said(10, "last")+`],`+seats)
		a.cut()
		time.Sleep(time.Second) // 12
		a = first.connect(t, "a")
		a.ask(`"join","expect":5,"history":0`, `"version":13,"seat":1,"count":3,`+list+seats)
		a.cut()
		time.Sleep(time.Second) // 14
		a = first.connect(t, "a")
		a.ask(`"join","expect":5,"history":1,"brief":true`, `"version":15,"seat":1,"count":3,"said":[`+said(10, "last")+`]`)
		d := second.connect(t, "d")
		d.ask(`"join"`, `"version":16,"seat":3,"count":4,`+list+strings.TrimSuffix(seats, "]")+`,{"user":"d","seat":3}]`)
		w := second.connect(t, "w")
		w.ask(`"watch"`, `"version":16,"count":4,`+list+strings.TrimSuffix(seats, "]")+`,{"user":"d","seat":3}]`)
		w.ask(`"join","history":9`, `"version":17,"seat":4,"count":5,`+list+strings.TrimSuffix(seats, "]")+`,{"user":"d","seat":3},{"user":"w","seat":4}]`)
	})
}

// Where nothing is kept, or nothing asked for, nothing is read. Where Redis does not answer, the join is done all the same.
func TestHistory_Reads(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		first, _, _, b := twoNodes(t, room.Rules{}, Options{})
		var reads atomic.Int64
		var broken atomic.Bool
		first.hook.keeping = func(before bool) error {
			if before {
				reads.Add(1)
			}
			if broken.Load() {
				return room.ErrUnavailable
			}
			return nil
		}
		join := func(user, more string) string {
			v := first.connect(t, user)
			v.send(`{"id":7,"room":"42","action":"join"` + more + `}`)
			return v.next("a reply", 3*time.Second)
		}
		join("c", `,"history":5`)
		first.act(t, keeps(5))
		join("d", "")
		redistest.Equal(t, "reads", reads.Load(), int64(0))
		b.tell(`"say","text":"hi"`, `"version":6,"count":4`)
		if got := join("e", `,"history":5`); !strings.Contains(got, `"text":"hi"`) || reads.Load() != 1 {
			t.Errorf("%d reads: %s", reads.Load(), got)
		}
		broken.Store(true)
		if got := join("f", `,"history":5`); !strings.Contains(got, `"seat":5`) || strings.Contains(got, `"said"`) || reads.Load() < 3 {
			t.Errorf("%d reads: %s", reads.Load(), got)
		}
	})
}

// However often a member's connection breaks, and whatever is said while it comes back, it gets each message once and in order.
func TestHistory_EachOnce(t *testing.T) {
	for seed := range uint64(2) {
		synctest.Test(t, func(t *testing.T) {
			random := rand.New(rand.NewPCG(seed, 1))
			first, second, a, b := twoNodes(t, room.Rules{}, Options{})
			first.act(t, keeps(100))
			one := make(chan struct{}, 1) // the nodes' hooks say something, too
			said := 0
			say := func() {
				one <- struct{}{}
				defer func() { <-one }()
				if _, err := second.rooms.Do(t.Context(), "42", room.Say{Text: fmt.Sprint("for b ", said), To: []string{"b"}}); err != nil {
					t.Error(err)
				}
				redistest.OK(t, redistest.Err(second.rooms.Do(t.Context(), "42", room.Say{Text: fmt.Sprint(said)})))
				said++
			}
			for _, node := range []*testNode{first, second} { // the reads, and the joins, see messages come
				node.hook.keeping = func(bool) error { say(); return nil }
				node.hook.setAfter(func(action room.Action) {
					if room.KindOf(action) == room.KindJoin {
						say()
					}
				})
			}
			var heard []string
			known := uint64(2)
			hear := func(c protocol.Change) {
				if c.Type == protocol.ChangeMessage {
					heard = append(heard, c.Text)
				}
			}
			listen := func(lose bool) { // the client loses what it has not read when the connection breaks
				for n := len(a.frames); n > 0 && (!lose || random.IntN(3) > 0); n-- {
					frame, err := protocol.DecodeFrame([]byte(<-a.frames))
					redistest.OK(t, err)
					switch f := frame.(type) {
					case *protocol.Reply:
						for i := range f.Said {
							hear(f.Said[i].Change())
						}
						known = f.Version
					case *protocol.Event:
						for _, c := range f.Changes {
							hear(c)
						}
						known = f.Version
					}
				}
			}
			for range 25 {
				for range random.IntN(4) {
					say()
				}
				synctest.Wait()
				listen(true)
				a.cut()
				time.Sleep(time.Second)
				for range random.IntN(4) {
					say()
				}
				a = []*testNode{first, second}[random.IntN(2)].connect(t, "a")
				a.send(fmt.Sprintf(`{"id":7,"room":"42","action":"join","expect":%d}`, known))
				time.Sleep(time.Second)
			}
			synctest.Wait()
			listen(false)
			b.cut()
			for i, text := range heard {
				redistest.FatalIf(t, text != fmt.Sprint(i), "seed %d: message %d of %d is %q", seed, i, said, text)
			}
			redistest.ErrorIf(t, len(heard) != said || said < 80,
				"seed %d: %d of %d messages came", seed, len(heard), said)
		})
	}
}

// A txn is for admins whose token is for the room. It is one version for everybody, of which each is shown what is for them, and
// its timers fire; one that is refused does nothing, and its timers do not fire.
func TestTxn_OneVersion(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := startWithKey(t, Options{})
		a, boss := s.connectAs(t, "a", auth.RolePlayer), s.connectAs(t, "boss", auth.RoleAdmin)
		other := s.with(t, auth.Identity{User: "admin of other rooms", Role: auth.RoleAdmin, Rooms: []string{"x"}, Watch: []string{"*"}})
		const users = `"users":[{"user":"a","seat":0}]`
		boss.ask(`"txn","actions":[{"action":"set","data":1}]`, refused("not_member", "room 42 has not begun"))
		a.tell(`"join"`, `"version":1,"seat":0,"count":1,`+users)
		other.tell(`"watch"`, `"version":1,"count":1,`+users)
		for _, tt := range []struct{ parts, want string }{
			{`{"action":"set","data":1},{"action":"set","scope":"private","user":"b","data":1}`, refused("not_member", "b is not in room 42")},
			{`{"action":"timer","name":"soon","in":1},{"action":"timer","name":".","in":1}`, refused("bad_request", "actions[1].name must be 1 to 32 of A-Z a-z 0-9 . _ -")},
			{`{"action":"timer","name":"soon","in":1},{"action":"kick","user":"b"}`, refused("not_member", "b is not in room 42")},
			{`{"action":"ready","value":true}`, refused("bad_request", "actions[0]: action: ready is no part of a txn")},
		} {
			boss.ask(`"txn","actions":[`+tt.parts+`]`, tt.want)
		}
		other.ask(`"txn","actions":[{"action":"set","data":1}]`, refused("forbidden", "the token does not allow room 42"))
		a.ask(`"txn","actions":[{"action":"say","text":"x"}]`, refused("forbidden", "a txn is for admins, and the role of the token is another one"))
		time.Sleep(time.Second) // nothing fires
		boss.ask(`"txn","expect":1,"actions":[{"action":"set","data":1},{"action":"set","scope":"private","user":"a","data":["AS"]},
			{"action":"timer","name":"turn","in":50,"then":{"data":2}},{"action":"say","to":["a"],"text":"go"}]`, `"version":2,"count":1`)
		const private = `{"type":"private","user":"a","seat":0,"data":["AS"]},`
		event := func(private, said string) string {
			return eventOf(2, `{"type":"data","user":"boss","data":1},`+private+`{"type":"countdown","user":"boss","name":"turn","in":50}`+said)
		}
		a.expect(event(private, `,{"type":"message","user":"boss","text":"go","to":["a"]}`))
		other.expect(event("", ""))
		for _, c := range []*testClient{a, other} {
			c.expectWithin(eventOf(3, `{"type":"timer","name":"turn"}`, `{"type":"data","data":2}`), 150*time.Millisecond)
		}
	})
}

// What is said to nobody is heard by the admins who watch, who get it also when they come back; and by who said it.
func TestSay_ToAdmins(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := startWithKey(t, Options{})
		a, b, boss := s.connectAs(t, "a", auth.RolePlayer), s.connectAs(t, "b", auth.RolePlayer), s.connectAs(t, "boss", auth.RoleAdmin)
		a.tell(`"join"`, `"version":1,"seat":0,"count":1,"users":[{"user":"a","seat":0}]`)
		const users = `"users":[{"user":"a","seat":0},{"user":"b","seat":1}]`
		b.tell(`"join"`, `"version":2,"seat":1,"count":2,`+users)
		a.next("that b came", time.Second) // else one frame may have the next change, too
		const settings = `"settings":{"capacity":0,"history":9},`
		boss.ask(`"configure","settings":{"history":9}`, `"version":3,"count":2`)
		boss.ask(`"watch"`, `"version":3,"count":2,`+settings+users)
		for _, c := range []*testClient{a, b} {
			c.next("the settings", time.Second)
		}
		a.ask(`"say","data":"I play","to":[]`, `"version":4,"count":2`)
		said := eventOf(4, `{"type":"message","user":"a","data":"I play","to":[]}`)
		boss.expect(said)
		expectAll(eventOf(4), a, b)
		const kept = `"said":[{"version":4,"user":"a","data":"I play","to":[]}],`
		again := s.connectAs(t, "boss", auth.RoleAdmin)
		again.ask(`"watch","expect":3`, `"version":4,"count":2,`+settings+kept+users)
		again = s.connectAs(t, "boss", auth.RoleAdmin)
		again.ask(`"watch","expect":4`, `"version":4,"count":2,`+settings+users)
		again.ask(`"watch","history":9`, `"version":4,"count":2,`+settings+users) // it watches already
		again = s.connectAs(t, "c", auth.RolePlayer)
		again.ask(`"watch","history":9`, `"version":4,"count":2,`+settings+users)
	})
}
