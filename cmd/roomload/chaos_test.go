package main

import (
	"bytes"
	"slices"
	"strings"
	"testing"
	"time"

	"roomd/loadtest"
	"roomd/loadtest/chaos"
)

func TestChaos_HelpNamesAllFaults(t *testing.T) {
	help := new(chaosCmd).Help()
	for _, f := range chaos.Faults {
		if !strings.Contains(help, "  "+f.Name+" ") {
			t.Errorf("%s is not in the help", f.Name)
		}
	}
}

// Where there is no terminal, a line for each phase.
func TestStatus(t *testing.T) {
	var b bytes.Buffer
	show, done := newStatus(&b)
	for _, p := range []chaos.Progress{
		{Phase: "players come", Changed: true}, {Phase: "players come", Elapsed: time.Second},
		{Phase: "node-kill", Changed: true, Elapsed: 2 * time.Second, Actions: 7, Problems: 1},
	} {
		show(p.Elapsed, p.Changed, p.String())
	}
	done()
	if got := strings.Count(b.String(), "\n"); got != 2 || !strings.Contains(b.String(), "7 actions") ||
		!strings.Contains(b.String(), "1 PROBLEMS") {
		t.Errorf("%s", &b)
	}
}

// all and none stand for names, in both commands.
func TestMix(t *testing.T) {
	for _, test := range []struct{ given, want []string }{
		{[]string{"all"}, loadtest.MixNames}, {[]string{"none"}, nil}, {[]string{"say"}, []string{"say"}},
	} {
		if got := loadtest.ExpandMix(test.given); !slices.Equal(got, test.want) {
			t.Errorf("%q: %q", test.given, got)
		}
	}
}
