package node

import (
	"errors"
	"fmt"
	goversion "go/version"
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
	redistest.FatalIf(t, found == nil || slices.Contains(found, ""), "nothing is like %s", pattern)
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
	redistest.FatalIf(t, err != nil, "%s: %v", args, err)
	return cfg
}

// checkStop checks that who stops a node waits for the whole drain.
func checkStop(t *testing.T, cfg config, patience time.Duration) {
	t.Helper()
	redistest.ErrorIf(t, patience < cfg.DrainDelay+2*drainTimeout,
		"a node that is stopped gets %v, and may need %v", patience, cfg.DrainDelay+2*drainTimeout)
}

func TestImage_Dockerfile(t *testing.T) {
	t.Parallel()
	file := read(t, deploy+"Dockerfile")
	image, least := find(t, file, `^ARG GO_VERSION=(\S+)$`)[0], find(t, read(t, top+"go.mod"), `^go (\S+)$`)[0]
	redistest.ErrorIf(t, goversion.Compare("go"+image, "go"+least) < 0, "the image has Go %s, go.mod needs %s", image, least)
	built := find(t, file, `^RUN CGO_ENABLED=0 .* go build .* -o (\S+) (\./\S+)$`)
	redistest.OK(t, redistest.Err(os.Stat(top+built[1]+"/main.go")))
	copied := find(t, file, `^COPY --from=build (\S+) (\S+)$`)
	redistest.Equal(t, "copied:", copied[0], built[0])
	redistest.Equal(t, "started:", find(t, file, `^ENTRYPOINT \["([^"]+)"\]$`)[0], copied[1])
	redistest.Equal(t, "signal:", find(t, file, `^STOPSIGNAL (\S+)$`)[0], "SIGTERM")
	if user := find(t, file, `^USER (\d+):(\d+)$`); user[0] == "0" || user[1] == "0" {
		t.Errorf("the user is %s", user)
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
		redistest.ErrorIf(t, service.Ulimits.Nofile < cfg.MaxConnections+2000,
			"%s: %d files for %d clients", name, service.Ulimits.Nofile, cfg.MaxConnections)
		redistest.ErrorIf(t, !service.ReadOnly || !slices.Contains(service.CapDrop, "ALL") ||
			!slices.Contains(service.SecurityOpt, "no-new-privileges:true"),
			"%s may more than it needs", name)
		for listen, want := range map[string]string{cfg.Listen: ":8080", cfg.AdminListen: ":9090"} {
			redistest.Equal(t, "listens:", listen, want)
		}
		find(t, read(t, deploy+"compose/haproxy.cfg"), `^  server (`+name+` `+name+cfg.Listen+`)$`)
		find(t, read(t, deploy+"compose/prometheus.yaml"), `static_configs: .*"(`+name+cfg.AdminListen+`)"`)
		redistest.OK(t, redistest.Err(os.Stat(filepath.Join(deploy, "compose", service.Build.Context,
			service.Build.Dockerfile))))
	}
	redistest.Equal(t, "nodes:", nodes, 3)
}

// The containers find their files, and are reached from this machine alone.
func TestCompose_Files(t *testing.T) {
	t.Parallel()
	c := readCompose(t)
	for name, service := range c.Services {
		for _, volume := range service.Volumes {
			from, _, _ := strings.Cut(volume, ":")
			if _, named := c.Volumes[from]; named {
				continue
			}
			if _, err := os.Stat(filepath.Join(deploy, "compose", from)); err != nil {
				t.Errorf("%s: %v", name, err)
			}
		}
		for _, port := range service.Ports {
			if host, _, _ := strings.Cut(port, ":"); host != "127.0.0.1" {
				t.Errorf("%s is published as %s", name, port)
			}
		}
		for _, secret := range service.Secrets {
			redistest.ErrorIf(t, c.Secrets[secret].File != "secrets/"+secret,
				"%s wants the secret %s, which is %q", name, secret, c.Secrets[secret].File)
		}
	}
	for _, name := range []string{"prometheus.yaml", "grafana.yaml", "grafana-dashboards.yaml"} {
		redistest.OK(t, yaml.Unmarshal([]byte(read(t, deploy+"compose/"+name)), &map[string]any{}))
	}
	prometheus, grafana := read(t, deploy+"compose/prometheus.yaml"), c.Services["grafana"]
	find(t, prometheus, `job_name: (roomd)$`)
	find(t, prometheus, `credentials_file: /run/secrets/(`+c.Services["prometheus"].Secrets[0]+`)}`)
	find(t, strings.Join(c.Services["prometheus"].Volumes, "\n"),
		`alerts.yml:(`+find(t, prometheus, `rule_files: \[(.*)\]`)[0]+`):ro`)
	swap := find(t, strings.Join(grafana.Entrypoint, " "), `sed 's/\$\$({\w+})/(\w+)/'`)
	find(t, read(t, deploy+"grafana-dashboard.json"), `"uid": "(\$`+swap[0]+`)"`)
	find(t, read(t, deploy+"compose/grafana.yaml"), `uid: (`+swap[1]+`),`)
}

