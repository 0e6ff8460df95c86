package audit

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"roomd/loadtest/internal/model"
)

// Report is the result of an audit.
type Report struct {
	Pattern string `json:"pattern"` // selects the rooms
	Rooms   int    `json:"rooms"`   // with a replayed journal
	Commits int    `json:"commits"` // replayed
	// rooms whose journal does not start with the room: it was trimmed, or switched on later
	Middle int `json:"middle"`
	// epochs that followed another one, because Redis had lost data
	Epochs int `json:"epochs"`
	// commits that a room had lost when such an epoch began
	Lost           uint64             `json:"lost"`
	Gone           int                `json:"gone"`            // rooms that expired during the audit
	WithoutJournal int                `json:"without_journal"` // rooms without a journal
	Unjournaled    []string           `json:"unjournaled"`     // some of them, by id
	Violations     int                `json:"violations"`      // number of findings
	Rules          map[model.Rule]int `json:"rules"`           // number of findings by rule
	Findings       []model.Finding    `json:"findings"`        // the first findings, by room
	// kinds of changes that the audit does not know and ignores
	Strange []string `json:"unknown_changes,omitempty"`
	Seconds float64  `json:"seconds"` // how long the audit took
}

// Clean reports whether there is no finding.
func (r *Report) Clean() bool { return r.Violations == 0 }

// WriteFindings writes the findings as text.
func (r *Report) WriteFindings(w io.Writer) error {
	var b strings.Builder
	for _, f := range r.Findings {
		b.WriteString(f.String())
	}
	if more := r.Violations - len(r.Findings); more > 0 {
		fmt.Fprintf(&b, "%d more findings are not shown\n", more)
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// WriteSummary writes the numbers of the audit, and the verdict.
func (r *Report) WriteSummary(w io.Writer) error {
	var b strings.Builder
	fmt.Fprintf(&b, "journals    %d rooms, %d commits in %.1f s (%.0f/s)\n", r.Rooms, r.Commits, r.Seconds,
		float64(r.Commits)/max(r.Seconds, 0.001))
	if r.Middle > 0 {
		fmt.Fprintf(&b, "trimmed     %d of them begin in the middle: of what was before, only the outcome is known\n",
			r.Middle)
	}
	if r.Epochs > 0 {
		fmt.Fprintf(&b, "losses      %d new epochs: Redis had lost something, %d commits of which journals know\n",
			r.Epochs, r.Lost)
	}
	if r.Gone > 0 {
		fmt.Fprintf(&b, "expired     %d rooms, meanwhile\n", r.Gone)
	}
	if r.WithoutJournal > 0 {
		more := ""
		if n := r.WithoutJournal - len(r.Unjournaled); n > 0 {
			more = fmt.Sprintf(" and %d more", n)
		}
		fmt.Fprintf(&b, "no journal  %d rooms, which were not audited: %s%s\n", r.WithoutJournal,
			strings.Join(r.Unjournaled, " "), more)
	}
	if len(r.Strange) > 0 {
		fmt.Fprintf(&b, "unknown     changes that change nothing, for all that this program knows: %s\n",
			strings.Join(r.Strange, " "))
	}
	for _, rule := range slices.Sorted(maps.Keys(r.Rules)) {
		fmt.Fprintf(&b, "finding     %s: %d\n", rule, r.Rules[rule])
	}
	verdict := "clean"
	switch {
	case !r.Clean():
		verdict = "NOT CLEAN"
	case r.Rooms == 0:
		verdict = "nothing to audit: no room has a journal; start nodes with --journal"
	}
	fmt.Fprintf(&b, "verdict     %s\n", verdict)
	_, err := io.WriteString(w, b.String())
	return err
}
