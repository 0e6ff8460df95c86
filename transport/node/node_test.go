package node

import (
	"context"
	"errors"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"roomd/lockmgr"
	"roomd/lockmgr/redisconn/redisurl"
	"roomd/lockmgr/redistest"
	"roomd/room"
	"roomd/room/coordinator"
	"roomd/transport"
	"roomd/transport/client"
	"roomd/transport/protocol"
)

func open(t *testing.T, url string) *redisurl.DB {
	t.Helper()
	db, err := redisurl.Open(url)
	redistest.OK(t, err)
	t.Cleanup(db.Close)
	return db
}

func TestTwoNodesOneRoom(t *testing.T) {
	db := open(t, redisurl.Embedded)
	var clients []*client.Conn
	for _, user := range []string{"李四", "张三"} {
		n, err := Start(t.Context(), Config{Listen: "127.0.0.1:0", Redis: db})
		redistest.OK(t, err)
		defer n.Shutdown(context.Background())
		c, err := client.Dial(t.Context(), n.URL(), client.Options{User: user})
		redistest.OK(t, err)
		defer c.Close()
		clients = append(clients, c)
	}
	for seat, c := range clients {
		r, err := c.Do(t.Context(), protocol.Request{Action: protocol.ActionJoin, Room: "42"})
		if err != nil || *r.Seat != seat || r.Count != seat+1 {
			t.Errorf("join: %+v, %v", r, err)
		}
	}
}

// unsaved returns a Redis that cannot save, and so refuses to write.
func unsaved(t *testing.T) *redistest.Server {
	t.Helper()
	folder := filepath.Join(t.TempDir(), "gone")
	redistest.OK(t, os.Mkdir(folder, 0o700))
	server := redistest.Start(t, "--save", "3600 1000000", "--dir", folder)
	redistest.OK(t, os.Remove(folder))
	client := server.Client()
	_ = client.BgSave(t.Context()) // may fail at once, or a moment later
	redistest.Until(t, "writes are refused", func() bool { return client.Ping(t.Context()).Err() != nil })
	return server
}

func TestStartRefuses(t *testing.T) {
	db := open(t, redisurl.Embedded)
	running, err := Start(t.Context(), Config{Listen: "127.0.0.1:0", Redis: db})
	redistest.OK(t, err)
	defer running.Shutdown(context.Background())
	for names, cfg := range map[string]Config{
		"other machines":                           {Listen: "0.0.0.0:0", Redis: db},
		"other  machines":                          {Listen: ":0", Redis: db},
		"host:port":                                {Listen: "127.0.0.1", Redis: db},
		"Redis is nil":                             {Listen: "127.0.0.1:0"},
		"127.0.0.1:1":                              {Listen: "127.0.0.1:0", Redis: open(t, "redis://127.0.0.1:1")},
		"--listen: listen tcp":                     {Listen: running.Addr(), Redis: db},
		"--admin-listen: listen":                   {Listen: "127.0.0.1:0", AdminListen: running.Addr(), Redis: db},
		"answers, and refuses what a node asks":    {Listen: "127.0.0.1:0", Redis: open(t, unsaved(t).URL())},
		"does not accept the user or the password": {Listen: "127.0.0.1:0", Redis: open(t, strings.Replace(redistest.Start(t, "--requirepass", "secret").URL(), "redis://", "redis://:wrong@", 1))},
		"Seating":                                  {Listen: "127.0.0.1:0", Redis: db, Room: coordinator.Options{Rules: room.Rules{Seating: room.Capacity(-1)}}},
		"MaxConnections":                           {Listen: "127.0.0.1:0", Redis: db, Serve: transport.Options{MaxConnections: -1}},
	} {
		n, err := Start(t.Context(), cfg)
		if err == nil {
			_ = n.Shutdown(context.Background())
		}
		if want := strings.ReplaceAll(names, "  ", " "); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", names, err)
		}
	}
	insecure, err := Start(t.Context(), Config{Listen: "0.0.0.0:0", Insecure: true, Redis: db})
	redistest.OK(t, err)
	_ = insecure.Shutdown(t.Context())
}

// A node that listens everywhere is known by the name of its machine.
func TestKnownAs(t *testing.T) {
	host, err := os.Hostname()
	if err != nil {
		t.Skip(err)
	}
	for addr, want := range map[string]string{"127.0.0.1:8080": "127.0.0.1:8080", "[::]:8080": host + ":8080", "0.0.0.0:80": host + ":80", "[::1]:80": "[::1]:80"} {
		tcp, err := net.ResolveTCPAddr("tcp", addr)
		redistest.OK(t, err)
		if got := knownAs(tcp); got != want {
			t.Errorf("%s is known as %s, want %s", addr, got, want)
		}
	}
}

// Validate finds in each part what Start would find, without Redis.
func TestValidate(t *testing.T) {
	db := open(t, "redis://127.0.0.1:1")
	good := Config{Listen: "127.0.0.1:0", Redis: db}
	if err := good.Validate(); err != nil {
		t.Error(err)
	}
	for name, cfg := range map[string]Config{
		"listen":  {Listen: "0.0.0.0:0", Redis: db},
		"lock":    {Listen: "127.0.0.1:0", Redis: db, Room: coordinator.Options{LockTTL: time.Microsecond}},
		"room":    {Listen: "127.0.0.1:0", Redis: db, Room: coordinator.Options{Replicas: -1}},
		"clients": {Listen: "127.0.0.1:0", Redis: db, Serve: transport.Options{MaxQueue: -1}},
	} {
		if err := cfg.Validate(); !errors.Is(err, room.ErrInvalid) && !errors.Is(err, lockmgr.ErrInvalid) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if (Config{Listen: redisurl.Embedded}).Validate() == nil {
		t.Error("no Redis, and no error")
	}
	if clients, files, err := maxClients(10); clients != 10 || err != nil {
		t.Errorf("10 clients of %d files: %d, %v", files, clients, err)
	}
}
