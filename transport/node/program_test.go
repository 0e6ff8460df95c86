package node

import (
	"bytes"
	"io"
	"strings"
	"testing"

	"github.com/alecthomas/kong"

	"roomd/lockmgr/redistest"
	"roomd/room"
)

// command is roomd with rules, and returns its exit code.
func command(rules room.Rules, args []string, stdout, stderr io.Writer) int {
	return program{name: "roomd", rules: rules}.command(args, stdout, stderr)
}

// A program with rules for the seats has no --capacity in its help, and shows the operators how many seats its rooms
// have. Who gives --capacity hears why it does not go.
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
	var errs bytes.Buffer
	if code := teams.command([]string{"--capacity", "3"}, io.Discard, &errs); code != exitWrongUse || !strings.Contains(errs.String(), "rules of its own for the seats") {
		t.Errorf("--capacity: %d, %s", code, &errs)
	}
	redistest.Equal(t, "operators are shown the capacity", (&config{rules: teams.rules}).labels()["capacity"], "4")
}
