package history

import (
	"strings"
	"testing"
)

// Private data that reach others, that nobody dealt, that do not come or come twice, are found; a game in which all is well
// is consistent.
func TestPrivate(t *testing.T) {
	list := func(version uint64, private map[string]string) List {
		return List{Epoch: "e", Version: version, Count: 2, Users: []Member{{User: "a"}, {User: "b", Seat: 1}}, Private: private}
	}
	none := map[string]string(nil)
	for _, tt := range []struct {
		what  string
		spoil func(w *privateWorld)
		want  string // in a violation; "" for none
	}{
		{"all is well", func(*privateWorld) {}, ""},
		{"told of another's", func(w *privateWorld) { w.toB[2] = []Change{w.hand("a", "1")} }, "b is told of private data of a"},
		{"not told", func(w *privateWorld) { w.toA[2] = nil }, "who did not get it"},
		{"not told of a deal", func(w *privateWorld) { w.toB[3] = nil }, "who did not get it"},
		{"told of other ones", func(w *privateWorld) { w.toA[2] = []Change{w.hand("a", "9")} }, "nobody said or dealt"},
		{"told twice", func(w *privateWorld) { w.toA[2] = append(w.toA[2], w.toA[2]...) }, "twice"},
		{"shown another's", func(w *privateWorld) { w.listB["a"] = "3" }, "b is shown private data of a"},
		{"shown old ones", func(w *privateWorld) { w.listA["a"] = "1" }, "is shown other private data of its own"},
		{"lost in Redis", func(w *privateWorld) { delete(w.store, "b") }, "other private data of b than the store"},
	} {
		w := newPrivateWorld()
		tt.spoil(w)
		ledger := NewLedger(Options{Capacity: 4})
		a, b := ledger.View("r", "a", "a"), ledger.View("r", "b", "b")
		a.Joined(0, List{Epoch: "e", Version: 1, Count: 1, Users: []Member{{User: "a"}}})
		b.Joined(1, list(2, none))
		a.Changed(Event{Epoch: "e", Version: 2, From: 1, Changes: []Change{{Type: Join, User: "b", Seat: 1}}})
		a.Done(Request{Action: SetPrivate, By: "a", Data: "1"}, Reply{Epoch: "e", Version: 3}, 2)
		ledger.Done("r", Request{Action: SetPrivate, Hands: []Hand{{"a", "2"}, {"b", "4"}}}, Reply{Epoch: "e", Version: 4})
		ledger.Unanswered("r", Request{Action: SetPrivate, Hands: []Hand{{"a", "3"}}}, 4)
		for before := uint64(2); before < 5; before++ {
			a.Changed(Event{Epoch: "e", Version: before + 1, From: before, Changes: w.toA[before]})
			b.Changed(Event{Epoch: "e", Version: before + 1, From: before, Changes: w.toB[before]})
		}
		a.Read(list(5, w.listA))
		b.Read(list(5, w.listB))
		final := RoomState{Epoch: "e", Version: 5, Users: list(5, nil).Users, Private: w.store}
		ledger.CheckNode("a", "r", a.State(), final)
		ledger.CheckNode("b", "r", b.State(), final)
		ledger.Check(map[string]RoomState{"r": final})
		found := strings.Join(ledger.Violations().Descriptions(), "\n")
		if (tt.want == "") != (found == "") || !strings.Contains(found, tt.want) {
			t.Errorf("%s: found\n%s\nwant %q", tt.what, found, tt.want)
		}
	}
}

// privateWorld is what is told of the versions 3 to 5, by the version before: a sets its own, both are dealt some, and a
// once more.
type privateWorld struct {
	toA, toB            [5][]Change
	listA, listB, store map[string]string
}

func newPrivateWorld() *privateWorld {
	w := &privateWorld{listA: map[string]string{"a": "3"}, listB: map[string]string{"b": "4"}, store: map[string]string{"a": "3", "b": "4"}}
	w.toA[2], w.toA[3], w.toA[4] = []Change{w.hand("a", "1")}, []Change{w.hand("a", "2")}, []Change{w.hand("a", "3")}
	w.toB[3] = []Change{w.hand("b", "4")}
	return w
}

func (w *privateWorld) hand(user, data string) Change {
	return Change{Type: Private, User: user, Seat: map[string]int{"b": 1}[user], Detail: dealt(data)}
}
