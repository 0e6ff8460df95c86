package node

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"roomd/lockmgr/redistest"
	"roomd/room"
)

// settingsFile writes a file of settings, and returns its path.
func settingsFile(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "roomd.yaml")
	redistest.OK(t, os.WriteFile(path, []byte(text), 0o600))
	return path
}

// A flag counts before a variable, that before the file, and the file before the default.
func TestConfig_Precedence(t *testing.T) {
	path := settingsFile(t, "rate: 5\nburst: 6\nmax-rooms: 7\nallow-origin: [https://file.example]\n")
	t.Setenv("ROOMD_BURST", "16")
	t.Setenv("ROOMD_MAX_ROOMS", "17")
	t.Setenv("ROOMD_CONFIG", path)
	cfg, err := parse(t, "--max-rooms", "27")
	if err != nil || cfg.Rate != 5 || cfg.Burst != 16 || cfg.MaxRooms != 27 || cfg.MaxBatch != 256 ||
		fmt.Sprint(cfg.AllowOrigin) != "[https://file.example]" {
		t.Errorf("%+v, %v", cfg, err)
	}
	want := map[string]string{"rate": path + ":1", "burst": "ROOMD_BURST", "max-rooms": "the command line",
		"allow-origin": path + ":4", "config": "ROOMD_CONFIG"}
	redistest.ErrorIf(t, fmt.Sprint(cfg.file.origins) != fmt.Sprint(want),
		"from %v, want %v", cfg.file.origins, want)
	t.Setenv("ROOMD_BURST", "0") // of a value that does not count the file says nothing
	if _, err := parse(t); err == nil || strings.Contains(err.Error(), path) {
		t.Error(err)
	}
	other := settingsFile(t, "rate: 9\n")
	if cfg, err = parse(t, "--burst", "1", "--config", other); err != nil || cfg.Rate != 9 {
		t.Errorf("the flag names another file: rate %v, %v", cfg.Rate, err)
	}
}

// A value is the text that the flag would have: YAML makes nothing else of it.
func TestConfig_Values(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"rate: off":                           "--rate=off",
		"rate: \"off\"":                       "--rate=off",
		"rate: 20/s":                          "--rate=20/s",
		"\ufeffrate: 20":                      "--rate=20/s",
		"max-per-address: off":                "--max-per-address=off",
		"lock-ttl: 4s":                        "--lock-ttl=4s --node-ttl=5s",
		"max-frame: 32KiB":                    "--max-frame=32768",
		"max-frame: 32 KiB # half of it":      "--max-frame=32768",
		"insecure: yes":                       "--insecure=true",
		"insecure: true":                      "--insecure=true",
		"trust-proxy: [10.0.0.0/8, fd00::/8]": "--trust-proxy=10.0.0.0/8,fd00::/8",
		"trust-proxy:\n- 10.0.0.1\n":          "--trust-proxy=10.0.0.1/32",
		"allow-origin: ['*', \"null\"]":       "--allow-origin='*,null'",
		"auth-issuer: 2026-01-02\nauth-secret: 01234567890123456789012345678901": "--auth-secret='(secret)' --auth-issuer=2026-01-02",
		"auth-issuer: &":          "",
		"allow-origin: []":        "",
		"{rate: 30, burst: 3}":    "--rate=30/s --burst=3",
		"":                        "",
		"# nothing\n":             "",
		"---\n...\n":              "",
		"---\nburst: 3\n":         "--burst=3",
		"burst: 3\r\nrate: 4\r\n": "--rate=4/s --burst=3",
	} {
		path := settingsFile(t, text)
		cfg, err := parse(t, "--config", path)
		if want == "" && strings.HasSuffix(text, "&") {
			redistest.ErrorIf(t, err == nil, "%q is accepted", text)
			continue
		}
		if err != nil {
			t.Errorf("%q: %v", text, err)
			continue
		}
		all := settings(cfg, "")
		want = strings.TrimSpace(strings.Replace(want, " --node-ttl=5s", "", 1) + " --config=" + path)
		if got := inForce(all, false); got != want {
			t.Errorf("%q: %s, want %s", text, got, want)
		}
		redistest.ErrorIf(t, len(cfg.file.origins) != strings.Count(want, "--"), "%q: origins %v", text, cfg.file.origins)
	}
}

