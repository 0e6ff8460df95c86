package check

import (
	"cmp"
	"maps"
	"slices"
)

// watched returns entries that replace the journal of a room that has none, or only a part: the events to
// watchers, from the first list on. They lack private data, whispers and bans. Where a watcher missed
// something, the next list continues.
func (h *History) watched(events []*Event) (journal []Entry) {
	var epochs []string
	told := make(map[string]map[uint64][]Entry) // by epoch and version
	for _, e := range events {
		if !h.Conns[e.Conn].Watches || e.Version == 0 {
			continue
		}
		if told[e.Epoch] == nil {
			epochs = append(epochs, e.Epoch)
			told[e.Epoch] = make(map[uint64][]Entry)
		}
		one := Entry{Epoch: e.Epoch, Version: e.Version, Changes: e.Changes, from: e.From, list: e.List,
			merged: e.List != nil || e.From+1 < e.Version}
		if e.List != nil {
			one.from = e.Version - 1
		}
		told[e.Epoch][e.Version] = append(told[e.Epoch][e.Version], one)
	}
	for _, epoch := range epochs {
		last := Entry{}
		for _, version := range slices.Sorted(maps.Keys(told[epoch])) {
			// Prefer an entry that continues the last one to a list, and one commit to several.
			next := slices.MinFunc(told[epoch][version], func(a, b Entry) int {
				rank := func(e Entry) int {
					switch {
					case e.list != nil:
						return 2
					case e.from != last.Version:
						return 3
					case e.merged:
						return 1
					}
					return 0
				}
				return cmp.Compare(rank(a), rank(b))
			})
			if next.list != nil || next.from == last.Version && (last.Version > 0 || next.from == 0) {
				journal, last = append(journal, next), next
			}
		}
	}
	return journal
}

// unwatched reports whether an operation was answered at a version that watchers did not get: before they came,
// or while they were away.
func (w *witness) unwatched(op *Op) bool {
	last := w.journal[len(w.journal)-1]
	return op.Epoch != last.Epoch || op.Version < last.Version
}
