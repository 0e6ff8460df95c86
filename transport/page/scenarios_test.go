package page_test

import (
	"os"
	"testing"

	"roomd/lockmgr/redistest"
	"roomd/transport/scenarios"
)

// roomd.js does what every client has to do.
func TestClient_Scenarios(t *testing.T) {
	t.Parallel()
	cmd := nodeCommand(t, "testdata/conform.js")
	cmd.Stderr = os.Stderr
	redistest.OK(t, scenarios.Check(t.Context(), cmd, scenarios.All(), func(s scenarios.Scenario, err error) {
		t.Run(s.Name, func(t *testing.T) { redistest.OK(t, err) })
	}))
}
