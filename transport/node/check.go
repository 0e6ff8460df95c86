package node

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"net"
	"strings"
	"syscall"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/redis/go-redis/v9"

	"roomd/room/coordinator"
	"roomd/transport/auth"
	"roomd/transport/internal/reload"
)

// checkTimeout limits all requests of "roomd check" to Redis.
const checkTimeout = 15 * time.Second

type checkCmd struct {
	config `embed:""`
	JSON   bool `name:"json" env:"-" help:"One JSON object instead of lines: {\"ok\":…,\"findings\":[{\"level\",\"check\",\"text\",\"do\"}]}."`
}

// Help returns the text that kong shows after the description.
func (*checkCmd) Help() string {
	return "Give it the flags, variables and files of a node. It says what is ok, what should be changed (warn) and " +
		"what must be (fail), and ends with 1 if something must. It serves nobody, and leaves nothing in Redis."
}

// run writes the findings. It fails if something must be changed.
func (c *checkCmd) run(ctx context.Context, stdout io.Writer) error {
	ctx, cancel := context.WithTimeout(ctx, checkTimeout)
	defer cancel()
	found := checkConfig(ctx, c.config)
	if err := found.write(stdout, c.JSON); err != nil {
		return err
	}
	switch n := found.count(levelFail); n {
	case 0:
		return nil
	case 1:
		return errors.New("check: one thing must be changed")
	default:
		return fmt.Errorf("check: %d things must be changed", n)
	}
}

func checkConfig(ctx context.Context, cfg config) (found findings) {
	parts := found.parts(cfg)
	if parts.Redis == nil {
		return found
	}
	defer parts.Redis.Close()
	found.settings(cfg, parts.Redis.String())
	if err := parts.Validate(); err != nil {
		found.fail("flags", "", "%v", inFlags(err))
		return found
	}
	if cfg.AdminListen == cfg.Listen && !strings.HasSuffix(cfg.Listen, ":0") { // :0 takes any free port
		found.fail("listen", "Give --admin-listen a port of its own",
			"--listen and --admin-listen are the same address")
	}
	found.listen(ctx, "--listen", cfg.Listen)
	if cfg.AdminListen != "" {
		found.listen(ctx, "--admin-listen", cfg.AdminListen)
	}
	found.files(cfg.MaxConnections)
	client := parts.Redis.NewClient()
	defer client.Close()
	rooms, err := coordinator.New(client, parts.Room)
	if err != nil { // Validate has checked these options
		found.fail("flags", "", "%v", inFlags(err))
		return found
	}
	defer rooms.Close(context.WithoutCancel(ctx))
	found.redis(ctx, &asked{cfg: cfg, db: parts.Redis, client: client, rooms: rooms})
	return found
}

// parts makes the parts of the node, and reports keys, certificates, and what it cannot make. Redis may then be nil.
func (f *findings) parts(cfg config) Config {
	silent := slog.New(slog.DiscardHandler)
	redis.SetLogger(redisLog{silent}) // errors contain the client's messages, too
	parts := cfg.parts(silent)
	var err error
	if parts.Serve.Auth, err = cfg.verifier(silent); err != nil {
		f.fail("keys", "", "%v", err)
		parts.Insecure = true // so that the listen address is not reported as well
	} else {
		f.keys(cfg, parts.Serve.Auth)
	}
	if parts.TLS, err = cfg.secure(silent); err != nil {
		f.fail("tls", "", "%v", err)
	}
	f.certificates(cfg, time.Now())
	if parts.Webhooks, err = cfg.webhooks(silent); err != nil {
		f.fail("webhooks", "", "%v", err)
	}
	if parts.Redis, err = cfg.redisFlags.open(); err != nil {
		f.fail("redis", "", "%v", err)
	}
	return parts
}

// settings reports the settings that are not defaults with their origins, and a secret that others can read.
func (f *findings) settings(cfg config, redis string) {
	if key := cfg.file.exposed; key != "" {
		f.warn("config", "Take the right from others (chmod o-r), or name a file of its own there",
			"%s: every user of this machine can read the secret of %s", cfg.file.path, key)
	}
	for _, s := range settings(cfg, redis) {
		if s.origin != "" {
			f.ok("setting", "%s, from %s", s, s.origin)
		}
	}
}

func (f *findings) keys(cfg config, verifier *auth.Verifier) {
	switch source := cfg.source(); {
	case source != nil && source.name == "--auth-jwks":
		all := verifier.Algorithms()
		f.ok("keys", "tokens are verified with the keys of --auth-jwks: %d (%s)", len(all), strings.Join(all, ", "))
	case source != nil:
		f.ok("keys", "tokens are verified with the key of %s", source.name)
	case cfg.Insecure:
		f.warn("keys", "Give the node a key (--auth-secret-file), or keep --listen from everybody else",
			"--insecure: a client is the user that it names")
	default:
		f.ok("keys", "no key: a client is the user that it names, which is why --listen must be on loopback")
	}
}

