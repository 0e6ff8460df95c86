package audit

import (
	"cmp"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
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
	timers   map[string]setTimer
	timed    uint64 // when timers were last changed
	gone     map[string]removal
	been     map[string]bool // who was ever in
	host     string          // "" for none
	sessions int

	commits []string // the entries
}

// maxSeats is how many seats a room without a capacity has.
const maxSeats = 1 << 16

func newWorld() *world {
	return &world{epoch: "e1", now: 1_000_000, members: map[string]*record{}, bans: map[string]int64{}, timers: map[string]setTimer{}, gone: map[string]removal{}, been: map[string]bool{}}
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
	if changes == nil {
		changes = []object{}
	}
	var text string
	text, w.mark = marked(object{"epoch": w.epoch, "version": w.version, "prev": w.mark, "node": node, "changes": changes})
	w.commits = append(w.commits, text)
}

// marked returns an entry with the mark that it makes.
func marked(e object) (text, mark string) {
	const blank = "0000000000000000"
	e["mark"] = blank
	text = encode(e)
	sum := sha256.Sum256([]byte(text))
	mark = base64.RawURLEncoding.EncodeToString(sum[:12])
	return strings.Replace(text, `"mark":"`+blank, `"mark":"`+mark, 1), mark
}

// begin has a new epoch begin behind a version of the room, 0 for none.
func (w *world) begin(epoch string, version uint64) {
	w.epoch, w.version, w.mark = epoch, version, ""
	if version > 0 {
		w.mark = markIn(w.commits[version-1])
	}
}

func markIn(entry string) string {
	var e struct{ Mark string }
	if err := json.Unmarshal([]byte(entry), &e); err != nil {
		panic(err)
	}
	return e.Mark
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
	delete(w.gone, user)
	w.been[user] = true
	changes := []object{{"type": typeJoin, "user": user, "seat": seat, "session": session, "at": w.now}}
	if w.settings == nil {
		w.settings = object{"capacity": standard}
		changes = append(changes, object{"type": typeDefaults, "user": "", "seat": 0, "settings": w.settings})
	}
	return changes
}

// rejoin returns the changes of a join by which a user comes back into a closed room after a failure.
func (w *world) rejoin(user, node string, seat int) []object {
	_, removed := w.gone[user]
	if _, shut := w.gone[everybody]; shut || removed || w.settings["closed"] != true || !w.been[user] {
		return nil
	}
	w.settings["closed"] = false
	changes := w.join(user, node, seat, false)
	w.settings["closed"] = true
	if changes != nil {
		changes[0]["again"] = true
	}
	return changes
}

func (w *world) leave(user, reason string) []object {
	m := w.members[user]
	if m == nil {
		return nil
	}
	delete(w.members, user)
	change := object{"type": typeLeave, "user": user, "seat": m.Seat, "reason": reason}
	why := removal{Version: w.version + 1, Reason: reason}
	switch reason {
	case reasonKicked:
		why.Text, change["text"] = "enough", "enough"
	case reasonMoved:
		why.Target, change["target"] = "43", "43"
	default:
		return []object{change}
	}
	w.gone[user] = why
	return []object{change}
}

// shut returns the changes of closing the room for good.
func (w *world) shut() (changes []object) {
	for _, user := range w.users() {
		changes = append(changes, w.leave(user, reasonClosed)...)
	}
	w.settings = object{"capacity": w.capacity(), "closed": true}
	w.gone[everybody] = removal{Version: w.version + 1, Reason: reasonClosed}
	return append(changes, object{"type": typeSettings, "user": "", "seat": 0, "settings": w.settings, "shut": true})
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
	if m.Ready != ready {
		m.Ready, change["ready"] = ready, ready
	}
	switch {
	case data == "" && m.Data != nil && m.Data.Value != nil:
		m.Data, change["data"] = &datum{Version: w.version + 1}, json.RawMessage("null")
	case data != "" && (m.Data == nil || string(m.Data.Value) != data):
		m.Data, change["data"] = &datum{w.version + 1, []byte(data)}, json.RawMessage(data)
	}
	return []object{change}
}

func (w *world) deal(user string, data string) []object {
	m := w.members[user]
	if m == nil || data == "" && (m.Private == nil || m.Private.Value == nil) || m.Private != nil && string(m.Private.Value) == data {
		return nil
	}
	change := object{"type": typePrivate, "user": user, "seat": m.Seat, "data": json.RawMessage("null")}
	if m.Private = (&datum{Version: w.version + 1}); data != "" {
		m.Private.Value, change["data"] = []byte(data), json.RawMessage(data)
	}
	return []object{change}
}

