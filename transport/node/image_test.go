//go:build unix

package node

import (
	"bufio"
	"bytes"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"roomd/lockmgr/redistest"
	"roomd/transport/node/roomdtest"
)

// The program of the image needs nothing beside it: in a folder that has only it, as a user without rights and with no
// environment, it says its version, checks its settings, and is a node that is well and drains.
func TestImage_ProgramAlone(t *testing.T) {
	t.Parallel()
	redistest.Thorough(t)
	if os.Getuid() != 0 {
		t.Skip("only root can give a program another root")
	}
	root, err := os.MkdirTemp("", "roomd-image") // that of the test, a user without rights cannot enter
	redistest.OK(t, err)
	t.Cleanup(func() { os.RemoveAll(root) })
	redistest.OK(t, os.Chmod(root, 0o755))
	build := exec.CommandContext(t.Context(), "go", "build", "-o", filepath.Join(root, "roomd"), "../../cmd/roomd")
	build.Env = append(os.Environ(), "CGO_ENABLED=0", "GOFLAGS=")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	redistest.OK(t, os.WriteFile(filepath.Join(root, "secret"), []byte(strings.Repeat("x", 32)), 0o644))
	inside := func(args ...string) *exec.Cmd {
		cmd := exec.CommandContext(t.Context(), "/roomd", args...)
		cmd.Env, cmd.Dir = []string{}, "/"
		cmd.SysProcAttr = &syscall.SysProcAttr{Chroot: root, Credential: &syscall.Credential{Uid: 65532, Gid: 65532}}
		return cmd
	}
	if out, err := inside("--version").CombinedOutput(); err != nil || !strings.HasPrefix(string(out), "roomd ") {
		t.Errorf("--version: %v, %s", err, out)
	}
	addr := roomdtest.FreeAddr(t)
	flags := []string{"--listen", addr, "--auth-secret-file", "/secret", "--redis", redistest.Start(t).URL(),
		"--log-format", "json"}
	if out, err := inside(append([]string{"check"}, flags...)...).CombinedOutput(); err != nil {
		t.Errorf("check: %v\n%s", err, out)
	}
	node := inside(flags...)
	log, err := node.StderrPipe()
	redistest.OK(t, err)
	redistest.OK(t, node.Start())
	lines := bufio.NewScanner(log)
	for lines.Scan() && !bytes.Contains(lines.Bytes(), []byte("ready: connect to")) {
	}
	client := http.Client{Timeout: 20 * time.Second}
	for _, path := range []string{"/healthz", "/readyz"} {
		answer, err := client.Get("http://" + addr + path)
		redistest.OK(t, err)
		answer.Body.Close()
		redistest.Equal(t, path, answer.StatusCode, http.StatusOK)
	}
	client.CloseIdleConnections()
	redistest.OK(t, node.Process.Signal(syscall.SIGTERM))
	_, _ = io.Copy(io.Discard, log)
	redistest.OK(t, node.Wait())
}

// startContainer runs what a container of Redis or a Sentinel runs, and returns a client of it.
func startContainer(t *testing.T, port, masterPort string, args ...string) *redis.Client {
	t.Helper()
	password := strings.Repeat("x", 32)
	secrets := t.TempDir()
	redistest.OK(t, os.WriteFile(filepath.Join(secrets, "redis-password"), []byte(password+"\n"), 0o600))
	cmd := exec.Command("sh", append([]string{deploy + "compose/redis.sh"}, args...)...)
	cmd.Env = append(os.Environ(), "SECRETS="+secrets, "DATA="+t.TempDir(), "PORT="+port, "MASTER_PORT="+masterPort)
	redistest.OK(t, cmd.Start())
	t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
	if args[0] == "sentinel" {
		password = ""
	}
	client := redis.NewClient(&redis.Options{Addr: "127.0.0.1:" + port, Password: password})
	t.Cleanup(func() { client.Close() })
	redistest.Until(t, "it answers", func() bool { return client.Ping(t.Context()).Err() == nil })
	return client
}

// A replica follows its master, and a Sentinel knows both, by the addresses that they were given.
func TestCompose_Redis(t *testing.T) {
	t.Parallel()
	redistest.Thorough(t)
	redistest.Need(t, "redis-server")
	var ports []string
	for range 3 {
		_, port, _ := net.SplitHostPort(roomdtest.FreeAddr(t))
		ports = append(ports, port)
	}
	const own = "127.0.0.1"
	master := startContainer(t, ports[0], "", "server", own)
	startContainer(t, ports[1], ports[0], "server", own, own)
	sentinel := redis.NewSentinelClient(startContainer(t, ports[2], ports[0], "sentinel", own, own).Options())
	t.Cleanup(func() { sentinel.Close() })
	redistest.Until(t, "the replica is in step", func() bool {
		return strings.Contains(master.Info(t.Context(), "replication").Val(),
			"slave0:ip=127.0.0.1,port="+ports[1]+",state=online")
	})
	redistest.Until(t, "the Sentinel knows both", func() bool {
		known := sentinel.Master(t.Context(), "mymaster").Val()
		return known["port"] == ports[0] && known["num-slaves"] == "1" && known["flags"] == "master"
	})
	redistest.Equal(t, "evicts:", master.ConfigGet(t.Context(), "maxmemory-policy").Val()["maxmemory-policy"],
		"noeviction")
}
