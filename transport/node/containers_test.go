package node

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"go.yaml.in/yaml/v4"

	"roomd/lockmgr/redistest"
	"roomd/transport/node/roomdtest"
)

// top is the top of the repository, and deploy what is deployed with.
const (
	top    = "../../"
	deploy = top + "cmd/roomd/deploy/"
)

func read(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(name)
	redistest.OK(t, err)
	return string(text)
}

// find returns the groups of the first match, all of them not empty.
func find(t *testing.T, text, pattern string) []string {
	t.Helper()
	found := regexp.MustCompile("(?m)" + pattern).FindStringSubmatch(text)
	if found == nil || slices.Contains(found, "") {
		t.Fatalf("nothing is like %s", pattern)
	}
	return found[1:]
}

// asNode returns the settings of a node that is started with these arguments in a container, where dir has secrets.
func asNode(t *testing.T, args []string, dir string, secrets []string) config {
	t.Helper()
	here := t.TempDir()
	for i, arg := range args {
		args[i] = strings.Replace(arg, "="+dir+"/", "="+here+"/", 1)
	}
	for _, name := range secrets {
		redistest.OK(t, os.WriteFile(filepath.Join(here, name), []byte(strings.Repeat("x", 32)), 0o600))
	}
	cfg, err := parse(t, args...)
	if err == nil {
		err = validate(cfg)
	}
	if err != nil {
		t.Fatalf("%s: %v", args, err)
	}
	return cfg
}

// checkStop checks that who stops a node waits for the whole drain.
func checkStop(t *testing.T, cfg config, patience time.Duration) {
	t.Helper()
	if patience < cfg.DrainDelay+2*drainTimeout {
		t.Errorf("a node that is stopped gets %v, and may need %v", patience, cfg.DrainDelay+2*drainTimeout)
	}
}

// The image leaves out nothing that git knows: its program would say that it was built with changes.
func TestImage_Ignores(t *testing.T) {
	t.Parallel()
	var rules strings.Builder
	for line := range strings.Lines(read(t, top+".dockerignore")) {
		if !strings.HasPrefix(line, "#") && !strings.HasPrefix(line, "**/") {
			line = "/" + line // as Docker takes it
		}
		rules.WriteString(line)
	}
	file := filepath.Join(t.TempDir(), "rules")
	redistest.OK(t, os.WriteFile(file, []byte(rules.String()), 0o600))
	if _, err := os.Stat(top + ".git"); err != nil {
		t.Skip("this is no clone")
	}
	cmd := exec.CommandContext(t.Context(), "git", "ls-files", "--cached", "--ignored", "--exclude-from="+file)
	cmd.Dir = top
	out, err := cmd.CombinedOutput()
	redistest.OK(t, err)
	redistest.Equal(t, "left out:", string(out), "")
}

// composed is what a compose file says of its containers.
type composed struct {
	Services map[string]struct {
		Image       string
		Build       struct{ Context, Dockerfile string }
		Command     []string
		Entrypoint  []string
		Secrets     []string
		Volumes     []string
		Ports       []string
		Networks    any
		ReadOnly    bool          `yaml:"read_only"`
		CapDrop     []string      `yaml:"cap_drop"`
		SecurityOpt []string      `yaml:"security_opt"`
		StopGrace   time.Duration `yaml:"stop_grace_period"`
		Ulimits     struct{ Nofile int }
	}
	Volumes map[string]any
	Secrets map[string]struct{ File string }
}

// address returns the fixed address of a container.
func (c composed) address(t *testing.T, service string) string {
	t.Helper()
	return find(t, fmt.Sprint(c.Services[service].Networks), `ipv4_address:([\d.]+)`)[0]
}

func readCompose(t *testing.T) (c composed) {
	t.Helper()
	redistest.OK(t, yaml.Unmarshal([]byte(read(t, deploy+"compose/compose.yaml")), &c))
	return c
}

func TestCompose_Nodes(t *testing.T) {
	t.Parallel()
	c, nodes := readCompose(t), 0
	var sentinels []string
	for _, name := range []string{"sentinel1", "sentinel2", "sentinel3"} {
		sentinels = append(sentinels, c.address(t, name)+":26379")
	}
	for name, service := range c.Services {
		if service.Image != "roomd" {
			continue
		}
		nodes++
		cfg := asNode(t, service.Command, "/run/secrets", service.Secrets)
		checkStop(t, cfg, service.StopGrace)
		redistest.Equal(t, "Redis:", cfg.Redis, "redis+sentinel://"+strings.Join(sentinels, ",")+"/mymaster")
		redistest.Equal(t, "trusted:", fmt.Sprint(cfg.TrustProxy), fmt.Sprintf("[%s/32]", c.address(t, "proxy")))
		if service.Ulimits.Nofile < cfg.MaxConnections+2000 {
			t.Errorf("%s: %d files for %d clients", name, service.Ulimits.Nofile, cfg.MaxConnections)
		}
		if !service.ReadOnly || !slices.Contains(service.CapDrop, "ALL") || !slices.Contains(service.SecurityOpt, "no-new-privileges:true") {
			t.Errorf("%s may more than it needs", name)
		}
		for listen, want := range map[string]string{cfg.Listen: ":8080", cfg.AdminListen: ":9090"} {
			redistest.Equal(t, "listens:", listen, want)
		}
		find(t, read(t, deploy+"compose/haproxy.cfg"), `^  server (`+name+` `+name+cfg.Listen+`)$`)
		find(t, read(t, deploy+"compose/prometheus.yaml"), `static_configs: .*"(`+name+cfg.AdminListen+`)"`)
		if _, err := os.Stat(filepath.Join(deploy, "compose", service.Build.Context, service.Build.Dockerfile)); err != nil {
			t.Error(err)
		}
	}
	redistest.Equal(t, "nodes:", nodes, 3)
}

