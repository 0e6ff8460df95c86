package main

import (
	"bytes"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/alecthomas/kong"
)

func model(t *testing.T) *kong.Application {
	t.Helper()
	parser, err := kong.New(&cli{}, options()...)
	if err != nil {
		t.Fatal(err)
	}
	return parser.Model
}

// script returns what "roomd completion" prints.
func script(t *testing.T, shell string) string {
	t.Helper()
	var out, errs bytes.Buffer
	if code := command([]string{"completion", shell}, &out, &errs); code != 0 {
		t.Fatalf("exit code %d: %s", code, &errs)
	}
	return out.String()
}

// Each shell is told each command and flag.
func TestCompletionHasEverything(t *testing.T) {
	for shell, dashes := range map[string]string{"bash": "--", "zsh": "--", "fish": "-l "} {
		text := script(t, shell)
		for _, c := range completions(model(t)) {
			for _, flag := range c.Flags {
				if !strings.Contains(text, dashes+flag.Name) {
					t.Errorf("%s: %s is missing", shell, flag.Name)
				}
			}
			if !strings.Contains(text, c.Name) {
				t.Errorf("%s: the command %s is missing", shell, c.Name)
			}
		}
	}
	if code := command([]string{"completion", "tcsh"}, io.Discard, io.Discard); code != exitWrongUse {
		t.Errorf("an unknown shell: exit code %d", code)
	}
}

// The shells that are installed accept their scripts.
func TestShellsAcceptTheirScripts(t *testing.T) {
	for _, shell := range []string{"bash", "zsh", "fish"} {
		if _, err := exec.LookPath(shell); err != nil {
			if shell == "bash" && os.Getenv("CI") != "" {
				t.Error("bash is not installed; in CI it has to be")
			}
			t.Logf("%s is not installed: its script is not tried", shell)
			continue
		}
		cmd := exec.CommandContext(t.Context(), shell, "-n", "/dev/stdin")
		cmd.Stdin = strings.NewReader(script(t, shell))
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Errorf("%s: %v\n%s", shell, err, out)
		}
	}
}

// Bash completes what somebody has typed.
func TestCompletionInBash(t *testing.T) {
	bash, err := exec.LookPath("bash")
	if err != nil {
		if os.Getenv("CI") != "" {
			t.Fatal("bash is not installed; in CI it has to be")
		}
		t.Skip("bash is not installed")
	}
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "my secret"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	run := script(t, "bash") + `
COMP_WORDS=("$@") COMP_CWORD=$(($# - 1))
_roomd
printf '%s\n' "${COMPREPLY[@]}"`
	for _, test := range []struct {
		words string // with | between them
		want  []string
	}{
		{"roomd|--lock", []string{"--lock-poll", "--lock-ttl", "--lock-wait"}},
		{"roomd|--log-level|de", []string{"debug"}},
		{"roomd|--log-level|=|de", []string{"debug"}},
		{"roomd|--log-format|=", []string{"console", "json"}},
		{"roomd|t", []string{"token"}},
		{"roomd|token|--r", []string{"--role", "--rooms"}},
		{"roomd|token|--lock", nil},
		{"roomd|token|--role|", []string{"admin", "player"}},
		{"roomd|serve|--max-q", []string{"--max-queue"}},
		{"roomd|completion|z", []string{"zsh"}},
		{"roomd|--auth-secret-file|my", []string{"my secret"}},
		{"roomd|--listen|", nil},
	} {
		cmd := exec.CommandContext(t.Context(), bash, append([]string{"--norc", "-c", run, "bash"}, strings.Split(test.words, "|")...)...)
		cmd.Dir = dir
		out, err := cmd.CombinedOutput()
		got := strings.FieldsFunc(string(out), func(r rune) bool { return r == '\n' })
		slices.Sort(got)
		if err != nil || !slices.Equal(got, test.want) {
			t.Errorf("%s: %q, %v; want %q", test.words, got, err, test.want)
		}
	}
}
