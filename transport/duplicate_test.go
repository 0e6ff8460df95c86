package transport

import (
	"testing"
	"testing/synctest"
	"time"

	"roomd/room"
	"roomd/room/coordinator"
)

// Under Reject the seat of a user whose node was killed is free for the user's next session as
// soon as the node's lease is over. The user keeps it.
func TestReject_KilledNode(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		first, second, _, b := twoNodes(t, room.Rules{Duplicate: room.Reject}, Options{})
		first.redisNet.stop()
		newer := second.connect(t, "a")
		newer.send(join42)
		newer.expect(`{"id":1,"room":"42","error":{"code":"duplicate_user","message":"a is in room 42 with another session","retry":false}}`)
		time.Sleep(coordinator.DefaultNodeTTL + time.Second)
		newer.send(join42) // it may have been shown as away before
		newer.expectEnd(`"seat":1,"count":2,"users":[{"user":"b","seat":0},{"user":"a","seat":1}]}`)
		time.Sleep(time.Minute)
		newer.expectSilence()
		fromVersion(b, 2).lastVersion()
		second.expectMembers(t, "42", "b a")
	})
}

// Under Reject a session of a live node keeps its seat.
func TestReject_NodeLives(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, second, a, _ := twoNodes(t, room.Rules{Duplicate: room.Reject}, Options{})
		time.Sleep(time.Minute)
		newer := second.connect(t, "a")
		newer.send(join42)
		newer.expect(`{"id":1,"room":"42","error":{"code":"duplicate_user","message":"a is in room 42 with another session","retry":false}}`)
		a.expectSilence()
		second.expectMembers(t, "42", "b a")
	})
}
