package audit

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"roomd/lockmgr/redistest"
)

// Each field of each entry, changed or removed, is found, whether the entry gets the mark that fits or
// not.
func TestTampering_EachField(t *testing.T) {
	edits := 0
	for _, tell := range []func() *world{story, hosted} {
		edits += tamperEach(t, tell)
	}
	if edits < 800 {
		t.Errorf("only %d edits", edits)
	}
}

func tamperEach(t *testing.T, tell func() *world) (edits int) {
	t.Helper()
	for i, entry := range tell().commits {
		var e any
		redistest.OK(t, json.Unmarshal([]byte(entry), &e))
		for path, edited := range variants(e) {
			for _, fits := range []bool{false, true} {
				w := tell()
				f := w.final()
				w.commits[i] = encode(edited)
				want := []Rule{RuleChanged, RuleEntry}
				if fits {
					remark(w, i+1, i+1, nil)
					want = []Rule{RuleChain, RuleGap, RuleEpoch, RulePosition, RuleEntry}
				}
				found := judgeWith(w.commits, f, func(o *oracle, _ int, err error) { o.find(RuleEntry, o.version, Side{}, Side{"", err.Error()}) })
				isMark := fits && strings.HasPrefix(path, ".mark")
				if !isMark && !slices.ContainsFunc(found, func(f Finding) bool { return slices.Contains(want, f.Rule) }) {
					t.Errorf("version %d, %s, with a mark that fits: %v:\n%s", i+1, path, fits, text(found))
				}
				edits++
			}
		}
	}
	return edits
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
