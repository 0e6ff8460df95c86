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
	show(0, true, "players come")
	show(time.Second, false, "players come, 5 actions")
	show(2*time.Second, true, "node-kill, 7 actions")
	done()
	if got := b.String(); got != "players come\nnode-kill, 7 actions\n" {
		t.Errorf("%s", got)
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
