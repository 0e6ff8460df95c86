package node

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/netip"
	"os"
	"reflect"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/alecthomas/kong"

	"roomd/lockmgr/redistest"
	"roomd/room"
	"roomd/transport"
	"roomd/transport/client"
	"roomd/transport/internal/reload"
	"roomd/transport/protocol"
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
	"listen": {"", "127.0.0.1", "127.0.0.1:http:x", "0.0.0.0:8080", "[::]:8080", ":8080"},
	"redis": {"", "redis", "http://127.0.0.1", "redis://127.0.0.1:port", "redis+sentinel://127.0.0.1:1",
		"redis+cluster://127.0.0.1:1/3"},
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
	"webhook": {"game.example", "ftp://game.example", "https://u:p@game.example", "https://game.example#x=1",
		"https://game.example#kinds=no"},

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
	"match-settings": {"4", "{}", `[{"seats":4}]`, `[{"capacity":70000}]`, `[{"data":"all"}]`,
		`[{"keep":true}]`, `[{"default":true}]`, `[{"labels":{"a":1}}]`, "@/nowhere/settings"},
	"config": {"", "/nowhere/config", "."},
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
		redistest.ErrorIf(t, flag.Target.Kind() != reflect.Bool && !known && len(badValues(flag)) == 0,
			"--%s: the test knows no bad value of it", flag.Name)
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

func model() *kong.Application {
	return kong.Must(&cli{}, program{name: "roomd"}.options()...).Model
}

// flags returns the flags of a command.
func flags(t *testing.T, command string) []*kong.Flag {
	t.Helper()
	for _, node := range model().Children {
		if node.Name == command {
			return node.Flags
		}
	}
	t.Fatalf("there is no command %s", command)
	return nil
}

// A process that may have 64 files open tells clients when there is no room for more,
// whatever else is connected; those who are in are served; and when they go there is
// room again.
func TestLimits_FewFiles(t *testing.T) {
	server := redistest.Start(t)
	p := prepare(t, server.URL())
	p.run = []string{"sh", "-c", `ulimit -n 64; exec "$@"`, "sh"}
	p.start()
	url := "ws://" + p.addr + "/ws"
	var clients []*client.Conn
	for {
		c, err := client.Dial(t.Context(), url, client.Options{User: fmt.Sprint("player", len(clients))})
		if err != nil {
			redistest.ErrorIf(t, !errors.Is(err, protocol.ErrUnavailable) || !strings.Contains(err.Error(), "503"),
				"client %d: %v", len(clients), err)
			break
		}
		defer c.Close()
		clients = append(clients, c)
		redistest.FatalIf(t, len(clients) > 64, "more clients than files")
	}
	redistest.ErrorIf(t, len(clients) < 16, "only %d clients", len(clients))
	for range 100 {
		c, err := net.Dial("tcp", p.addr)
		redistest.OK(t, err)
		defer c.Close()
	}
	for _, c := range clients {
		join(t, c, "42")
	}
	for _, c := range clients {
		c.Close()
	}
	giveUp := time.Now().Add(10 * time.Second)
	for {
		c, err := client.Dial(t.Context(), url, client.Options{User: "late"})
		if err == nil {
			c.Close()
			break
		}
		redistest.FatalIf(t, time.Now().After(giveUp), "nobody can come after all have gone: %v", err)
	}
	p.stop(syscall.SIGTERM)
}

// The defaults of the flags are those of an empty transport.Options.
func TestLimits_Default(t *testing.T) {
	t.Parallel()
	cfg, err := parse(t)
	redistest.OK(t, err)
	want := transport.Options{
		MaxConnections: transport.DefaultMaxConnections, MaxPerAddress: 1000, MaxRooms: 64, MaxNewRooms: 64,
		MaxFrame: 16 << 10, MaxQueue: 256 << 10,
		Rate: 50, Burst: 100, HandshakeTimeout: transport.DefaultHandshakeTimeout, AuthTimeout: 10 * time.Second,
		PingInterval: transport.DefaultPingInterval, Grace: 10 * time.Second,
	}
	if got := cfg.clients(); !reflect.DeepEqual(got, want) {
		t.Errorf("got  %+v\nwant %+v", got, want)
	}
}

func TestLimits_Flags(t *testing.T) {
	t.Parallel()
	show := func(o transport.Options) string {
		return fmt.Sprint(o.Rate, o.Burst, o.MaxPerAddress, o.MaxRooms, o.MaxFrame, o.MaxQueue, o.HandshakeTimeout,
			o.AuthTimeout, o.PingInterval)
	}
	for args, want := range map[string]string{
		"--rate 7": "7 100 1000 64 16384 262144 10s 10s 5s",
		"--rate 7/s --burst 3 --max-per-address 5 --max-rooms 2": "7 3 5 2 16384 262144 10s 10s 5s",
		"--rate off --max-per-address off --max-frame 2KiB":      "-1 100 -1 64 2048 262144 10s 10s 5s",
		"--handshake-timeout 1s --auth-timeout 2s":               "50 100 1000 64 16384 262144 1s 2s 5s",
		"--ping-interval 30s":                                    "50 100 1000 64 16384 262144 10s 10s 30s",
	} {
		cfg, err := parse(t, strings.Fields(args)...)
		if got := show(cfg.clients()); err != nil || got != want {
			t.Errorf("%s: %s, %v; want %s", args, got, err, want)
		}
	}
}

func TestLimits_TrustProxy(t *testing.T) {
	t.Parallel()
	cfg, err := parse(t, "--trust-proxy", "10.0.0.0/8,192.0.2.7", "--trust-proxy", "fd00::/8", "--trust-proxy",
		"::1,::ffff:172.16.0.0/108")
	redistest.OK(t, err)
	var want []netip.Prefix
	for _, text := range []string{"10.0.0.0/8", "192.0.2.7/32", "fd00::/8", "::1/128", "172.16.0.0/12"} {
		want = append(want, netip.MustParsePrefix(text))
	}
	if got := cfg.clients().TrustProxy; !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

// command is roomd with rules, and returns its exit code.
func command(rules room.Rules, args []string, stdout, stderr io.Writer) int {
	return program{name: "roomd", rules: rules}.command(args, stdout, stderr)
}

// A program with rules for the seats has no --capacity in its help, and shows the operators how many seats its rooms
// have. Who gives --capacity hears why it does not go.
func TestProgram_OfRulesForSeats(t *testing.T) {
	teams := program{name: "teams", rules: room.Rules{Name: "teams-1", Seating: room.Capacity(4)}}
	for _, command := range kong.Must(&cli{}, teams.options()...).Model.Children {
		for _, flag := range command.Flags {
			redistest.ErrorIf(t, flag.Hidden != (flag.Name == "capacity"),
				"%s --%s: hidden is %v", command.Name, flag.Name, flag.Hidden)
		}
	}
	var errs bytes.Buffer
	if code := teams.command([]string{"--capacity", "3"}, io.Discard, &errs); code != exitWrongUse ||
		!strings.Contains(errs.String(), "rules of its own for the seats") {
		t.Errorf("--capacity: %d, %s", code, &errs)
	}
	redistest.Equal(t, "operators are shown the capacity", (&config{rules: teams.rules}).labels()["capacity"], "4")
}