// What is wrong in a file is said in one line, with its name, the line and the key.
func TestConfig_Wrong(t *testing.T) {
	t.Parallel()
	bomb := "auth-issuer: &a [x, x]\nallow-origin: [*a, *a, *a]\n"
	for text, want := range map[string][]string{
		"rate: 5\nspeed: 3":               {":2: ", `"speed" is no setting`},
		"rate: 5\nmax_rooms: 3":           {":2: ", "such as max-rooms"},
		"--rate: 5":                       {":1: ", `"--rate" is no setting`},
		"Rate: 5":                         {":1: ", `"Rate" is no setting`},
		"rate: 5\nburst: 6\nrate: 5":      {":3: ", "rate stands at ", ":1 already"},
		"\n\nburst: many":                 {":3: ", "--burst"},
		"burst: 0":                        {":1: ", "--burst is 0"},
		"rate: 5\nburst: 99999999":        {":2: ", "--burst must be at most"},
		"log-level: loud":                 {":1: ", "--log-level"},
		"burst: 5\nlock-ttl: 1ms":         {":2: ", "--lock-ttl"},
		"burst: [5]":                      {":1: ", "burst must have a single value"},
		"burst: {a: 5}":                   {":1: ", "burst must have a single value"},
		"burst:":                          {":1: ", "burst must have a single value"},
		"burst: ~":                        {":1: ", "burst must have a single value"},
		"burst: ''":                       {":1: ", "--burst"},
		"burst: !!int 5":                  {":1: ", "burst has", "tag"},
		"allow-origin: https://a.example": {":1: ", "allow-origin must be a list"},
		"allow-origin:\n- https://a.example\n- [x]": {":2: ", "allow-origin"},
		"rate: 1\nallow-origin: [a]":                {":2: ", "--allow-origin"},
		"trust-proxy: [10.0.0.1/8]":                 {":1: ", "--trust-proxy"},
		"webhook: [ftp://game.example]":             {":1: ", "--webhook"},
		"insecure: perhaps":                         {":1: ", "--insecure"},
		"config: other.yaml":                        {":1: ", `"config" is no setting`},
		"user: a":                                   {":1: ", `"user" is no setting`},
		"help: true":                                {":1: ", `"help" is no setting`},
		"1: 2":                                      {":1: ", `"1" is no setting`},
		"[rate]: 5":                                 {":1: ", "is no setting"},
		"<<: {rate: 5}":                             {":1: ", `"<<" is no setting`},
		"rate":                                      {":1: ", "settings are lines such as"},
		"- rate: 5":                                 {":1: ", "settings are lines such as"},
		"rate: 5\n---\nburst: 5":                    {":2: ", "in one document"},
		"rate: 5\n}":                                {":2: ", "not YAML"},
		"rate: 5\n\tburst: 5":                       {":2: ", "not YAML"},
		"rate: \x00":                                {":1: ", "not YAML"},
		bomb:                                        {":1: ", "auth-issuer has an anchor"},
		"burst: &a 5\nmax-rooms: *a":                {":1: ", "burst has an anchor"},
		"auth-secret: *hidden":                      {":1: ", "needs quotes"},
		"auth-secret: [hidden]":                     {":1: ", "auth-secret must have a single value"},
		"auth-secret: hidden":                       {":1: ", "--auth-secret: the secret has 6 bytes"},
		"redis: redis://u:hidden@h:port":            {":1: ", "--redis"},
		strings.Repeat("[", 100_000):                {":1: ", "not YAML"},
		"capacity: 4\ngrace: 3s\nlisten: 0.0.0.0:1": {":3: ", "--listen"},
		"webhook: [https://a.example/hidden]":       {":1: ", "--webhook needs"},
	} {
		path := settingsFile(t, text)
		err := parseAndValidate(t, "--config", path)
		if err == nil {
			t.Errorf("%.50q is accepted", text)
			continue
		}
		redistest.ErrorIf(t, exitCode(err) != exitWrongUse || strings.Contains(err.Error(), "\n") ||
			strings.Contains(err.Error(), "hidden"),
			"%.50q: exit code %d, more than a line, or a secret: %v", text, exitCode(err), err)
		want[0] = path + want[0]
		for _, part := range want {
			redistest.ErrorIf(t, !strings.Contains(err.Error(), part), "%.50q: no %q in %v", text, part, err)
		}
	}
}

