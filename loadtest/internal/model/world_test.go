package model

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// world is a room: its journal, and what Redis has.
type world struct {
	epoch   string
	version uint64
	mark    string
	commits []string
	*Final
}

type object = map[string]any

// The rooms of the tests. A line is a commit, with its node and its changes; or an epoch, the version that Redis had when it began, and the one behind
// which it goes on; or what Redis has in the end: of Meta, which has the last position besides, Users, or what was said.
const (
	// story has each kind of change with each of its fields.
	story = `
n1 {"type":"join","user":"a","seat":0,"session":"s1","at":1000000},{"type":"defaults","user":"","seat":0,"settings":{"capacity":4}},{"type":"join","user":"b","seat":1,"session":"s2","at":1000000}
n2 {"type":"join","user":"c","seat":2,"session":"~s3","at":1000000}
n1 {"type":"away","user":"a","seat":0,"session":"~s1","old":"s1"}
n2 {"type":"back","user":"a","seat":0,"session":"s5","old":"~s1"}
n2 {"type":"replace","user":"b","seat":1,"session":"s6","old":"s2"}
n1 {"type":"member","user":"b","seat":1,"ready":true,"data":{"x":1}}
n1 {"type":"data","user":"","seat":0,"data":[1,2]}
n1 {"type":"data","user":"","seat":0,"data":{"pot":9}}
n1 {"type":"join","user":"d","seat":3,"session":"s7","at":1000000}
n1 {"type":"leave","user":"d","seat":3,"reason":"kicked","text":"enough"},{"type":"ban","user":"d","seat":0,"until":2000000}
n1 {"type":"join","user":"e","seat":3,"session":"s8","at":1000000}
n1 {"type":"leave","user":"e","seat":3,"reason":"moved","target":"43","labels":"m"}
n1 {"type":"message","user":"a","seat":0,"text":"hi","to":["b","c"]}
n1 {"type":"message","user":"","seat":0,"data":{}}
n1 {"type":"ban","user":"x","seat":0,"until":1000005}
n1 {"type":"ban","user":"x","seat":0,"until":0}
n1 {"type":"join","user":"g","seat":3,"session":"s9","at":1000000}
n2 {"type":"leave","user":"g","seat":3,"reason":"node"}
n1 {"type":"settings","user":"","seat":0,"settings":{"capacity":4,"closed":true,"data":"admins"}}
n1 {"type":"join","user":"g","seat":3,"session":"s10","at":1000000,"again":true}
n1 {"type":"leave","user":"g","seat":3,"reason":"left"}
n1 {"type":"private","user":"b","seat":1,"data":"QUEEN"},{"type":"agree","user":"a","seat":0,"agreed":{"labels":"m","rooms":["m-*"]}}
n1 {"type":"countdown","user":"","seat":0,"timer":{"name":"turn","due":5000}},{"type":"countdown","user":"","seat":0,"timer":{"name":"game","due":9000}}
n1 {"type":"countdown","user":"","seat":0,"timer":{"name":"turn","due":6000,"was":5000}}
n1 {"type":"timer","user":"","seat":0,"timer":{"name":"turn","was":6000}}
n1 {"type":"countdown","user":"","seat":0,"timer":{"name":"turn","due":7000}}
n1 {"type":"seat","user":"a","seat":1},{"type":"seat","user":"b","seat":2},{"type":"seat","user":"c","seat":0}
n1 {"type":"seat","user":"a","seat":2},{"type":"seat","user":"b","seat":0},{"type":"seat","user":"c","seat":1}
n1 {"type":"seat","user":"a","seat":0},{"type":"seat","user":"b","seat":1},{"type":"seat","user":"c","seat":2}
n1
Meta settings {"capacity":4,"closed":true,"data":"admins"}
Meta data {"version":8,"value":{"pot":9}}
Meta bans {"d":2000000}
Meta gone {"d":{"version":10,"reason":"kicked","text":"enough"},"e":{"version":12,"reason":"moved","target":"43","labels":"m"}}
Meta timers {"timers":{"game":{"due":9000,"version":23},"turn":{"due":7000,"version":26}},"version":26}
Users a {"seat":0,"session":"s5","node":"n2","at":1000000,"agreed":{"labels":"m","rooms":["m-*"]}}
Users b {"seat":1,"session":"s6","node":"n2","at":1000000,"ready":true,"data":{"version":6,"value":{"x":1}},"private":{"version":22,"value":"QUEEN"}}
Users c {"seat":2,"session":"~s3","node":"n2","at":1000000}`

	hosted = `
n1 {"type":"join","user":"a","seat":1,"session":"s1","at":10},{"type":"defaults","user":"","seat":0,"settings":{"capacity":4}}
n2 {"type":"join","user":"b","seat":0,"session":"s2","at":20}
n1 {"type":"settings","user":"","seat":0,"settings":{"capacity":4,"host":"longest"}},{"type":"host","user":"a","seat":0}
n1 {"type":"join","user":"c","seat":2,"session":"s3","at":30}
n1 {"type":"away","user":"b","seat":0,"session":"~s2","old":"s2"}
n1 {"type":"leave","user":"a","seat":1,"reason":"left"},{"type":"host","user":"c","seat":0}
n2 {"type":"back","user":"b","seat":0,"session":"s5","old":"~s2"}
n2 {"type":"join","user":"a","seat":1,"session":"s6","at":70}
n2 {"type":"leave","user":"c","seat":2,"reason":"left"},{"type":"host","user":"b","seat":0},{"type":"leave","user":"b","seat":0,"reason":"left"},{"type":"host","user":"a","seat":0}
n1 {"type":"join","user":"b","seat":3,"session":"s7","at":90}
Meta settings {"capacity":4,"host":"longest"}
Meta host "a"
Users a {"seat":1,"session":"s6","node":"n2","at":70}
Users b {"seat":3,"session":"s7","node":"n1","at":90}`

	begun = `
n1 {"type":"join","user":"a","seat":1,"session":"~s1","at":10},{"type":"defaults","user":"","seat":0,"settings":{"capacity":4}}`
	joined = `
n2 {"type":"join","user":"b","seat":0,"session":"s2","at":20}`
	backA = `{"type":"join","user":"a","seat":1,"session":"~s1","at":10,"of":"n1","again":true},`
	backB = `{"type":"join","user":"b","seat":0,"session":"s2","at":20,"of":"n2","again":true},`
	back  = `{"type":"settings","user":"","seat":0,"settings":{"capacity":2,"host":"longest"},"again":true},{"type":"host","user":"a","again":true}
Meta settings {"capacity":2,"host":"longest"}
Meta host "a"
Users a {"seat":1,"session":"~s1","node":"n1","at":10}
Users b {"seat":0,"session":"s2","node":"n2","at":20}`

	// What a node knew comes back behind that, where Redis has an old copy, or nothing at all.
	emptied = `
epoch e2 0 3
n3 ` + backA + backB + back
	older = begun + `
epoch e2 1 3
n3 ` + backB + back
	old = begun + joined + `
epoch e2 2 3
n3 ` + back
	fewer = begun + joined + `
epoch e2 2 3
n3 {"type":"settings","user":"","seat":0,"settings":{"capacity":2,"host":"longest"},"again":true},{"type":"leave","user":"b","seat":0,"reason":"timeout","again":true},{"type":"host","user":"a","again":true}
Meta settings {"capacity":2,"host":"longest"}
Meta host "a"
Users a {"seat":1,"session":"~s1","node":"n1","at":10}`

	kept = `
n1 {"type":"join","user":"a","seat":0,"session":"s1","at":1},{"type":"settings","user":"","seat":0,"settings":{"capacity":4,"keep":true}}
n1 {"type":"leave","user":"a","seat":0,"reason":"left"}
Meta settings {"capacity":4,"keep":true}`

	shut = `
n1 {"type":"join","user":"a","seat":0,"session":"s1","at":1},{"type":"defaults","user":"","seat":0,"settings":{"capacity":4}}
n1 {"type":"leave","user":"a","seat":0,"reason":"closed"},{"type":"settings","user":"","seat":0,"settings":{"capacity":4,"closed":true},"shut":true}
Meta settings {"capacity":4,"closed":true}
Meta gone {"":{"version":2,"reason":"closed"}}`

	talk = `
n1 {"type":"join","user":"a","seat":0,"session":"s1","at":1},{"type":"settings","user":"","seat":0,"settings":{"history":2}}
n1 {"type":"message","user":"a","seat":0,"text":"one"}
n1 {"type":"message","user":"a","seat":0,"text":"two","to":["b"]}
n1 {"type":"message","user":"a","seat":0,"text":"three"}`
	talked = talk + `
n1 {"type":"settings","user":"","seat":0,"settings":{"history":2,"capacity":5}}
Meta settings {"capacity":5,"history":2}
Users a {"seat":0,"session":"s1","node":"n1","at":1}
Said {"epoch":"e1","version":3,"user":"a","text":"two","to":["b"]}
Said {"epoch":"e1","version":4,"user":"a","text":"three"}`
	silent = talk + `
n1 {"type":"settings","user":"","seat":0,"settings":{"capacity":5}}
Meta settings {"capacity":5}
Users a {"seat":0,"session":"s1","node":"n1","at":1}`
)

