package audit

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
)

// story is a history that has each kind of change with each of its fields: versions 1 to 30.
func story() *world {
	w := newWorld()
	all := func(lists ...[]object) []object { return slices.Concat(lists...) }
	say := object{"type": typeMessage, "user": "a", "seat": 0, "text": "hi", "to": []string{"b", "c"}}
	w.commit("n1", all(w.join("a", "n1", 0, false), w.join("b", "n1", 1, false))...)        // 1
	w.commit("n2", w.join("c", "n2", 2, true)...)                                           // 2
	w.commit("n1", w.speak("a", "n1", typeAway)...)                                         // 3
	w.commit("n2", w.speak("a", "n2", typeBack)...)                                         // 4
	w.commit("n2", w.speak("b", "n2", typeReplace)...)                                      // 5
	w.commit("n1", w.member("b", true, `{"x":1}`)...)                                       // 6
	w.commit("n1", w.setData(`[1,2]`)...)                                                   // 7
	w.commit("n1", w.setData(`{"pot":9}`)...)                                               // 8: version 7 is overwritten
	w.commit("n1", w.join("d", "n1", 3, false)...)                                          // 9
	w.commit("n1", all(w.leave("d", reasonKicked), w.ban("d", w.now+1_000_000))...)         // 10
	w.commit("n1", w.join("e", "n1", 3, false)...)                                          // 11
	w.commit("n1", w.leave("e", reasonMoved)...)                                            // 12
	w.commit("n1", say)                                                                     // 13
	w.commit("n1", object{"type": typeMessage, "user": "", "seat": 0, "data": object{}})    // 14
	w.commit("n1", w.ban("x", w.now+5)...)                                                  // 15
	w.commit("n1", w.ban("x", 0)...)                                                        // 16
	w.commit("n1", w.join("g", "n1", 3, false)...)                                          // 17
	w.commit("n2", w.leave("g", "node")...)                                                 // 18
	w.commit("n1", w.configure(object{"capacity": 4, "closed": true, "data": "admins"})...) // 19
	w.commit("n1", w.rejoin("g", "n1", 3)...)                                               // 20
	w.commit("n1", w.leave("g", "left")...)                                                 // 21
	w.commit("n1")                                                                          // 22
	w.commit("n1", all(w.countdown("turn", 5000), w.countdown("game", 9000))...)            // 23
	w.commit("n1", w.countdown("turn", 6000)...)                                            // 24
	w.commit("n1", w.fire("turn")...)                                                       // 25
	w.commit("n1", w.countdown("turn", 7000)...)                                            // 26
	w.commit("n1", w.shuffle()...)                                                          // 27
	w.commit("n1", w.shuffle()...)                                                          // 28
	w.commit("n1", w.shuffle()...)                                                          // 29: each has the first seat again
	w.commit("n1")                                                                          // 30
	return w
}

// hosted is a history of a room with a host: versions 1 to 10.
func hosted() *world {
	w := newWorld()
	commit := func(node string, changes []object) {
		w.now += 10
		w.commit(node, append(changes, w.appoint()...)...)
	}
	commit("n1", w.join("a", "n1", 1, false))                                                  // 1
	commit("n2", w.join("b", "n2", 0, false))                                                  // 2
	commit("n1", w.configure(object{"capacity": 4, "host": hostLongest}))                      // 3: a
	commit("n1", w.join("c", "n1", 2, false))                                                  // 4
	commit("n1", w.speak("b", "n2", typeAway))                                                 // 5
	commit("n1", w.leave("a", "left"))                                                         // 6: c
	commit("n2", w.speak("b", "n2", typeBack))                                                 // 7
	commit("n2", w.join("a", "n2", 1, false))                                                  // 8
	commit("n2", slices.Concat(w.leave("c", reasonKicked), w.appoint(), w.leave("b", "left"))) // 9: b, then a
	commit("n1", w.join("b", "n1", 3, false))                                                  // 10
	return w
}

// kept and empty are rooms without members.
func kept() *world {
	w := newWorld()
	w.commit("n1", w.join("a", "n1", 0, false)...)
	w.commit("n1", w.configure(object{"capacity": 4, "keep": true})...)
	w.commit("n1", w.leave("a", "left")...)
	return w
}

func empty() *world {
	w := newWorld()
	w.commit("n1", w.join("a", "n1", 0, false)...)
	w.commit("n1", w.shut()...)
	return w
}

// remark gives the entries from a version on the marks that they would have; also Meta, if there is f.
func remark(w *world, from, to int, f *final) {
	for i := from - 1; i < to; i++ {
		var e object
		if err := json.Unmarshal([]byte(w.commits[i]), &e); err != nil {
			panic(err)
		}
		if i > from-1 {
			e["prev"] = markIn(w.commits[i-1])
		}
		w.commits[i], w.mark = marked(e)
	}
	if f != nil {
		f.meta["mark"] = markIn(w.commits[len(w.commits)-1])
	}
}

// rewritten makes an edit one of somebody who computes all marks anew.
func rewritten(version int, edit func(*world, *final)) func(*world, *final) {
	return func(w *world, f *final) {
		edit(w, f)
		remark(w, version, len(w.commits), f)
	}
}

// appended returns an edit that appends an entry that fits the chain, and brings Meta to it.
func appended(changes ...object) func(*world, *final) {
	return func(w *world, f *final) {
		w.commit("n1", changes...)
		f.meta["mark"], f.meta["version"] = w.mark, fmt.Sprint(w.version)
	}
}

func without(name string) func(*world, *final) {
	return func(_ *world, f *final) {
		if _, ok := f.meta[name]; !ok {
			panic(name)
		}
		delete(f.meta, name)
	}
}

func inMeta(name, old, replacement string) func(*world, *final) {
	return func(_ *world, f *final) {
		was := f.meta[name]
		if f.meta[name] = strings.Replace(was, old, replacement, 1); f.meta[name] == was {
			panic(was)
		}
	}
}

func expires(key int, ms int64) func(*world, *final) {
	return func(_ *world, f *final) { f.ttls[key] = ms }
}

// rewrittenOne makes an edit one of somebody who computes the mark of that entry anew.
func rewrittenOne(version int, edit func(*world, *final)) func(*world, *final) {
	return func(w *world, f *final) {
		edit(w, f)
		remark(w, version, version, nil)
	}
}
