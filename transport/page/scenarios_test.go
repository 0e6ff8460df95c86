package page_test

import (
	"os"
	"testing"

	"roomd/loadtest/conform"
	"roomd/lockmgr/redistest"
)

// roomd.js does what every client has to do.
func TestClient_Scenarios(t *testing.T) {
	t.Parallel()
	cmd := nodeCommand(t, "testdata/conform.js")
	cmd.Stderr = os.Stderr
	redistest.OK(t, conform.Check(t.Context(), cmd, conform.Scenarios(), func(s conform.Scenario, err error) {
		t.Run(s.Name, func(t *testing.T) { redistest.OK(t, err) })
	}))
}
