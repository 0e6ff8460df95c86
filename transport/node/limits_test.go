package node

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"reflect"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"roomd/lockmgr/redistest"
	"roomd/transport"
	"roomd/transport/client"
	"roomd/transport/protocol"
)

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
			if !errors.Is(err, protocol.ErrUnavailable) || !strings.Contains(err.Error(), "503") {
				t.Errorf("client %d: %v", len(clients), err)
			}
			break
		}
		defer c.Close()
		clients = append(clients, c)
		if len(clients) > 64 {
			t.Fatal("more clients than files")
		}
	}
	if len(clients) < 16 {
		t.Errorf("only %d clients", len(clients))
	}
	for range 100 {
		c, err := net.Dial("tcp", p.addr)
		redistest.OK(t, err)
		defer c.Close()
	}
	for _, c := range clients {
		if _, err := c.Do(t.Context(), protocol.Request{Action: protocol.ActionJoin, Room: "42"}); err != nil {
			t.Error(err)
		}
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
		if time.Now().After(giveUp) {
			t.Fatalf("nobody can come after all have gone: %v", err)
		}
	}
	p.stop(syscall.SIGTERM)
}

// The defaults of the flags are those of an empty transport.Options.
func TestLimits_Default(t *testing.T) {
	t.Parallel()
	cfg, err := parse(t)
	redistest.OK(t, err)
	want := transport.Options{
		MaxConnections: transport.DefaultMaxConnections, MaxPerAddress: 1000, MaxRooms: 64, MaxNewRooms: 64, MaxFrame: 16 << 10, MaxQueue: 256 << 10,
		Rate: 50, Burst: 100, HandshakeTimeout: transport.DefaultHandshakeTimeout, AuthTimeout: 10 * time.Second, PingInterval: transport.DefaultPingInterval, Grace: 10 * time.Second,
	}
	if got := cfg.clients(); !reflect.DeepEqual(got, want) {
		t.Errorf("got  %+v\nwant %+v", got, want)
	}
}

func TestLimits_Flags(t *testing.T) {
	t.Parallel()
	show := func(o transport.Options) string {
		return fmt.Sprint(o.Rate, o.Burst, o.MaxPerAddress, o.MaxRooms, o.MaxFrame, o.MaxQueue, o.HandshakeTimeout, o.AuthTimeout, o.PingInterval)
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
	cfg, err := parse(t, "--trust-proxy", "10.0.0.0/8,192.0.2.7", "--trust-proxy", "fd00::/8", "--trust-proxy", "::1,::ffff:172.16.0.0/108")
	redistest.OK(t, err)
	var want []netip.Prefix
	for _, text := range []string{"10.0.0.0/8", "192.0.2.7/32", "fd00::/8", "::1/128", "172.16.0.0/12"} {
		want = append(want, netip.MustParsePrefix(text))
	}
	if got := cfg.clients().TrustProxy; !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}