// The proxy asks for what a node serves, and bears the silence between two pings.
func TestCompose_Proxy(t *testing.T) {
	t.Parallel()
	file := read(t, deploy+"compose/haproxy.cfg")
	redistest.Equal(t, "probe:", find(t, file, `^  option httpchk GET (\S+)$`)[0], "/readyz")
	silence, err := time.ParseDuration(find(t, file, `^  timeout tunnel (\S+)$`)[0])
	cfg, wrong := parse(t)
	redistest.OK(t, errors.Join(err, wrong))
	redistest.ErrorIf(t, silence <= 2*cfg.PingInterval, "the proxy cuts off who is silent for %v", silence)
	find(t, file, `^  http-request set-header (X-Forwarded-For) %\[src\]$`)
	for _, part := range regexp.MustCompile(`(?m)^  log-format "(.*)"$`).FindAllStringSubmatch(file, -1) {
		for field := range strings.FieldsSeq(part[1]) {
			redistest.ErrorIf(t, !slices.Contains([]string{"%ci", "%b/%s", "%ST", "%Tt", "%HM", "%HP"}, field),
				"the log has %s: can that have a token?", field)
		}
	}
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
		redistest.FatalIf(t, tree == nil, "%s: there is no %s", path, step)
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
	for _, variable := range texts(t, documents(t, deploy+"kubernetes/kustomization.yaml")[0],
		"configMapGenerator.0.literals") {
		name, value, _ := strings.Cut(variable, "=") // --lock-ttl is ROOMD_LOCK_TTL
		args = append(args, "--"+strings.ReplaceAll(strings.ToLower(strings.TrimPrefix(name, "ROOMD_")), "_", "-")+
			"="+value)
	}
	cfg := asNode(t, args, fmt.Sprint(at(t, node, "volumeMounts.0.mountPath")),
		[]string{"auth-secret", "redis-password"})
	checkStop(t, cfg, time.Duration(at(t, pod, "terminationGracePeriodSeconds").(int))*time.Second)
	for i, listen := range []string{cfg.Listen, cfg.AdminListen} {
		redistest.Equal(t, "port:", fmt.Sprint(":", at(t, node, fmt.Sprintf("ports.%d.containerPort", i))), listen)
	}
	redistest.Equal(t, "clients:", at(t, node, "ports.0.name"), any("http"))
	for probe, path := range map[string]string{"startup": "/healthz", "liveness": "/healthz", "readiness": "/readyz"} {
		redistest.Equal(t, probe, fmt.Sprint(at(t, node, probe+"Probe.httpGet")),
			fmt.Sprintf("map[path:%s port:http]", path))
	}
	if every := time.Duration(at(t, node, "readinessProbe.periodSeconds").(int)) * time.Second; cfg.DrainDelay <= 2*every {
		t.Errorf("a delay of %v is over before two probes", cfg.DrainDelay)
	}
	var limit int // about 20 KiB a player, and as much again
	if _, _ = fmt.Sscanf(fmt.Sprint(at(t, node, "resources.limits.memory")), "%dGi",
		&limit); limit<<30 < cfg.MaxConnections*40<<10 {
		t.Errorf("%d GiB for %d clients", limit, cfg.MaxConnections)
	}
}

func TestKubernetes_Rights(t *testing.T) {
	t.Parallel()
	pod := at(t, ofKind(t, "Deployment"), "spec.template.spec")
	user := find(t, read(t, deploy+"Dockerfile"), `^USER (\d+):\d+$`)[0]
	for path, want := range map[string]any{
		"securityContext.runAsNonRoot": true, "securityContext.seccompProfile.type": "RuntimeDefault",
		"automountServiceAccountToken": false, "enableServiceLinks": false,
		"containers.0.securityContext.allowPrivilegeEscalation": false,
		"containers.0.securityContext.readOnlyRootFilesystem":   true,
		"containers.0.securityContext.capabilities.drop.0":      "ALL",
	} {
		redistest.Equal(t, path, at(t, pod, path), want)
	}
	redistest.Equal(t, "user:", fmt.Sprint(at(t, pod, "securityContext.runAsUser")), user)
}

