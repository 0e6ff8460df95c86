package roomd

import (
	"bytes"
	"io"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"roomd/room"
	"roomd/transport/roomd/roomdtest"
)

// script returns what "roomd completion" prints.
func script(t *testing.T, shell string) string {
	t.Helper()
	var out, errs bytes.Buffer
	if code := command(room.Rules{}, []string{"completion", shell}, &out, &errs); code != 0 {
		t.Fatalf("exit code %d: %s", code, &errs)
	}
	return out.String()
}

// What each shell is told is for the shell that is named.
func TestCompletion_Shells(t *testing.T) {
	t.Parallel()
	for shell, want := range map[string]string{"bash": "complete ", "zsh": "bashcompinit", "fish": "complete -f -c roomd"} {
		if text := script(t, shell); !strings.Contains(text, want) {
			t.Errorf("%s: %s", shell, text)
		}
	}
	if code := command(room.Rules{}, []string{"completion", "tcsh"}, io.Discard, io.Discard); code != exitWrongUse {
		t.Errorf("an unknown shell: exit code %d", code)
	}
}

// The shells that are installed accept their scripts.
func TestCompletion_ShellsAcceptTheirScripts(t *testing.T) {
	t.Parallel()
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

// What a shell asks for is completed: commands, their flags, and values.
func TestCompletion_Words(t *testing.T) {
	t.Parallel()
	for line, want := range map[string]string{
		"roomd --lock":           "--lock-poll --lock-ttl --lock-wait",
		"roomd --log-level de":   "debug",
		"roomd --log-level=de":   "debug",
		"roomd --log-format ":    "console json",
		"roomd t":                "token",
		"roomd token --r":        "--role --rooms",
		"roomd token --lock":     "",
		"roomd token --role ":    "admin player",
		"roomd serve --max-q":    "--max-queue",
		"roomd completion z":     "zsh",
		"roomd --listen ":        "",
		"roomd --auth-secret-fi": "--auth-secret-file",
	} {
		cmd := exec.CommandContext(t.Context(), os.Args[0])
		cmd.Env = append(os.Environ(), roomdtest.AsRoomd+"=1", "COMP_LINE="+line)
		out, err := cmd.CombinedOutput()
		got := slices.Sorted(slices.Values(strings.Fields(string(out))))
		if err != nil || strings.Join(got, " ") != want {
			t.Errorf("%s: %q, %v; want %s", line, got, err, want)
		}
	}
}
