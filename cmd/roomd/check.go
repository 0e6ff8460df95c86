package main

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"log/slog"
	"net"
	"strings"
	"syscall"
	"time"

	"github.com/redis/go-redis/v9"

	"roomd/room/coordinator"
	"roomd/transport/node"
)

// checkTimeout bounds all that "roomd check" asks of Redis.
const checkTimeout = 15 * time.Second

// checkCmd is "roomd check".
type checkCmd struct {
	config `embed:""`
	JSON   bool `name:"json" env:"-" help:"One JSON object instead of lines: {\"ok\":…,\"findings\":[{\"level\",\"check\",\"text\",\"do\"}]}."`
}

// Help is shown by kong below the description.
func (*checkCmd) Help() string {
	return `Give it the flags, variables and files of a node. It says what is ok, what should be changed (warn) and what must be (fail), and ends with 1 if something must. It serves nobody, and leaves nothing in Redis.`
}

// run writes the findings. It fails with errMustChange.
func (c *checkCmd) run(ctx context.Context, stdout io.Writer) error {
	ctx, cancel := context.WithTimeout(ctx, checkTimeout)
	defer cancel()
	found := checkConfig(ctx, c.config)
	if err := found.write(stdout, c.JSON); err != nil {
		return err
	}
	if n := found.count(levelFail); n > 0 {
		return errMustChange(n)
	}
	return nil
}

// checkConfig checks what can be checked without Redis, and then Redis.
func checkConfig(ctx context.Context, cfg config) (found findings) {
	silent := slog.New(slog.DiscardHandler)
	redis.SetLogger(redisLog{silent}) // what it has to say is in errors as well
	parts := node.Config{Listen: cfg.Listen, AdminListen: cfg.AdminListen, Insecure: cfg.Insecure, Room: cfg.rooms(), Serve: cfg.clients()}
	var err error
	if parts.Serve.Auth, err = cfg.verifier(silent); err != nil {
		found.fail("keys", "", "%v", err)
		parts.Insecure = true // the listen address is not to blame as well
	} else {
		found.keys(cfg, parts)
	}
	if parts.TLS, err = cfg.secure(silent); err != nil {
		found.fail("tls", "", "%v", err)
	}
	if parts.Redis, err = cfg.redisFlags.open(); err != nil {
		found.fail("redis", "", "%v", err)
		return found
	}
	defer parts.Redis.Close()
	if err := parts.Validate(); err != nil {
		found.fail("flags", "", "%v", inFlags(err))
		return found
	}
	if cfg.AdminListen == cfg.Listen && !strings.HasSuffix(cfg.Listen, ":0") { // any free port
		found.fail("listen", "Give --admin-listen a port of its own", "--listen and --admin-listen are the same address")
	}
	found.listen(ctx, "--listen", cfg.Listen)
	if cfg.AdminListen != "" {
		found.listen(ctx, "--admin-listen", cfg.AdminListen)
	}
	found.files(cfg.MaxConnections)
	client := parts.Redis.NewClient()
	defer client.Close()
	rooms, err := coordinator.New(client, parts.Room)
	if err != nil { // Validate has tried it
		found.fail("flags", "", "%v", inFlags(err))
		return found
	}
	defer rooms.Close(context.WithoutCancel(ctx))
	found.redis(ctx, &asked{cfg: cfg, db: parts.Redis, client: client, rooms: rooms})
	return found
}

// keys says who may connect.
func (f *findings) keys(cfg config, parts node.Config) {
	switch source, _ := cfg.source(); {
	case source != nil:
		f.ok("keys", "tokens are verified with the key of %s", source.name)
	case cfg.Insecure:
		f.warn("keys", "Give the node a key (--auth-secret-file), or keep --listen from everybody else",
			"--insecure: a client is the user that it names")
	default:
		f.ok("keys", "no key: a client is the user that it names, and the node listens on loopback only")
	}
}

// listen tries the address, which is free again afterwards.
func (f *findings) listen(ctx context.Context, flag, address string) {
	l, err := new(net.ListenConfig).Listen(ctx, "tcp", address)
	switch {
	case err == nil:
		_ = l.Close()
		f.ok("listen", "%s: %s is free", flag, address)
	case errors.Is(err, syscall.EADDRINUSE):
		f.fail("listen", "If it is a node that runs already, check with "+flag+" 127.0.0.1:0; else stop the other process, or listen elsewhere",
			"another process listens on %s", address)
	case errors.Is(err, fs.ErrPermission):
		f.fail("listen", "Take a port from 1024, or give the process CAP_NET_BIND_SERVICE", "this user may not listen on %s", address)
	default:
		f.fail("listen", "Give "+flag+" an address of this machine", "%v", err)
	}
}

// files compares the limit on open files with the clients that are wanted.
func (f *findings) files(wanted int) {
	clients, files, err := node.MaxClients(wanted)
	switch {
	case err != nil:
		f.fail("files", "", "%v", err)
	case clients < wanted:
		f.warn("files", "Raise the limit (ulimit -n, or LimitNOFILE in the unit), or lower --max-connections",
			"the process may have %d files open: %d clients instead of %d", files, clients, wanted)
	case files == 0:
		f.ok("files", "the limit on open files is not known")
	default:
		f.ok("files", "%d open files suffice for %d clients", files, wanted)
	}
}
