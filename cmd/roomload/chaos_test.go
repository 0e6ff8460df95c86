package main

import (
	"bytes"
	"strings"
	"testing"
	"time"

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

func TestChaos_Progress(t *testing.T) {
	var b bytes.Buffer
	show := newChaosProgress(&b)
	show(chaos.Progress{Phase: "players come", Changed: true})
	show(chaos.Progress{Phase: "players come", Elapsed: time.Second})
	show(chaos.Progress{Phase: "node-kill", Changed: true, Elapsed: 2 * time.Second, Actions: 7, Problems: 1})
	if got := strings.Count(b.String(), "\n"); got != 2 || !strings.Contains(b.String(), "7 actions") || !strings.Contains(b.String(), "1 PROBLEMS") {
		t.Errorf("%s", &b)
	}
}
