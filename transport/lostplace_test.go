package transport

import (
	"context"
	"encoding/json"
	"testing"
	"testing/synctest"
	"time"

	"roomd/lockmgr/redistest"
	"roomd/room"
)

// A join that finds that its session has lost the place is refused behind the loss, which says who took the user out.
func TestJoin_RefusedToWhoWasTakenOut(t *testing.T) {
	const text = `{"event":"lost","room":"42","reason":"kicked","text":"loud"}`
	for name, tt := range map[string]struct {
		do   []room.Action
		join string
		want []string
	}{
		"banned": {
			[]room.Action{room.Kick{User: "a", Text: "loud", Until: time.Now().Add(100 * 365 * 24 * time.Hour).UnixMilli()}}, join42,
			[]string{text, "banned"},
		},
		"no such seat": {
			[]room.Action{room.Kick{User: "a", Text: "loud"}, room.Configure{Settings: room.Settings{Capacity: 2}}},
			`{"id":1,"action":"join","room":"42","seat":2}`, []string{text, "bad_request"},
		},
		"the seat is taken": {
			[]room.Action{room.Kick{User: "a", Text: "loud"}}, `{"id":1,"action":"join","room":"42","seat":0}`, []string{text, "seat_taken"},
		},
		"closed": {[]room.Action{room.Close{}}, join42, []string{`{"event":"lost","room":"42","reason":"closed"}`, "closed"}},
	} {
		bubble(t, name, func(t *testing.T) {
			first, second, a, _ := twoNodes(t, room.Rules{}, Options{})
			first.redisNet.holdEvents()
			for _, action := range tt.do {
				second.actIn(t, "42", action)
			}
			a.exchange(tt.join, tt.want[0])
			redistest.Equal(t, "refused with", codeOf(t, a.next(tt.want[1], time.Second)), tt.want[1])
			first.redisNet.resume()
			time.Sleep(time.Minute)
			a.expectSilence()
		})
	}
}

// codeOf returns the code of a refusal.
func codeOf(t *testing.T, frame string) string {
	t.Helper()
	var reply struct{ Error struct{ Code string } }
	redistest.OK(t, json.Unmarshal([]byte(frame), &reply))
	return reply.Error.Code
}

// A member is kicked with a ban just before its node brings it back after a failure: it hears that it was kicked, and why.
func TestKick_WithABanOfWhoIsBroughtBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		first, second, a, _ := twoNodes(t, room.Rules{}, Options{})
		open := first.hook.gate(room.KindJoin, func() {})
		removeA(t, first, second)
		second.actIn(t, "42", room.Reserve{Session: "party", Users: []string{"a"}})
		second.actIn(t, "42", room.Kick{User: "a", Text: "loud", Until: time.Now().Add(time.Hour).UnixMilli()})
		open()
		a.expectWithin(`{"event":"lost","room":"42","reason":"kicked","text":"loud"}`, time.Second)
		time.Sleep(time.Minute)
		a.expectSilence()
	})
}

// A user is moved into a room in which it is, too, and which is closed while it asks for something there: it hears of
// the loss once.
func TestMove_IntoARoomThatIsClosed(t *testing.T) {
	for _, watches := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			first, second, a, _ := twoNodes(t, room.Rules{}, Options{})
			a.askAbout("T", `"join"`, `"version":1,"seat":0,"count":1,"users":[{"user":"a","seat":0}]`)
			if watches {
				a.askAbout("T", `"watch"`, `"version":1,"count":1,"users":[{"user":"a","seat":0}]`)
			}
			open := first.hook.gate(room.KindJoin, func() {})
			a.send(`{"id":9,"room":"T","action":"join"}`)
			synctest.Wait()
			second.moveTo(t, "42", "T", "a")
			a.expect(lostMoved)
			second.actIn(t, "T", room.Close{})
			open()
			a.expectWithin(`{"event":"lost","room":"T","reason":"closed"}`, time.Second)
			a.expect(`{"id":9,"room":"T","error":{"code":"closed","message":"room T is closed","retry":false}}`)
			if watches {
				a.expect(`{"event":"changes","room":"T","version":2,"from":1,"changes":[{"type":"leave","user":"a","seat":0,"reason":"closed"},{"type":"settings","settings":{"capacity":0,"closed":true}}]}`)
			}
			time.Sleep(time.Minute)
			a.expectSilence()
		})
	}
}

// A member asks to watch, and is kicked while that is done: it hears that, and watches.
func TestWatch_WhileTheMemberIsKicked(t *testing.T) {
	server, reads := start(t, room.Rules{}, Options{}), 0
	server.hook.reading = func(ctx context.Context, _ string) error {
		if reads++; reads != 2 {
			return nil
		}
		_, err := server.rooms.Do(ctx, "42", room.Kick{User: "a", Text: "loud"})
		return err
	}
	a := server.connect(t, "a")
	a.exchange(join42, `{"id":1,"room":"42","version":1,"seat":0,"count":1,"users":[{"user":"a","seat":0}]}`)
	a.exchange(`{"id":2,"action":"watch","room":"42"}`, `{"event":"lost","room":"42","reason":"kicked","text":"loud"}`)
	a.expect(`{"id":2,"room":"42","version":2,"count":0,"users":[]}`)
	_, err := server.rooms.Do(t.Context(), "42", room.Join{User: "b", Session: "s"})
	redistest.OK(t, err)
	a.expect(`{"event":"changes","room":"42","version":3,"from":2,"changes":[{"type":"join","user":"b","seat":0}]}`)
}
