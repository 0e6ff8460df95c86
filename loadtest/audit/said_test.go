package audit

import (
	"fmt"
	"slices"
	"testing"
)

// The messages that a room keeps are the last of its journal.
func TestKeptMessages(t *testing.T) {
	say := func(w *world, text string) string {
		w.commit("n1", object{"type": typeMessage, "user": "a", "seat": 0, "text": text, "to": []string{"b"}})
		return encode(object{"epoch": w.epoch, "version": w.version, "user": "a", "text": text, "to": []string{"b"}})
	}
	for what, spoil := range map[string]func(kept []string) []string{
		"":                    func(kept []string) []string { return kept },
		"one is missing":      func(kept []string) []string { return kept[1:] },
		"the last is missing": func(kept []string) []string { return kept[:1] },
		"none is there":       func([]string) []string { return nil },
		"one is another":      func(kept []string) []string { return []string{kept[0], say(newWorld(), "other")} },
		"one is there twice":  func(kept []string) []string { return []string{kept[1], kept[1]} },
		"they are out of turn": func(kept []string) []string {
			slices.Reverse(kept)
			return kept
		},
		"one is no JSON": func(kept []string) []string { return []string{"{", kept[1]} },
	} {
		w := newWorld()
		w.commit("n1", w.join("a", "n1", 0, false)...)
		w.commit("n1", w.configure(object{"capacity": 4, "history": 2})...)
		var kept []string
		for i := range 4 {
			kept = append(kept, say(w, fmt.Sprint(i)))
		}
		w.commit("n1", w.configure(object{"capacity": 5, "history": 2})...)
		f := w.final()
		f.ttls = append(f.ttls, -1)
		f.said = spoil(kept[2:])
		found := judge(t, w.commits, f)
		if (len(found) > 0) != (what != "") || len(found) > 0 && found[0].Rule != RuleSaid {
			t.Errorf("%s: found\n%s", what, text(found))
		}
		w.commit("n1", w.configure(object{"capacity": 4})...)
		f = w.final()
		if found := judge(t, w.commits, f); len(found) > 0 {
			t.Errorf("none are kept any more: found\n%s", text(found))
		}
		if f.said = kept[2:]; len(judge(t, w.commits, f)) == 0 {
			t.Error("what is kept without the setting is not found")
		}
	}
}