// read makes a room.
func (w *world) read(text string) *world {
	w.Final = &Final{Users: map[string]string{}, Meta: map[string]string{}, TTLs: []int64{-1, -1, -1, -1}}
	for _, line := range strings.Split(strings.TrimSpace(text), "\n") {
		kind, rest, _ := strings.Cut(line, " ")
		name, value, _ := strings.Cut(rest, " ")
		switch kind {
		case "Meta":
			w.Meta[name] = value
		case "Users":
			w.Users[name] = value
		case "Said":
			w.Said = append(w.Said, rest)
		case "epoch":
			var had int
			_, err := fmt.Sscan(value, &had, &w.version)
			if w.epoch, w.mark = name, ""; err == nil && had > 0 {
				w.mark = markIn(w.commits[had-1])
			}
		default:
			w.commit(kind, rest)
		}
	}
	if len(w.Users) == 0 && w.Meta["settings"] != `{"capacity":4,"keep":true}` {
		w.TTLs = []int64{1000, -2, 1000, -2}
	}
	w.Meta["members"] = strconv.Itoa(len(w.Users))
	w.stand()
	return w
}

// stand brings Meta to the end of the journal.
func (w *world) stand() {
	w.Meta["epoch"], w.Meta["version"], w.Meta["mark"] = w.epoch, fmt.Sprint(w.version), w.mark
}

