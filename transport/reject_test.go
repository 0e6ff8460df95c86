package transport

import (
	"testing"
	"testing/synctest"
	"time"

	"roomd/room"
)

// Under Reject the seat of a user whose node was killed is free for the user's next
// session as soon as the node's lease is over, and is kept.
func TestRejectAndAKilledNode(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		first, second, _, b := twoNodes(t, room.Rules{Duplicate: room.Reject}, Options{})
		first.ear.stop()
		newer := second.connect(t, "a")
		newer.say(joinOf42)
		newer.hear(`{"id":1,"error":{"code":"duplicate_user","message":"a is in room 42 with another session","retry":true}}`)
		time.Sleep(room.DefaultNodeTTL)
		newer.say(joinOf42)
		newer.hear(aIsBack)
		b.hear(aUnseen)
		time.Sleep(time.Minute)
		newer.quiet()
		b.quiet()
		if got := second.members(t, "42"); got != "b a" {
			t.Errorf("in the room are %q", got)
		}
	})
}

// A session of a node that goes on living stays for as long as it likes.
func TestRejectAndANodeThatLives(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, second, a, _ := twoNodes(t, room.Rules{Duplicate: room.Reject}, Options{})
		time.Sleep(time.Minute)
		newer := second.connect(t, "a")
		newer.say(joinOf42)
		newer.hear(`{"id":1,"error":{"code":"duplicate_user","message":"a is in room 42 with another session","retry":true}}`)
		a.quiet()
		if got := second.members(t, "42"); got != "b a" {
			t.Errorf("in the room are %q", got)
		}
	})
}