// A file that cannot be read may be otherwise next time: 1.
func TestConfig_Unreadable(t *testing.T) {
	t.Parallel()
	for path, want := range map[string]string{
		filepath.Join(t.TempDir(), "none"): "no such file", t.TempDir(): "is a directory",
		settingsFile(t, strings.Repeat("# more\n", 1<<18)): "longer than 1 MiB",
	} {
		for _, args := range [][]string{{"serve"}, {"check"}, {"token", "--user", "a", "--auth-secret", secret}} {
			var stderr strings.Builder
			code := command(room.Rules{}, append(args, "--config", path), io.Discard, &stderr)
			redistest.ErrorIf(t, code != exitFailed || !strings.Contains(stderr.String(), "--config: "+path+": ") ||
				!strings.Contains(stderr.String(), want),
				"%v %s: exit code %d, %s", args, path, code, &stderr)
		}
	}
}

// Each command that has a node's flags takes what it needs of a node's file.
func TestConfig_Commands(t *testing.T) {
	t.Parallel()
	key := writeFile(t, secret)
	path := settingsFile(t, "grace: 7s\nauth-secret-file: "+key+"\nauth-audience: game\n")
	var token, stderr strings.Builder
	if code := command(room.Rules{}, []string{"token", "--config", path, "--user", "a"}, &token,
		&stderr); code != 0 || strings.Count(token.String(), ".") != 2 {
		t.Errorf("token: exit code %d, %q, %s", code, &token, &stderr)
	}
	lines := check(t, 0, "--config", path, "--burst", "7")
	wantLine(t, lines, levelOK, "keys", "--auth-secret-file")
	wantLine(t, lines, levelOK, "setting", "--grace=7s, from "+path+":1")
	wantLine(t, lines, levelOK, "setting", "--burst=7, from the command line")
}

// A secret in a file that everybody can read is reported.
func TestConfig_Exposed(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]bool{
		"auth-secret: " + secret: true, "redis: redis://u:p@127.0.0.1:1": true,
		"redis: redis://127.0.0.1:1?password=x":  true,
		"redis: redis+sentinel://a:1,b:2/master": false, "rate: 5": false, "webhook: []": false,
	} {
		path := settingsFile(t, text)
		for mode, exposed := range map[os.FileMode]bool{0o600: false, 0o640: false, 0o644: want} {
			redistest.OK(t, os.Chmod(path, mode))
			cfg, err := parse(t, "--config", path)
			redistest.OK(t, err)
			if got := cfg.file.exposed != ""; got != exposed {
				t.Errorf("%s, mode %o: %v", text, mode, got)
			}
		}
	}
	path := settingsFile(t, "auth-secret: "+secret)
	redistest.OK(t, os.Chmod(path, 0o644))
	wantLine(t, check(t, 0, "--config", path), levelWarn, "config", "auth-secret")
}

// The example parses, also with all that it shows.
func TestConfig_Example(t *testing.T) {
	t.Parallel()
	for _, text := range []string{read(t, deploy+"roomd.yaml"),
		regexp.MustCompile(`(?m)^#(\S+:|  - )`).ReplaceAllString(read(t, deploy+"roomd.yaml"), "$1")} {
		cfg, err := parse(t, "--config", settingsFile(t, text))
		redistest.ErrorIf(t, err != nil || cfg.Listen != ":8080" || cfg.DrainDelay != 5*time.Second,
			"%v\n%s", err, text)
	}
}