// listen reports whether the address of a flag is free. It listens there for a moment.
func (f *findings) listen(ctx context.Context, flag, address string) {
	l, err := new(net.ListenConfig).Listen(ctx, "tcp", address)
	switch {
	case err == nil:
		_ = l.Close()
		f.ok("listen", "%s: %s is free", flag, address)
	case errors.Is(err, syscall.EADDRINUSE):
		f.fail("listen", "If it is a node that runs already, check with "+flag+
			" 127.0.0.1:0; else stop the other process, or listen elsewhere",
			"%s: another process listens on %s", flag, address)
	case errors.Is(err, fs.ErrPermission):
		f.fail("listen", "Take a port from 1024, or give the process CAP_NET_BIND_SERVICE",
			"this user may not listen on %s", address)
	default:
		f.fail("listen", "Give "+flag+" an address of this machine", "%v", err)
	}
}

// files compares the limit on open files with the wanted number of clients.
func (f *findings) files(wanted int) {
	files := maxFiles()
	most, err := limitsFor(wanted, files)
	switch {
	case err != nil:
		f.fail("files", "", "%v", err)
	case most.clients < wanted:
		f.warn("files", "Raise the limit (ulimit -n, or LimitNOFILE in the unit), or lower --max-connections",
			"the process may have %d files open: %d clients instead of %d", files, most.clients, wanted)
	case files == 0:
		f.ok("files", "the limit on open files is not known")
	default:
		f.ok("files", "%d open files suffice for %d clients", files, wanted)
	}
}

// maxNotice is how long before its expiry a long-lived certificate gets a warning.
const maxNotice = 14 * 24 * time.Hour

// certificates checks the certificates that clients and Redis see. parts reports the files that cannot be used.
func (f *findings) certificates(cfg config, now time.Time) {
	if cfg.TLSCert != nil {
		if pair, err := reload.Pair(*cfg.TLSCert, *cfg.TLSKey); err == nil {
			f.certificate("--tls-cert", "clients", pair.Leaf, now)
			if leaf := pair.Leaf; len(leaf.DNSNames)+len(leaf.IPAddresses) == 0 {
				f.fail("tls", "Make it with the node's name, such as -addext subjectAltName=DNS:game.example",
					"--tls-cert has no name in subjectAltName: clients will refuse it, whatever its subject is")
			}
		}
	}
	if files := cfg.redisFlags.Files; files.RedisCert != nil {
		if pair, err := reload.Pair(*files.RedisCert, *files.RedisKey); err == nil {
			f.certificate("--redis-cert", "Redis", pair.Leaf, now)
		}
	}
}

// certificate reports how long others, who see the certificate of a flag, will accept it.
func (f *findings) certificate(flag, others string, leaf *x509.Certificate, now time.Time) {
	day := func(t time.Time) string { return t.UTC().Format("2006-01-02 15:04 UTC") }
	notice := min(maxNotice, leaf.NotAfter.Sub(leaf.NotBefore)/6)
	switch left := leaf.NotAfter.Sub(now); {
	case left <= 0:
		f.fail("tls", "Renew it", "%s expired at %s: %s will refuse it", flag, day(leaf.NotAfter), others)
	case now.Before(leaf.NotBefore):
		f.fail("tls", "Wait, or look at the clock", "%s is not valid before %s: %s will refuse it", flag,
			day(leaf.NotBefore), others)
	case left < notice:
		f.warn("tls", "Renew it", "%s expires soon, at %s", flag, day(leaf.NotAfter))
	default:
		f.ok("tls", "%s expires at %s", flag, day(leaf.NotAfter))
	}
}

// Levels of a finding.
const (
	levelOK   = "ok"
	levelWarn = "warn" // it works, but something can be lost, or slow
	levelFail = "fail" // it does not work
)

type finding struct {
	Level string `json:"level"`
	Check string `json:"check"`
	Text  string `json:"text"`
	Do    string `json:"do,omitempty"`
}

type findings []finding

func (f *findings) ok(check, format string, args ...any) {
	*f = append(*f, finding{levelOK, check, fmt.Sprintf(format, args...), ""})
}

// warn and fail add a finding; do is the advice.
func (f *findings) warn(check, do, format string, args ...any) {
	*f = append(*f, finding{levelWarn, check, fmt.Sprintf(format, args...), do})
}

func (f *findings) fail(check, do, format string, args ...any) {
	*f = append(*f, finding{levelFail, check, fmt.Sprintf(format, args...), do})
}

func (f findings) count(level string) (n int) {
	for _, one := range f {
		if one.Level == level {
			n++
		}
	}
	return n
}

// write writes one line per finding, or one JSON object.
func (f findings) write(w io.Writer, asJSON bool) error {
	if asJSON {
		text, err := json.Marshal(struct {
			OK       bool     `json:"ok"`
			Findings findings `json:"findings"`
		}{f.count(levelFail) == 0, f})
		if err != nil {
			return err
		}
		_, err = w.Write(append(text, '\n'))
		return err
	}
	for _, one := range f {
		line := fmt.Sprintf("%-5s %-12s %s", one.Level, one.Check, one.Text)
		if one.Do != "" {
			line = strings.TrimRight(line, ".") + ". " + one.Do // an error of Redis may end with a full stop
		}
		if _, err := fmt.Fprintln(w, line); err != nil {
			return err
		}
	}
	return nil
}
