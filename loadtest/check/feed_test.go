package check

import (
	"slices"
	"testing"
)

// heard returns a good history with what a reader was told of it.
func heard() (*History, []Told) {
	h := good()
	var told []Told
	for i := range h.entries() {
		e := &h.entries()[i]
		e.Mark = "mark"
		told = append(told, Told{At: ms(100*i + 20), Room: room42, Point: Point{e.Epoch, e.Version}, Sum: SumOf(e.Mark, public(e.Changes, "", true))})
	}
	return h, told
}

// gapAt is an entry that says that commits are missing.
func gapAt(i int, after, before uint64) Told {
	g := &Gap{}
	if after > 0 {
		g.After = Point{epoch1, after}
	}
	if before > 0 {
		g.Before = Point{epoch1, before}
	}
	return Told{At: ms(100*i + 20), Room: room42, Gap: g}
}

func TestFeed(t *testing.T) {
	lossy := Fault{Name: "redis-old", From: ms(300), To: ms(400), Loses: true, Since: ms(200)}
	for _, tt := range []struct {
		what, rule string
		spoil      func(h *History, told []Told) []Told
	}{
		{"all is well", "", func(_ *History, told []Told) []Told { return told }},
		{"pages that come again", "", func(_ *History, told []Told) []Told { return slices.Concat(told[:4], told[1:6], told[2:]) }},
		{"another room between", "", func(_ *History, told []Told) []Told {
			return slices.Insert(told, 3, Told{Room: "43", Point: Point{epoch2, 9}})
		}},
		{"a commit that is missing", "missing", func(_ *History, told []Told) []Told { return slices.Delete(told, 3, 4) }},
		{"the first one is missing", "missing", func(_ *History, told []Told) []Told { return told[1:] }},
		{"the last one is missing", "missing", func(_ *History, told []Told) []Told { return told[:6] }},
		{"nothing at all", "missing", func(_ *History, _ []Told) []Told { return nil }},
		{"two the wrong way round", "order", func(_ *History, told []Told) []Told { told[2], told[3] = told[3], told[2]; return told }},
		{"the first one late", "order", func(_ *History, told []Told) []Told { told[0], told[1] = told[1], told[0]; return told }},
		{"another content", "content", func(_ *History, told []Told) []Told { told[3].Sum++; return told }},
		{"the mark of another", "content", func(h *History, told []Told) []Told { h.entries()[3].Mark = "other"; return told }},
		{"another content the second time", "two contents", func(_ *History, told []Told) []Told {
			again := told[3]
			again.Sum++
			return append(told, again)
		}},
		{"what never was", "phantom", func(_ *History, told []Told) []Told {
			return append(told, Told{At: ms(900), Room: room42, Point: Point{epoch1, 8}})
		}},
		{"a gap where nothing is missing", "gap", func(_ *History, told []Told) []Told { return slices.Insert(told, 3, gapAt(3, 3, 4)) }},
		{"a gap in place of what the journal has", "gap", func(_ *History, told []Told) []Told { return slices.Replace(told, 3, 4, gapAt(3, 3, 5)) }},
		{"the same where something was lost", "missing", func(h *History, told []Told) []Told {
			h.Faults = []Fault{lossy}
			return slices.Replace(told, 3, 4, gapAt(3, 3, 5))
		}},
		{"a gap where the journal was trimmed", "", func(h *History, told []Told) []Told {
			h.Journals[room42] = h.entries()[4:]
			return slices.Concat([]Told{gapAt(3, 0, 5)}, told[4:])
		}},
		{"a gap that names others than are missing", "order", func(h *History, told []Told) []Told {
			h.Journals[room42] = h.entries()[4:]
			return slices.Concat([]Told{gapAt(3, 0, 4)}, told[4:])
		}},
		{"a gap behind another commit than the last", "gap", func(h *History, told []Told) []Told {
			h.Faults = []Fault{lossy}
			return slices.Insert(told, 4, gapAt(4, 3, 5))
		}},
		{"all rooms, and nothing was dropped", "gap", func(_ *History, told []Told) []Told { return slices.Insert(told, 3, gapAt(3, 0, 0)) }},
		{"all rooms, where Redis was empty", "", func(h *History, told []Told) []Told {
			h.Faults = []Fault{lossy}
			whole := gapAt(3, 0, 0)
			whole.Gap.Now = Point{epoch1, 5}
			return slices.Replace(told, 3, 5, whole)
		}},
		{"all rooms, and more is missing", "missing", func(h *History, told []Told) []Told {
			h.Faults = []Fault{lossy}
			whole := gapAt(3, 0, 0)
			whole.Gap.Now = Point{epoch1, 5}
			return slices.Replace(told, 3, 6, whole)
		}},
		{"a commit that was lost, and an epoch behind it", "", func(h *History, told []Told) []Told { return lost(h, told, lossy) }},
		{"the same, and nothing was allowed to lose it", "phantom", func(h *History, told []Told) []Told { return lost(h, told, Fault{}) }},
		{"the same with a failover, before a replica had it", "", func(h *History, told []Told) []Told {
			return lost(h, told, Fault{Splits: true, From: ms(2400)})
		}},
		{"an epoch that comes again", "order", func(h *History, told []Told) []Told {
			told = lost(h, told, lossy)
			return append(slices.Delete(told, 4, 5), told[4])
		}},
	} {
		h, told := heard()
		v := Feed(h, Readers{"reader": tt.spoil(h, told)})
		if found := slices.ContainsFunc(v.Violations, func(v Violation) bool { return v.Rule == tt.rule }); found != (tt.rule != "") || tt.rule == "" && len(v.Violations) > 0 {
			t.Errorf("%s: no violation of %q, but %v", tt.what, tt.rule, v.Violations)
		}
	}
	h, told := heard()
	if v := Feed(h, Readers{"reader": append(told, told[6])}); v.Commits["reader"] != 7 || v.Again != 1 || v.Gaps != 0 {
		t.Errorf("%+v", v)
	}
}

// lost makes the last two commits of the first epoch ones that Redis has lost, by a fault: another epoch goes on in their place.
func lost(h *History, told []Told, f Fault) []Told {
	h.Faults = []Fault{f}
	list := h.entries()
	for i := 5; i < 7; i++ {
		list[i].Epoch = epoch2
		e := told[i]
		e.Point = Point{epoch2, e.Version}
		told = append(told, e)
	}
	return told
}
