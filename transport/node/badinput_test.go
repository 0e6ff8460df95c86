package node

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/alecthomas/kong"

	"roomd/lockmgr/redistest"
	"roomd/transport/internal/reload"
)

// validate finds what can be wrong with a configuration by itself.
func validate(cfg config) error {
	parts, err := nodeConfig(cfg, slog.New(slog.DiscardHandler))
	if err != nil {
		return err
	}
	defer parts.Redis.Close()
	return inFlags(parts.Validate())
}

// badValues are values that a flag of that type must not have, whatever it is for.
func badValues(flag *kong.Flag) []string {
	switch flag.Target.Interface().(type) {
	case time.Duration:
		return []string{"", "-1s", "soon", "5", "1e3s", "9999999999h"}
	case int:
		return []string{"", "-1", "many", "1.5", "99999999999999999999"}
	case size:
		return []string{"", "-1", "0", "much", "1TiB", "9999999999GiB"}
	case limit, rate:
		return []string{"", "-1", "0", "many", "1.5", "99999999999", "off/s"}
	case bool:
		return []string{"", "perhaps"}
	}
	if flag.Enum != "" {
		return []string{"", "nonsense"}
	}
	return nil
}

// moreBadValues are those of single flags. A flag of text must be here, if only with nothing.
var moreBadValues = map[string][]string{
	"listen":           {"", "127.0.0.1", "127.0.0.1:http:x", "0.0.0.0:8080", "[::]:8080", ":8080"},
	"redis":            {"", "redis", "http://127.0.0.1", "redis://127.0.0.1:port", "redis+sentinel://127.0.0.1:1", "redis+cluster://127.0.0.1:1/3"},
	"allow-origin":     {"game.example", "https://game.example/table", "https://"},
	"auth-secret":      {"", "short"},
	"auth-secret-file": {"", "/nowhere/secret", "."},
	"auth-public-key":  {"", "/nowhere/key", "."},
	"auth-jwks":        {"", "/nowhere/keys", "."},
	"auth-audience":    {"alone"},
	"auth-issuer":      {"alone"},
	"key-prefix":       {"eu", "{eu}:"},
	"lock-ttl":         {"0s", "1us", "1500us", "4ms", "10s --node-ttl 5s"},
	"lock-poll":        {"0s", "3s", "16s --lock-ttl 20s --node-ttl 20s"},
	"lock-wait":        {"0s"},
	"node-ttl":         {"1s"},
	"max-batch":        {"0"},
	"ping-interval":    {"100ms"},
	"journal":          {"-1", "1000001", "x", ""},
	"feed":             {"1", "100000001 --journal 10"},
	"max-rooms":        {"0"},
	"webhook":          {"game.example", "ftp://game.example", "https://u:p@game.example", "https://game.example#x=1", "https://game.example#kinds=no"},

	"webhook-secret-file": {"alone"},
	"webhook-timeout":     {"0s", "2m"},
	"burst":               {"0", "2000000"},
	"rate":                {"2000000", "5/m", "0.5"},
	"max-frame":           {"100", "1GiB"},
	"max-member-data":     {"0", "2MiB"},
	"max-room-data":       {"0", "2MiB"},
	"max-message":         {"0", "2MiB"},
	"max-private-data":    {"0", "2MiB"},
	"trust-proxy":         {"proxy", "10.0.0.1/8", "10.0.0.0/33", "fe80::1%eth0", "10.0.0.0/8,,"},
	"admin-listen":        {"127.0.0.1", "0.0.0.0:9090", ":9090"},
	"tls-cert":            {"alone"},
	"tls-key":             {"alone"},
	"redis-cert":          {"alone"},
	"redis-key":           {"alone"},
	"redis-ca":            {"alone"},

	"redis-password-file":          {"/nowhere/password"},
	"redis-sentinel-password-file": {"/nowhere/password"},
	"max-connections":              {"0"},
	"capacity":                     {"70000"},
	"match-settings":               {"4", "{}", `[{"seats":4}]`, `[{"capacity":70000}]`, `[{"data":"all"}]`, `[{"keep":true}]`, `[{"default":true}]`, `[{"labels":{"a":1}}]`, "@/nowhere/settings"},
	"config":                       {"", "/nowhere/config", "."},
}

// wantCode is 2 for flags, and 1 for what a file holds: that may be otherwise next time.
func wantCode(err error) int {
	if errors.As(err, new(*reload.FileError)) {
		return exitFailed
	}
	return exitWrongUse
}

// Each flag of a node refuses what it cannot use with one line that names it, as an argument and
// as a variable, before anything is started.
func TestFlags_BadValues(t *testing.T) {
	for _, flag := range flags(t, "serve") {
		more, known := moreBadValues[flag.Name]
		if flag.Target.Kind() != reflect.Bool && !known && len(badValues(flag)) == 0 {
			t.Errorf("--%s: the test knows no bad value of it", flag.Name)
		}
		for _, value := range append(badValues(flag), more...) {
			value, rest, _ := strings.Cut(value, " ")
			check := func(how string, err error) {
				t.Helper()
				switch {
				case err == nil:
					t.Errorf("%s is accepted", how)
				case exitCode(err) != wantCode(err):
					t.Errorf("%s: exit code %d: %v", how, exitCode(err), err)
				case !strings.Contains(err.Error(), "--"+flag.Name) || strings.Contains(err.Error(), "\n"):
					t.Errorf("%s: not one line that names the flag: %v", how, err)
				}
			}
			how := fmt.Sprintf("--%s=%s", flag.Name, value)
			check(how, parseAndValidate(t, append(strings.Fields(rest), how)...))
			t.Setenv(flag.Envs[0], value)
			check(flag.Envs[0]+"="+value, parseAndValidate(t, strings.Fields(rest)...))
			os.Unsetenv(flag.Envs[0])
		}
	}
}

func parseAndValidate(t *testing.T, args ...string) error {
	cfg, err := parse(t, args...)
	if err == nil {
		err = cfg.file.locate(validate(cfg))
	}
	return err
}

func model(t *testing.T) *kong.Application {
	t.Helper()
	_, parser, err := program{name: "roomd"}.parser()
	redistest.OK(t, err)
	return parser.Model
}

// flags returns the flags of a command.
func flags(t *testing.T, command string) []*kong.Flag {
	t.Helper()
	for _, node := range model(t).Children {
		if node.Name == command {
			return node.Flags
		}
	}
	t.Fatalf("there is no command %s", command)
	return nil
}
