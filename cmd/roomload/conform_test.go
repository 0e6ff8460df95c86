package main

import (
	"bytes"
	"errors"
	"strings"
	"testing"
)

// A program that is no client fails each scenario, and says so in words.
func TestConform_Reports(t *testing.T) {
	t.Parallel()
	var stdout, stderr bytes.Buffer
	err := run(t.Context(), []string{"conform", "--client", "echo hello", "--run", "^is kicked$|^kicked$"},
		&stdout, &stderr)
	got := stdout.String()
	if err == nil || errors.Is(err, errNotConform) || !strings.Contains(err.Error(), "which is no answer") ||
		exitCode(err) != exitFailed || strings.Count(got, "FAIL ") != 2 ||
		!strings.HasSuffix(got, "\n0 scenarios passed, 2 failed\n") {
		t.Errorf("%v\n%s", err, got)
	}
}