// at returns what is found in a YAML document by a path such as spec.ports.0.port. What is missing fails the test.
func at(t *testing.T, tree any, path string) any {
	t.Helper()
	for step := range strings.SplitSeq(path, ".") {
		switch node := tree.(type) {
		case map[string]any:
			tree = node[step]
		case []any:
			if i, err := strconv.Atoi(step); err == nil && i < len(node) {
				tree = node[i]
			}
		default:
			tree = nil
		}
		if tree == nil {
			t.Fatalf("%s: there is no %s", path, step)
		}
	}
	return tree
}

// texts returns a list of texts.
func texts(t *testing.T, tree any, path string) (all []string) {
	t.Helper()
	for _, one := range at(t, tree, path).([]any) {
		all = append(all, fmt.Sprint(one))
	}
	return all
}

// documents returns those of a YAML file.
func documents(t *testing.T, name string) (all []any) {
	t.Helper()
	for decoder := yaml.NewDecoder(strings.NewReader(read(t, name))); ; {
		var one any
		err := decoder.Decode(&one)
		if errors.Is(err, io.EOF) {
			return all
		}
		redistest.OK(t, err)
		all = append(all, one)
	}
}

// ofKind returns the one object of a kind that Kubernetes is given.
func ofKind(t *testing.T, kind string) any {
	t.Helper()
	for _, object := range documents(t, deploy+"kubernetes/roomd.yaml") {
		if at(t, object, "kind") == kind {
			return object
		}
	}
	t.Fatalf("there is no %s", kind)
	return nil
}

func TestKubernetes_Node(t *testing.T) {
	t.Parallel()
	pod := at(t, ofKind(t, "Deployment"), "spec.template.spec")
	node := at(t, pod, "containers.0")
	args := texts(t, node, "args")
	for _, variable := range texts(t, documents(t, deploy+"kubernetes/kustomization.yaml")[0], "configMapGenerator.0.literals") {
		name, value, _ := strings.Cut(variable, "=") // --lock-ttl is ROOMD_LOCK_TTL
		args = append(args, "--"+strings.ReplaceAll(strings.ToLower(strings.TrimPrefix(name, "ROOMD_")), "_", "-")+"="+value)
	}
	cfg := asNode(t, args, fmt.Sprint(at(t, node, "volumeMounts.0.mountPath")), []string{"auth-secret", "redis-password"})
	checkStop(t, cfg, time.Duration(at(t, pod, "terminationGracePeriodSeconds").(int))*time.Second)
	for i, listen := range []string{cfg.Listen, cfg.AdminListen} {
		redistest.Equal(t, "port:", fmt.Sprint(":", at(t, node, fmt.Sprintf("ports.%d.containerPort", i))), listen)
	}
	redistest.Equal(t, "clients:", at(t, node, "ports.0.name"), any("http"))
	for probe, path := range map[string]string{"startup": "/healthz", "liveness": "/healthz", "readiness": "/readyz"} {
		redistest.Equal(t, probe, fmt.Sprint(at(t, node, probe+"Probe.httpGet")), fmt.Sprintf("map[path:%s port:http]", path))
	}
	if every := time.Duration(at(t, node, "readinessProbe.periodSeconds").(int)) * time.Second; cfg.DrainDelay <= 2*every {
		t.Errorf("a delay of %v is over before two probes", cfg.DrainDelay)
	}
	var limit int // about 20 KiB a player, and as much again
	if _, _ = fmt.Sscanf(fmt.Sprint(at(t, node, "resources.limits.memory")), "%dGi", &limit); limit<<30 < cfg.MaxConnections*40<<10 {
		t.Errorf("%d GiB for %d clients", limit, cfg.MaxConnections)
	}
}

// What the manual has people type is understood.
func TestManual_ThreeNodes(t *testing.T) {
	t.Parallel()
	section := roomdtest.Manual(t, "deploy.md")
	lines := regexp.MustCompile(`(?m)(?:\./roomd|go run \.\./\.\.) (.*?)(?: &|\)| >.*)?$`).FindAllStringSubmatch(section, -1)
	redistest.Equal(t, "lines:", len(lines), 5)
	for _, line := range lines {
		if _, err := parse(t, strings.Fields(strings.ReplaceAll(line[1], "$i", "1"))...); err != nil {
			t.Errorf("%s: %v", line[1], err)
		}
	}
	for _, folder := range regexp.MustCompile(`(?m)^cd (\S+)$|apply -k (\S+)$`).FindAllStringSubmatch(section, -1) {
		if _, err := os.Stat(top + folder[1] + folder[2]); err != nil {
			t.Error(err)
		}
	}
}