// What selects the nodes selects those, and names are those of what there is.
func TestKubernetes_Names(t *testing.T) {
	t.Parallel()
	deployment, custom := ofKind(t, "Deployment"), documents(t, deploy+"kubernetes/kustomization.yaml")[0]
	template := at(t, deployment, "spec.template")
	labels := fmt.Sprint(at(t, template, "metadata.labels"))
	for i := range 2 {
		redistest.Equal(t, "spread:", fmt.Sprint(at(t, template,
			fmt.Sprintf("spec.topologySpreadConstraints.%d.labelSelector.matchLabels", i))), labels)
	}
	redistest.Equal(t, "Deployment:", fmt.Sprint(at(t, deployment, "spec.selector.matchLabels")), labels)
	redistest.Equal(t, "Service:", fmt.Sprint(at(t, ofKind(t, "Service"), "spec.selector")), labels)
	redistest.Equal(t, "target:", at(t, ofKind(t, "Service"), "spec.ports.0.targetPort"),
		at(t, template, "spec.containers.0.ports.0.name"))
	budget := ofKind(t, "PodDisruptionBudget")
	redistest.Equal(t, "budget:", fmt.Sprint(at(t, budget, "spec.selector.matchLabels")), labels)
	redistest.Equal(t, "away at once:", at(t, budget, "spec.maxUnavailable"), any(1))
	redistest.Equal(t, "image:", at(t, template, "spec.containers.0.image"), at(t, custom, "images.0.name"))
	redistest.Equal(t, "variables:", at(t, template, "spec.containers.0.envFrom.0.configMapRef.name"),
		at(t, custom, "configMapGenerator.0.name"))
	redistest.Equal(t, "volume:", at(t, template, "spec.containers.0.volumeMounts.0.name"),
		at(t, template, "spec.volumes.0.name"))
	redistest.Equal(t, "namespace:", at(t, custom, "namespace"), at(t, ofKind(t, "Namespace"), "metadata.name"))
}

func TestRelease_Files(t *testing.T) {
	t.Parallel()
	release := documents(t, top+".goreleaser.yaml")[0]
	var programs []string
	for _, build := range at(t, release, "builds").([]any) {
		main := fmt.Sprint(at(t, build, "main"))
		redistest.Equal(t, "program:", at(t, build, "binary"), any(filepath.Base(main)))
		redistest.OK(t, redistest.Err(os.Stat(top+main+"/main.go")))
		redistest.Equal(t, "static:", at(t, build, "env.0"), any("CGO_ENABLED=0"))
		programs = append(programs, fmt.Sprint(filepath.Base(main), at(t, build, "goos"), at(t, build, "goarch")))
	}
	// roomload stops and continues processes, which Windows cannot.
	redistest.Equal(t, "programs:", strings.Join(programs, " "),
		"roomd[linux darwin windows] [amd64 arm64] roomload[linux darwin] [amd64 arm64]")
	for _, name := range texts(t, release, "archives.0.files") {
		if found, err := filepath.Glob(top + name); err != nil || found == nil {
			t.Errorf("there is no %s (%v)", name, err)
		}
	}
	at(t, release, "sboms.0.artifacts")
	redistest.Equal(t, "sums:", at(t, release, "checksum.algorithm"), any("sha256"))
}

// What the manual has people type is understood.
func TestManual_ThreeNodes(t *testing.T) {
	t.Parallel()
	section := roomdtest.Manual(t, "deploy.md")
	lines := regexp.MustCompile(`(?m)(?:\./roomd|go run \.\./\.\.) (.*?)(?: &|\)| >.*)?$`).FindAllStringSubmatch(
		section, -1)
	redistest.Equal(t, "lines:", len(lines), 5)
	for _, line := range lines {
		if _, err := parse(t, strings.Fields(strings.ReplaceAll(line[1], "$i", "1"))...); err != nil {
			t.Errorf("%s: %v", line[1], err)
		}
	}
	for _, folder := range regexp.MustCompile(`(?m)^cd (\S+)$|apply -k (\S+)$`).FindAllStringSubmatch(section, -1) {
		redistest.OK(t, redistest.Err(os.Stat(top+folder[1]+folder[2])))
	}
}
