package anomaly

import (
	"cmp"
	"slices"
	"time"
)

// hold is the time from which a caller had the lock to its last write under it.
type hold struct {
	caller       string
	from, to     time.Duration
	begun, wrote bool
}

// holds returns all holds that wrote, in the order in which they began.
func holds(events []Event) (all []hold) {
	current := make(map[string]hold)
	end := func(caller string) {
		if h := current[caller]; h.wrote {
			all = append(all, h)
		}
		delete(current, caller)
	}
	begin := func(caller string, at time.Duration) {
		if current[caller].wrote {
			end(caller)
		}
		current[caller] = hold{caller: caller, from: at, begun: true}
	}
	for _, e := range events {
		switch e.Kind {
		case Acquired:
			begin(e.Caller, e.At)
		case Locked:
			begin(e.Owner, e.At)
		case Read:
			if !current[e.Caller].begun { // there is no lock
				begin(e.Caller, e.At)
			}
		case Wrote, Stored:
			if h := current[e.Caller]; h.begun {
				h.to, h.wrote = e.At, true
				current[e.Caller] = h
			}
		case ToldOK, ToldFailed, ToldUnknown, Crashed:
			end(e.Caller)
		}
	}
	for caller := range current {
		end(caller)
	}
	slices.SortFunc(all, func(a, b hold) int { return cmp.Or(cmp.Compare(a.from, b.from), cmp.Compare(a.caller, b.caller)) })
	return all
}

// overlaps returns a finding for each hold that began within another's. The holds are in the order in which they began.
func overlaps(holds []hold) (found []Finding) {
	var last hold // of those that began, the one that ends last
	for i, h := range holds {
		if i > 0 && h.from < last.to && h.caller != last.caller {
			found = append(found, Finding{What: TwoHolders, At: h.from, Subject: last.caller, By: h.caller})
		}
		if i == 0 || h.to > last.to {
			last = h
		}
	}
	return found
}

// deletions returns a finding for each lock that another caller's command removed.
func deletions(events []Event) (found []Finding) {
	for _, e := range events {
		if e.Kind == Unlocked && e.Owner != e.Caller {
			found = append(found, Finding{What: Deleted, At: e.At, Subject: e.Owner, By: e.Caller})
		}
	}
	return found
}

// kept returns a finding for each caller that released the lock, by its own account, while the lock was still its own.
func kept(events []Event) (found []Finding) {
	owner := ""
	for _, e := range events {
		switch e.Kind {
		case Locked:
			owner = e.Owner
		case Unlocked, Expired, Forgotten:
			owner = ""
		case Released:
			if owner == e.Caller {
				found = append(found, Finding{What: Kept, At: e.At, Subject: e.Caller})
			}
		}
	}
	return found
}
