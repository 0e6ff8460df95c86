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
	program, err := conform.Start(cmd)
	redistest.OK(t, err)
	t.Cleanup(func() { redistest.OK(t, program.Close()) }) // once the scenarios are over, which run in parallel
	for _, s := range conform.Scenarios() {
		t.Run(s.Name, func(t *testing.T) {
			t.Parallel()
			redistest.OK(t, s.Play(t.Context(), program))
		})
	}
}
