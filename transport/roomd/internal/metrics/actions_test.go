package metrics

import (
	"fmt"
	"testing"

	"roomd/room"
)

// An outcome that is unknown counts as that, whatever ended the wait for it.
func TestUnknownCountsFirst(t *testing.T) {
	for _, r := range results {
		if got := resultOf(fmt.Errorf("%w: %w", room.ErrUnknown, r.err)); got != "unknown" {
			t.Errorf("with %v: %s", r.err, got)
		}
	}
}
