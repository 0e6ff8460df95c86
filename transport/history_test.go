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
	"roomd/transport/protocol"
)

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
