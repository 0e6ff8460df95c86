package node

import (
	"errors"
	"testing"
	"time"

	"roomd/lockmgr"
	"roomd/lockmgr/redisconn/redisurl"
	"roomd/room"
	"roomd/room/coordinator"
	"roomd/transport"
)

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
	if clients, files, err := MaxClients(10); clients != 10 || err != nil {
		t.Errorf("10 clients of %d files: %d, %v", files, clients, err)
	}
}
