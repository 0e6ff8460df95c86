package audit

import "pgregory.net/rapid"

// play makes a random history.
func (w *world) play(t *rapid.T) {
	user := rapid.SampledFrom([]string{"张三", "李四", "王五", "赵六", "a\"b"})
	node := rapid.SampledFrom([]string{"n1", "n2"})
	data := rapid.SampledFrom([]string{"", `{"b":1,"a":[2]}`, `7`, `"x"`})
	for range rapid.IntRange(1, 40).Draw(t, "commits") {
		by := node.Draw(t, "node")
		w.now += rapid.Int64Range(0, 50).Draw(t, "ms")
		var changes []object
		for range rapid.IntRange(0, 3).Draw(t, "changes") {
			u := user.Draw(t, "user")
			var more []object
			switch rapid.IntRange(0, 18).Draw(t, "what") {
			case 0, 1, 2, 3:
				more = w.join(u, by, rapid.IntRange(0, 5).Draw(t, "seat"), rapid.Bool().Draw(t, "reserved"))
			case 4, 5:
				more = w.leave(u, rapid.SampledFrom([]string{"left", "node", reasonKicked, reasonMoved}).Draw(t, "reason"))
			case 6:
				more = w.speak(u, by, typeAway)
			case 7:
				more = w.speak(u, by, typeBack)
			case 8:
				more = w.speak(u, by, typeReplace)
			case 9:
				more = w.member(u, rapid.Bool().Draw(t, "ready"), data.Draw(t, "data"))
			case 18:
				more = w.shuffle()
			case 16:
				more = w.countdown(rapid.SampledFrom([]string{"turn", "game"}).Draw(t, "timer"), rapid.SampledFrom([]int64{0, w.now + 10, w.now + 20}).Draw(t, "due"))
			case 17:
				more = w.fire(rapid.SampledFrom([]string{"turn", "game"}).Draw(t, "timer"))
			case 15:
				more = w.deal(u, data.Draw(t, "private data"))
			case 10:
				more = w.setData(data.Draw(t, "room data"))
			case 11:
				s := object{"capacity": rapid.SampledFrom([]int{0, 2, 3, 5}).Draw(t, "capacity")}
				for _, flag := range []string{"closed", "keep"} {
					if rapid.Bool().Draw(t, flag) {
						s[flag] = true
					}
				}
				if rapid.Bool().Draw(t, "host") {
					s["host"] = hostLongest
				}
				more = w.configure(s)
			case 12:
				more = w.shut()
			case 14:
				more = w.rejoin(u, by, rapid.IntRange(0, 5).Draw(t, "seat"))
			case 13:
				more = w.ban(u, rapid.SampledFrom([]int64{0, w.now + 100, 253402300799000}).Draw(t, "until"))
			}
			changes = append(append(changes, more...), w.appoint()...)
		}
		w.commit(by, changes...)
	}
}
