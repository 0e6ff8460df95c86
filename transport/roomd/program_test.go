package roomd

import (
	"bytes"
	"io"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/alecthomas/kong"

	"roomd/lockmgr/redistest"
	"roomd/room"
	"roomd/transport/roomd/roomdtest"
)

// command is roomd with rules, and returns its exit code.
func command(rules room.Rules, args []string, stdout, stderr io.Writer) int {
	return program{name: "roomd", rules: rules}.command(args, stdout, stderr)
}

// A program with rules for the seats has no --capacity in its help and its completion, which is for the name of the
// program, and shows the operators how many seats its rooms have. Who gives --capacity hears why it does not go.
func TestProgram_OfRulesForSeats(t *testing.T) {
	teams := program{name: "teams", rules: room.Rules{Name: "teams-1", Seating: room.Capacity(4)}}
	parser, err := kong.New(&cli{}, options(teams.name)...)
	redistest.OK(t, err)
	teams.hideFlags(parser.Model)
	for _, command := range parser.Model.Children {
		for _, flag := range command.Flags {
			if flag.Hidden != (flag.Name == "capacity") {
				t.Errorf("%s --%s: hidden is %v", command.Name, flag.Name, flag.Hidden)
			}
		}
	}
	var out, errs bytes.Buffer
	if code := teams.command([]string{"completion", "fish"}, &out, &errs); code != 0 || !strings.Contains(out.String(), "complete -f -c teams ") {
		t.Errorf("completion: %d, %s%s", code, &out, &errs)
	}
	errs.Reset()
	if code := teams.command([]string{"--capacity", "3"}, io.Discard, &errs); code != exitWrongUse || !strings.Contains(errs.String(), "rules of its own for the seats") {
		t.Errorf("--capacity: %d, %s", code, &errs)
	}
	redistest.Equal(t, "operators are shown the capacity", (&config{rules: teams.rules}).labels()["capacity"], "4")
}

// The completion of roomd itself has --capacity.
func TestProgram_OfRoomd(t *testing.T) {
	cmd := exec.CommandContext(t.Context(), os.Args[0])
	cmd.Env = append(os.Environ(), roomdtest.AsRoomd+"=1", "COMP_LINE=roomd --capa")
	if out, err := cmd.CombinedOutput(); err != nil || strings.TrimSpace(string(out)) != "--capacity" {
		t.Errorf("%s, %v", out, err)
	}
}
