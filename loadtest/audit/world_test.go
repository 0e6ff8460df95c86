package audit

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"pgregory.net/rapid"
)

// world makes valid histories of a room, and what Redis then has.
type world struct {
	epoch    string
	version  uint64
	mark     string
	now      int64
	members  map[string]*record
	settings map[string]any // nil: none
	data     *datum
	bans     map[string]int64
	sessions int

	commits []string // the entries
}

func newWorld() *world {
	return &world{epoch: "e1", now: 1_000_000, members: map[string]*record{}, bans: map[string]int64{}}
}

type object = map[string]any

func encode(v any) string {
	text, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return string(text)
}

// commit writes an entry.
func (w *world) commit(node string, changes ...object) {
	w.version++
	w.mark = fmt.Sprint("mark", w.version)
	if changes == nil {
		changes = []object{}
	}
	w.commits = append(w.commits, encode(object{"epoch": w.epoch, "version": w.version, "mark": w.mark, "node": node, "changes": changes}))
}

func (w *world) session() string {
	w.sessions++
	return fmt.Sprint("s", w.sessions)
}

func (w *world) capacity() int {
	if n, _ := w.settings["capacity"].(int); n > 0 {
		return n
	}
	if w.settings == nil {
		return standard
	}
	return maxSeats
}

// standard is the capacity that rooms begin with.
const standard = 4

func (w *world) seated(seat int) bool {
	for _, m := range w.members {
		if m.Seat == seat {
			return true
		}
	}
	return false
}

// join returns the changes of a join, or none if the room does not let the user in.
func (w *world) join(user, node string, seat int, away bool) []object {
	if w.members[user] != nil || w.seated(seat) || seat >= w.capacity() || w.settings["closed"] == true || w.bans[user] > w.now {
		return nil
	}
	session := w.session()
	if away {
		session = "~" + session
	}
	w.members[user] = &record{Seat: seat, Session: session, Node: node, At: w.now}
	changes := []object{{"type": typeJoin, "user": user, "seat": seat, "session": session, "at": w.now}}
	if w.settings == nil {
		w.settings = object{"capacity": standard}
		changes = append(changes, object{"type": typeDefaults, "user": "", "seat": 0, "settings": w.settings})
	}
	return changes
}

func (w *world) leave(user, reason string) []object {
	m := w.members[user]
	if m == nil {
		return nil
	}
	delete(w.members, user)
	return []object{{"type": typeLeave, "user": user, "seat": m.Seat, "reason": reason}}
}

// speak returns the changes by which the member goes away or comes back, or another session
// takes over.
func (w *world) speak(user, node, kind string) []object {
	m := w.members[user]
	if m == nil || (kind == typeBack) != strings.HasPrefix(m.Session, "~") {
		return nil
	}
	old := m.Session
	m.Session = w.session()
	if kind == typeAway {
		m.Session = "~" + old
	} else {
		m.Node = node
	}
	return []object{{"type": kind, "user": user, "seat": m.Seat, "session": m.Session, "old": old}}
}

func (w *world) member(user string, ready bool, data string) []object {
	m := w.members[user]
	if m == nil {
		return nil
	}
	change := object{"type": typeMember, "user": user, "seat": m.Seat}
	if m.Ready = ready; ready {
		change["ready"] = true
	}
	if data == "" {
		m.Data = nil
	} else if m.Data == nil || string(m.Data.Value) != data {
		m.Data = &datum{w.version + 1, []byte(data)}
	}
	if m.Data != nil {
		change["data"] = json.RawMessage(data)
	}
	return []object{change}
}

func (w *world) setData(data string) []object {
	change := object{"type": typeData, "user": "", "seat": 0}
	w.data = nil
	if data != "" {
		w.data = &datum{w.version + 1, []byte(data)}
		change["data"] = json.RawMessage(data)
	}
	return []object{change}
}

func (w *world) configure(s object) []object {
	seats := maxSeats
	if n, _ := s["capacity"].(int); n > 0 {
		seats = n
	}
	for _, m := range w.members {
		if m.Seat >= seats {
			return nil
		}
	}
	w.settings = s
	return []object{{"type": typeSettings, "user": "", "seat": 0, "settings": s}}
}

func (w *world) ban(user string, until int64) []object {
	if w.bans[user] = until; until == 0 {
		delete(w.bans, user)
	}
	return []object{{"type": typeBan, "user": user, "seat": 0, "until": until}}
}

// final returns what Redis has.
func (w *world) final() *final {
	f := &final{users: map[string]string{}, now: w.now, meta: map[string]string{
		"epoch": w.epoch, "version": fmt.Sprint(w.version), "mark": w.mark, "members": fmt.Sprint(len(w.members)),
	}}
	for user, m := range w.members {
		o := object{"seat": m.Seat, "session": m.Session, "node": m.Node, "at": m.At}
		if m.Ready {
			o["ready"] = true
		}
		if m.Data != nil {
			o["data"] = object{"version": m.Data.Version, "value": json.RawMessage(m.Data.Value)}
		}
		f.users[user] = encode(o)
	}
	if w.settings != nil {
		f.meta["settings"] = encode(w.settings)
	}
	if w.data != nil {
		f.meta["data"] = encode(object{"version": w.data.Version, "value": json.RawMessage(w.data.Value)})
	}
	if len(w.bans) > 0 {
		f.meta["bans"] = encode(w.bans)
	}
	return f
}

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
			switch rapid.IntRange(0, 12).Draw(t, "what") {
			case 0, 1, 2, 3:
				more = w.join(u, by, rapid.IntRange(0, 5).Draw(t, "seat"), rapid.Bool().Draw(t, "reserved"))
			case 4, 5:
				more = w.leave(u, "left")
			case 6:
				more = w.speak(u, by, typeAway)
			case 7:
				more = w.speak(u, by, typeBack)
			case 8:
				more = w.speak(u, by, typeReplace)
			case 9:
				more = w.member(u, rapid.Bool().Draw(t, "ready"), data.Draw(t, "data"))
			case 10:
				more = w.setData(data.Draw(t, "room data"))
			case 11:
				s := object{"capacity": rapid.SampledFrom([]int{0, 2, 3, 5}).Draw(t, "capacity")}
				for _, flag := range []string{"closed", "keep"} {
					if rapid.Bool().Draw(t, flag) {
						s[flag] = true
					}
				}
				more = w.configure(s)
			case 12:
				more = w.ban(u, rapid.SampledFrom([]int64{0, w.now + 100, 253402300799000}).Draw(t, "until"))
			}
			changes = append(changes, more...)
		}
		w.commit(by, changes...)
	}
}

// users returns who is in.
func (w *world) users() []string { return slices.Sorted(maps.Keys(w.members)) }
