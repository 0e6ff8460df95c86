package node

import (
	"bytes"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"roomd/lockmgr/redistest"
	"roomd/room"
)

// What operators find, and that neither arguments nor keys are among it.
func TestAdmin_Pages(t *testing.T) {
	t.Parallel()
	n, log := startNode(t, "--listen", "127.0.0.1:0", "--admin-listen", "127.0.0.1:0", "--auth-secret", secret, "--log-level", "debug")
	base := "http://" + n.AdminAddr()
	for path, want := range map[string]struct {
		status int
		has    string
	}{
		"/":                                  {200, "/metrics"},
		"/healthz":                           {200, "ok"},
		"/metrics":                           {200, `roomd_config_info{auth="secret"`},
		"/debug/pprof/":                      {200, "goroutine"},
		"/debug/pprof/heap":                  {200, ""},
		"/debug/pprof/goroutine?debug=1":     {200, "roomd/transport/node"},
		"/debug/pprof/profile?seconds=1":     {200, ""},
		"/debug/pprof/cmdline":               {404, "Unknown profile"},
		"/nothing":                           {404, ""},
		"/metrics?name[]=roomd_ready&seed=1": {200, "roomd_ready 1"},
	} {
		if status, body := get(t, base+path); status != want.status || !strings.Contains(body, want.has) || strings.Contains(body, secret) {
			t.Errorf("%s: %d %.300s", path, status, body)
		}
	}
	if text := log(); !strings.Contains(text, "operators look at "+base+"/admin; metrics and profiles are at "+base) || strings.Contains(text, secret) {
		t.Errorf("the log:\n%s", text)
	}
}

func TestAdmin_UnusableAddress(t *testing.T) {
	t.Parallel()
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	redistest.OK(t, err)
	defer taken.Close()
	for args, want := range map[string]struct {
		code int
		says string
	}{
		"--admin-listen 0.0.0.0:0":                           {exitWrongUse, "--admin-listen 0.0.0.0:0 can be reached from other machines"},
		"--admin-listen :0 --insecure":                       {exitWrongUse, "--admin-listen :0 can be reached"},
		"--admin-listen 127.0.0.1":                           {exitWrongUse, "--admin-listen is not host:port"},
		"--admin-listen " + taken.Addr().String():            {exitFailed, "address already in use"},
		"--admin-listen 127.0.0.1:0 --redis redis://[::1]:1": {exitFailed, "does not answer"},
	} {
		start := time.Now()
		var stderr bytes.Buffer
		if code := command(room.Rules{}, strings.Fields("--listen 127.0.0.1:0 "+args), io.Discard, &stderr); code != want.code || !strings.Contains(stderr.String(), want.says) {
			t.Errorf("%s: exit code %d after %v: %s", args, code, time.Since(start), &stderr)
		}
	}
}