func (w *world) setData(data string) []object {
	change := object{"type": typeData, "user": "", "seat": 0}
	if w.data == nil && data == "" || w.data != nil && string(w.data.Value) == data {
		return nil
	}
	w.data = &datum{Version: w.version + 1}
	if data != "" {
		w.data.Value = []byte(data)
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
	if s["closed"] != true {
		delete(w.gone, everybody)
	}
	return []object{{"type": typeSettings, "user": "", "seat": 0, "settings": s}}
}

// appoint returns the change behind an action by which another member becomes the host.
func (w *world) appoint() []object {
	host := ""
	if w.settings["host"] == hostLongest && len(w.members) > 0 {
		users := w.users()
		slices.SortFunc(users, func(a, b string) int {
			return cmp.Compare(w.place(a), w.place(b))
		})
		if host = users[0]; w.members[w.host] != nil {
			host = w.host
		}
	}
	if host == w.host {
		return nil
	}
	w.host = host
	return []object{{"type": typeHost, "user": host, "seat": 0}}
}

// place returns what sorts members by who becomes the host first.
func (w *world) place(user string) string {
	m := w.members[user]
	return fmt.Sprintf("%t %020d %05d", strings.HasPrefix(m.Session, "~"), m.At, m.Seat)
}

func (w *world) ban(user string, until int64) []object {
	if w.bans[user] = until; until == 0 {
		delete(w.bans, user)
	}
	return []object{{"type": typeBan, "user": user, "seat": 0, "until": until}}
}

// shuffle gives members the seats of others, one on in the order of their names.
func (w *world) shuffle() (changes []object) {
	users := w.users()
	if len(users) < 2 {
		return nil
	}
	first := w.members[users[0]].Seat
	for i, user := range users {
		seat := first
		if i+1 < len(users) {
			seat = w.members[users[i+1]].Seat
		}
		w.members[user].Seat = seat
		changes = append(changes, object{"type": typeSeat, "user": user, "seat": seat})
	}
	return changes
}

// countdown sets a timer; due is 0 if it is cancelled. fire has it fire.
func (w *world) countdown(name string, due int64) []object { return w.timer(typeCountdown, name, due) }
func (w *world) fire(name string) []object                 { return w.timer(typeTimer, name, 0) }

func (w *world) timer(kind, name string, due int64) []object {
	was, set := w.timers[name]
	if due == 0 && !set {
		return nil
	}
	timer := object{"name": name}
	if set {
		timer["was"] = was.Due
	}
	if w.timed = w.version + 1; due != 0 {
		timer["due"], w.timers[name] = due, setTimer{due, w.version + 1}
	} else {
		delete(w.timers, name)
	}
	return []object{{"type": kind, "user": "", "seat": 0, "timer": timer}}
}

// final returns what Redis has.
func (w *world) final() *final {
	f := &final{users: map[string]string{}, ttls: []int64{-1, -1, -1}, meta: map[string]string{
		"epoch": w.epoch, "version": fmt.Sprint(w.version), "mark": w.mark, "members": fmt.Sprint(len(w.members)),
	}}
	for user, m := range w.members {
		o := object{"seat": m.Seat, "session": m.Session, "node": m.Node, "at": m.At}
		if m.Ready {
			o["ready"] = true
		}
		if m.Data != nil {
			o["data"] = m.Data.stored()
		}
		if m.Private != nil {
			o["private"] = m.Private.stored()
		}
		f.users[user] = encode(o)
	}
	if w.settings != nil {
		f.meta["settings"] = encode(w.settings)
	}
	if w.data != nil {
		f.meta["data"] = encode(w.data.stored())
	}
	if w.host != "" {
		f.meta["host"] = encode(w.host)
	}
	if len(w.gone) > 0 {
		f.meta["gone"] = encode(w.gone)
	}
	if len(w.members) == 0 && w.settings["keep"] != true {
		f.ttls = []int64{1000, -2, 1000}
	}
	if w.timed > 0 {
		f.meta["timers"] = encode(object{"version": w.timed, "timers": w.timers})
	}
	if len(w.bans) > 0 {
		f.meta["bans"] = encode(w.bans)
	}
	return f
}

// stored returns data as Redis has it.
func (d *datum) stored() object {
	if d.Value == nil {
		return object{"version": d.Version}
	}
	return object{"version": d.Version, "value": json.RawMessage(d.Value)}
}

// users returns who is in.
func (w *world) users() []string { return slices.Sorted(maps.Keys(w.members)) }
