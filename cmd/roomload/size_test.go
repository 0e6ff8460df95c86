package main

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"roomd/loadtest/size"
	"roomd/lockmgr/redistest"
)

var (
	update  = flag.Bool("update", false, "write what roomload size prints into the documents")
	checked = flag.String("checked", "", "with -update, write what roomload size --check printed into this `file`, too")
)

const (
	manual    = "../roomd/OPERATING.md"
	loadtests = "../../loadtest/README.md"
)

// shownSize is an example of the manual: a command, and what it prints.
var shownSize = regexp.MustCompile(`(?m)^    \$ go run \./cmd/roomload (size [^\n]*)\n((?:    [^$\n][^\n]*\n)+)`)

// What the manual shows is what the command prints. After a calibration: go test ./cmd/roomload -run TestSize_ -update
func TestSize_Manual(t *testing.T) {
	text, err := os.ReadFile(manual)
	redistest.OK(t, err)
	examples := shownSize.FindAllStringSubmatch(string(text), -1)
	if len(examples) == 0 {
		t.Fatal("the manual shows no roomload size")
	}
	for _, example := range examples {
		var stdout, stderr bytes.Buffer
		redistest.OK(t, run(t.Context(), strings.Fields(example[1]), &stdout, &stderr))
		prints := "    " + strings.ReplaceAll(strings.TrimSuffix(stdout.String(), "\n"), "\n", "\n    ") + "\n"
		if *update {
			text = bytes.Replace(text, []byte(example[2]), []byte(prints), 1)
		} else if prints != example[2] {
			t.Errorf("%s prints\n%s\nand the manual shows\n%s", example[1], prints, example[2])
		}
	}
	if *update {
		redistest.OK(t, os.WriteFile(manual, text, 0o644))
	}
}

var (
	besideTable = regexp.MustCompile(`(?m)^\| \| Centrifugo \| Centrifugo PRO, tuned \| roomd \|\n\|---\|---\|---\|---\|\n((?:\|[^\n]*\n)*)`)
	checkBlock  = regexp.MustCompile(`(?m)starts one to three masters[^\n]*\n[^\n]*\n[^\n]*\n\n((?:    [^\n]*\n)+)`)
)

// beside is the table beside Centrifugo's published figures, with the costs that the documents compute with.
func beside(c *size.Costs) string {
	v := c.Values
	node := v[size.NodeAction] + v[size.NodeCommit] + 3*v[size.NodeEvent]
	return fmt.Sprintf(`| idle connection, resident after a collection | 27.0 KB | 10.9 KB | %.1f KB |
| the same, as it stands | – | – | %.1f KB |
| of the kernel for its socket, besides | about 4 KB | about 4 KB | %.1f KB |
| processor time of an idle connection | 4.7 µs/s | 2.2 µs/s | %.1f µs/s |
| the same, for one ping | 118 µs | 55 µs | %.0f µs |
| processor time of a publication, or of an action at a table of four | 8.8 µs; 11 µs with history | – | %.0f µs |
| the same, of Redis | 1.8 µs; 10 µs with history | – | %.0f µs |
`, v[size.NodeMemoryConnection]/1000, v[size.NodeMemoryAsIs]/1000, v[size.KernelConnection]/1000, v[size.NodeConnection], 5*v[size.NodeConnection], node, v[size.RedisCommit])
}

// The comparison has the measured costs.
func TestSize_BesideCentrifugo(t *testing.T) {
	text, err := os.ReadFile(loadtests)
	redistest.OK(t, err)
	found := besideTable.FindSubmatchIndex(text)
	block := checkBlock.FindSubmatchIndex(text)
	if found == nil || block == nil {
		t.Fatal("loadtest/README.md has no such table, or shows no --check")
	}
	want := beside(size.Measured())
	if got := string(text[found[2]:found[3]]); got != want && !*update {
		t.Errorf("the table is\n%s\nand must be\n%s", got, want)
	}
	if *update {
		var shown []byte
		if *checked != "" {
			printed, err := os.ReadFile(*checked)
			redistest.OK(t, err)
			shown = append(bytes.ReplaceAll(append([]byte("    "), bytes.TrimSpace(printed)...), []byte("\n"), []byte("\n    ")), '\n')
		} else {
			shown = text[block[2]:block[3]]
		}
		if block[2] > found[2] {
			t.Fatal("the table stands before what --check prints")
		}
		text = slices.Concat(text[:block[2]], shown, text[block[3]:found[2]], []byte(want), text[found[3]:])
		redistest.OK(t, os.WriteFile(loadtests, text, 0o644))
	}
}

func TestSize_Prints(t *testing.T) {
	t.Parallel()
	var stdout, stderr bytes.Buffer
	redistest.OK(t, run(t.Context(), strings.Fields("size --players 20000 --actions 12/min --json"), &stdout, &stderr))
	var p size.Plan
	if err := json.Unmarshal(stdout.Bytes(), &p); err != nil || p.Actions != 4000 || p.Nodes.Count < 1 {
		t.Errorf("%v\n%s", err, &stdout)
	}
	stdout.Reset()
	redistest.OK(t, run(t.Context(), []string{"size", "--constants"}, &stdout, &stderr))
	for _, c := range size.Table {
		if !strings.Contains(stdout.String(), c.Name+" ") || !strings.Contains(stdout.String(), c.What) {
			t.Errorf("%s is not in\n%s", c.Name, &stdout)
		}
	}
	if m := size.Measured().Machine; !strings.Contains(stdout.String(), m) || !strings.Contains(stdout.String(), "--calibrate") {
		t.Errorf("neither the machine nor the command is in\n%s", &stdout)
	}
}

// Costs of a file count, and what is no such file is refused by name.
func TestSize_ConstantsFile(t *testing.T) {
	t.Parallel()
	c := size.Measured()
	before, err := size.Load{Players: 1000, PerRoom: 4, Actions: 1, Profile: size.Cluster, Cores: 1, Memory: 1 << 30, RedisMemory: 1 << 30, MaxConnections: 1000, Utilization: 0.6}.Plan(c)
	redistest.OK(t, err)
	c.Values[size.BytesReply] *= 1000
	file := filepath.Join(t.TempDir(), "costs.json")
	var text bytes.Buffer
	redistest.OK(t, c.Write(&text))
	redistest.OK(t, os.WriteFile(file, text.Bytes(), 0o600))
	var stdout, stderr bytes.Buffer
	args := strings.Fields("size --players 1000 --actions 1/s --json --constants-file")
	redistest.OK(t, run(t.Context(), append(args, file), &stdout, &stderr))
	var p size.Plan
	if err := json.Unmarshal(stdout.Bytes(), &p); err != nil || p.ToClients < 10*before.ToClients {
		t.Errorf("%v, %v to clients, and %v with other costs", err, before.ToClients, p.ToClients)
	}
	redistest.OK(t, os.WriteFile(file, []byte(`{"costs":{}}`), 0o600))
	for name, want := range map[string]string{file: "is missing", "/nonexistent/costs": "--constants-file", "size_test.go": "--constants-file size_test.go"} {
		if err := run(t.Context(), append(args, name), &stdout, &stderr); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %s", name, err, want)
		}
	}
}
