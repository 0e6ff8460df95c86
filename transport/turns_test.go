package transport

import (
	"sync"
	"testing"
	"testing/synctest"
)

// In one room a request and follows take turns; in different rooms they do not wait.
func TestTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		var all turns
		all.init(&mu)
		began := make(chan string, 9)
		expect := func(want string) {
			t.Helper()
			synctest.Wait()
			got := ""
			for len(began) > 0 {
				got += <-began
			}
			if got != want {
				t.Fatalf("%q began, want %q", got, want)
			}
		}
		follow := func(id, name string) {
			go func() {
				all.beginFollow(id)
				began <- name
			}()
		}
		all.beginRequest("T")
		follow("T", "a")
		follow("U", "b")
		expect("b")
		all.endRequest()
		expect("a")
		follow("T", "c")
		go func() {
			all.beginRequest("U")
			began <- "d"
		}()
		expect("")
		all.endFollow("T")
		expect("c")
		all.endFollow("U")
		expect("d")
	})
}
