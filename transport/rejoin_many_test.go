package transport

import (
	"cmp"
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"roomd/lockmgr/redistest"
	"roomd/room"
)

// When Redis comes back empty, all sessions of all nodes are in their old seats again, and
// every client knows what Redis holds.
func TestRejoin_Everybody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		nodes := []*testNode{start(t, room.Rules{}, Options{})}
		for range 2 {
			nodes = append(nodes, nodes[0].beside(t, room.Rules{}, Options{}))
		}
		rdb := redistest.MiniClient(t, nodes[0].mini)
		const users = 60
		var all []*testClient
		for i := range users {
			v := nodes[i%len(nodes)].connect(t, fmt.Sprintf("u%02d", i))
			v.send(fmt.Sprintf(`{"id":1,"action":"join","room":"42","seat":%d}`, i))
			all = append(all, v)
		}
		time.Sleep(time.Second)
		before := nodes[0].members(t, "42")
		redistest.FatalIf(t, len(strings.Fields(before)) != users, "in the room are %s", before)
		for _, v := range all {
			v.drain()
		}
		rdb.FlushAll(t.Context())
		time.Sleep(30 * time.Second)
		snapshot, err := nodes[0].rooms.Read(t.Context(), "42")
		redistest.OK(t, err)
		redistest.Equal(t, "in the room are", nodes[0].members(t, "42"), before)
		if snapshot.Version > 20 {
			t.Errorf("it took %d versions", snapshot.Version) // they are batched
		}
		for i, v := range all {
			at := v.lastVersion()
			redistest.ErrorIf(t, at != snapshot.Version, "u%02d is at version %d of %d", i, at, snapshot.Version)
		}
	})
}

// nextReply returns the next reply, without the events before it, or "" if none comes.
func (v *testClient) nextReply() string {
	for {
		select {
		case frame := <-v.frames:
			if strings.HasPrefix(frame, `{"id":`) {
				return frame
			}
		case <-time.After(5 * time.Second):
			return ""
		}
	}
}

// Users join and leave a room by turns while they are removed from it all the time. In the end
// each is where its last acknowledged request says.
func TestRejoin_RequestsAtOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		first := start(t, room.Rules{}, Options{})
		second := first.beside(t, room.Rules{}, Options{})
		const users = 20
		stop := make(chan struct{})
		var wg sync.WaitGroup
		want := make([]bool, users)
		for i := range users {
			user := fmt.Sprintf("u%02d", i)
			v := first.connect(t, user)
			session := first.session(t, user)
			wg.Go(func() {
				for n := range 50 + i%2 {
					action := "join"
					if want[i] {
						action = "leave"
					}
					v.send(fmt.Sprintf(`{"id":%d,"action":%q,"room":"42"}`, n, action))
					reply := v.nextReply()
					// After not_member the user is out, too.
					if reply == "" || strings.Contains(reply, `"error"`) && !strings.Contains(reply, "not_member") {
						t.Errorf("request %d of %s: %s: %s", n, user, action, cmp.Or(reply, "no reply within 5 s"))
						return
					}
					want[i] = !want[i]
				}
			})
			go func() {
				for {
					select {
					case <-stop:
						return
					case <-time.After(time.Duration(1+i%5) * time.Millisecond):
						_, _ = second.rooms.Do(context.Background(), "42", room.Leave{User: user, Session: session, Reason: "node"})
					}
				}
			}()
		}
		wg.Wait()
		close(stop)
		time.Sleep(time.Minute)
		in := " " + second.members(t, "42") + " "
		for i, wanted := range want {
			if user := fmt.Sprintf("u%02d", i); strings.Contains(in, " "+user+" ") != wanted {
				t.Errorf("%s should be in: %v; in are%s", user, wanted, in)
			}
		}
	})
}
