package transport

import (
	"testing"
	"testing/synctest"
	"time"

	"roomd/lockmgr/redistest"
	"roomd/room"
)

// Clients hear that their node cannot reach Redis, and that it can again; also those that connect
// meanwhile.
func TestHealth_Degraded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := start(t, room.Rules{}, Options{})
		early := s.connect(t, "early")
		early.send(watch42)
		time.Sleep(time.Minute)
		redistest.ErrorIf(t, early.degraded.Load(), "the node is degraded from the beginning")
		s.redisNet.stop()
		time.Sleep(2 * (healthInterval + healthTimeout))
		late := s.connect(t, "late")
		synctest.Wait()
		redistest.ErrorIf(t, !early.degraded.Load() || !late.degraded.Load(),
			"early knows %v, late %v", early.degraded.Load(), late.degraded.Load())
		s.redisNet.resume()
		time.Sleep(10 * time.Second)
		redistest.ErrorIf(t, early.degraded.Load() || late.degraded.Load(), "nobody says that Redis is back")
		early.next("a list", time.Second)
		late.expectSilence()
	})
}

// One look that fails says nothing.
func TestHealth_Hiccup(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := start(t, room.Rules{}, Options{})
		a := s.connectIdle(t, "a")
		time.Sleep(healthInterval / 2)
		s.hook.unreachable.Store(true)
		time.Sleep(healthInterval)
		s.hook.unreachable.Store(false)
		time.Sleep(2 * healthInterval)
		a.exchange(users42, `{"id":3,"room":"42","epoch":"","version":0,"count":0,"users":[]}`)
	})
}