func worldOf(text string) *world { return (&world{epoch: "e1"}).read(text) }

// trimmed returns the room without the first entries of its journal.
func (w *world) trimmed(entries int) *world {
	w.commits = w.commits[entries:]
	return w
}

func encode(v any) string {
	text, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return string(text)
}

// commit writes an entry.
func (w *world) commit(node, changes string) {
	w.version++
	var text string
	text, w.mark = marked(object{"epoch": w.epoch, "version": w.version, "prev": w.mark, "node": node, "changes": json.RawMessage("[" + changes + "]")})
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

func parsed(entry string) (e object) {
	if err := json.Unmarshal([]byte(entry), &e); err != nil {
		panic(err)
	}
	return e
}

func markIn(entry string) string { return parsed(entry)["mark"].(string) }

// remark gives entries the marks that they would have.
func (w *world) remark(from, to int) {
	for i := from - 1; i < to; i++ {
		e := parsed(w.commits[i])
		if i > from-1 {
			e["prev"] = markIn(w.commits[i-1])
		}
		w.commits[i], w.mark = marked(e)
	}
}

// judge replays a journal, and compares the outcome.
func (w *world) judge() (findings []Finding) {
	j := NewJournal("42", func(f Finding) { findings = append(findings, f) })
	for i, text := range w.commits {
		j.Next(fmt.Sprintf("%d-0", i+1), text)
	}
	j.End(w.Final)
	return findings
}

func text(findings []Finding) string {
	var b strings.Builder
	for _, f := range findings {
		b.WriteString(f.String())
	}
	return b.String()
}

// damage is what somebody does to a room.
type damage func(w *world)

func (d damage) and(more damage) damage { return func(w *world) { d(w); more(w) } }

// edit returns an edit of an entry.
func edit(version int, change func(e object, changes []any)) damage {
	return func(w *world) {
		i := slices.IndexFunc(w.commits, func(text string) bool { return parsed(text)["version"] == float64(version) })
		e := parsed(w.commits[i])
		changes, _ := e["changes"].([]any)
		change(e, changes)
		w.commits[i] = encode(e)
	}
}

// field sets a field of an entry's first change, or removes it.
func field(version int, name string, value any) damage { return fieldOf(version, 0, name, value) }

func fieldOf(version, change int, name string, value any) damage {
	return edit(version, func(_ object, changes []any) {
		if changes[change].(object)[name] = value; value == nil {
			delete(changes[change].(object), name)
		}
	})
}

// extra adds changes to an entry, and less removes one.
func extra(version int, more string) damage {
	return edit(version, func(e object, changes []any) {
		e["changes"] = append(changes, parsed(`{"changes":[` + more + `]}`)["changes"].([]any)...)
	})
}

func less(version, change int) damage {
	return edit(version, func(e object, changes []any) { e["changes"] = slices.Delete(changes, change, change+1) })
}

// rewritten makes an edit one of somebody who computes all marks anew.
func rewritten(version int, edit damage) damage {
	return func(w *world) {
		edit(w)
		w.remark(version, len(w.commits))
		w.Meta["mark"] = w.mark
	}
}

// appended appends an entry that fits the chain, and brings Meta to it.
func appended(changes string) damage { return func(w *world) { w.commit("n1", changes); w.stand() } }

func meta(name, value string) damage {
	return func(w *world) {
		if w.Meta[name] = value; value == "" {
			delete(w.Meta, name)
		}
	}
}

func inMeta(name, old, replacement string) damage {
	return func(w *world) { replace(w.Meta, name, old, replacement) }
}

func user(name, old, replacement string) damage {
	return func(w *world) { replace(w.Users, name, old, replacement) }
}

func replace(all map[string]string, name, old, replacement string) {
	was := all[name]
	if all[name] = strings.Replace(was, old, replacement, 1); all[name] == was {
		panic(was)
	}
}

// added adds a member to Redis.
func added(name, text string) damage {
	return func(w *world) { w.Users[name] = text; w.Meta["members"] = strconv.Itoa(len(w.Users)) }
}

func expires(key int, ms int64) damage { return func(w *world) { w.TTLs[key] = ms } }

func said(spoil func(said []string) []string) damage {
	return func(w *world) { w.Said = spoil(w.Said) }
}

// way is how somebody damages a room, and what is found; at is the version that the finding has to name, if it is not 0.
type way struct {
	name string
	do   damage
	want Rule
	at   uint64
}

// try damages a room in each way.
func try(t *testing.T, begin func() *world, ways []way) {
	t.Helper()
	if found := begin().judge(); len(found) > 0 {
		t.Fatalf("before all damage:\n%s", text(found))
	}
	for _, way := range ways {
		w := begin()
		way.do(w)
		found := w.judge()
		fits := func(f Finding) bool { return f.Rule == way.want && (way.at == 0 || f.Version == way.at) }
		if way.want == notFound && len(found) > 0 || way.want != notFound && !slices.ContainsFunc(found, fits) {
			t.Errorf("%s: want %q, version %d, found:\n%s", way.name, way.want, way.at, text(found))
		}
	}
}

// variants returns JSON with each of its values changed, and removed, by path.
func variants(v any) map[string]any {
	all := make(map[string]any)
	switch v := v.(type) {
	case map[string]any:
		for name, field := range v {
			less := maps.Clone(v)
			delete(less, name)
			all["."+name+" removed"] = less
			for path, edited := range variants(field) {
				more := maps.Clone(v)
				more[name] = edited
				all["."+name+path] = more
			}
		}
	case []any:
		all[" with one more"] = append(slices.Clone(v), "more")
		for i, element := range v {
			all[fmt.Sprintf("[%d] removed", i)] = slices.Delete(slices.Clone(v), i, i+1)
			for path, edited := range variants(element) {
				more := slices.Clone(v)
				more[i] = edited
				all[fmt.Sprintf("[%d]%s", i, path)] = more
			}
		}
	case string:
		all[" longer"] = v + "x"
	case float64:
		all[" more"] = v + 1
	case bool:
		all[" not"] = !v
	}
	return all
}
