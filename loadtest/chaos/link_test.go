package chaos

import (
	"net"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"roomd/lockmgr/redistest"
	"roomd/lockmgr/redistest/launch"
)

// A node's connections to an address lead through the network that it was told of, and nowhere without one.
func TestLinks_LeadAllConnections(t *testing.T) {
	server, err := net.Listen("tcp", "127.0.0.1:0")
	redistest.OK(t, err)
	defer server.Close()
	var l links
	defer l.close()
	redistest.OK(t, l.lead([]end{{"redis-1", server.Addr().String()}}))
	name, said, _ := strings.Cut(l.env(), "=")
	redistest.Equal(t, "the variable:", name, linksOf)
	if l.used() == nil {
		t.Error("it is used before anybody has connected")
	}
	dial := dialThrough(said)
	c, err := dial(t.Context(), "tcp", server.Addr().String())
	redistest.OK(t, err)
	defer c.Close()
	redistest.Equal(t, "it leads to", c.RemoteAddr().String(), l.redis[0].proxy.Addr())
	redistest.Until(t, "the network carries the connection", func() bool { return l.used() == nil })
	if c, err := dial(t.Context(), "tcp", "127.0.0.1:1"); err == nil || !strings.Contains(err.Error(), "no network leads to 127.0.0.1:1") {
		t.Errorf("an address without a network: %v, %v", c, err)
	}
}

func TestInEnvironment(t *testing.T) {
	c := inEnvironment(launch.Command{Program: "roomd", Args: func(*launch.Server) ([]string, error) {
		return []string{"--lock-ttl", "1s", "--max-per-address", "off"}, nil
	}})
	args, err := c.Args(nil)
	if want := []string{"ROOMD_LOCK_TTL=1s", "ROOMD_MAX_PER_ADDRESS=off", "roomd"}; err != nil || c.Program != "env" || !slices.Equal(args, want) {
		t.Errorf("%s %q, %v", c.Program, args, err)
	}
}

// Nodes are updated and taken back, while the networks to Redis and Sentinels fail.
func TestRun_UpdatesNodes(t *testing.T) {
	redistest.Thorough(t)
	redistest.Need(t, "redis-server")
	cfg := small()
	cfg.Profile, cfg.Replicas, cfg.Duration, cfg.Faults = Sentinel, 1, 8*time.Second, []string{updateFault.Name, "net-hole"}
	program, err := os.Executable()
	redistest.OK(t, err)
	cfg.OtherProgram, cfg.OtherVersion = program, "itself"
	report, err := Run(t.Context(), cfg)
	redistest.OK(t, err)
	if !report.Consistent() || report.Other != "itself" {
		t.Errorf("%s: %q", report.Verdict, report.Details)
	}
	if !slices.ContainsFunc(report.Faults, func(f FaultReport) bool {
		return strings.Contains(f.On, " is updated") || strings.Contains(f.On, " goes back")
	}) {
		t.Errorf("no node was updated: %+v", report.Faults)
	}
	for _, f := range report.Faults {
		if strings.Contains(f.On, "reaches otherwise") {
			t.Errorf("%s on %s", f.Name, f.On)
		}
	}
}
