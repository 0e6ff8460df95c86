package node

import (
	"cmp"
	"context"
	"errors"

	"roomd/room/coordinator"
	"roomd/transport"
	"roomd/transport/api"
)

// Validate returns the error that Start would return for a field of cfg that cannot be used. It
// does not listen, and asks nothing of Redis.
func (cfg Config) Validate() error {
	if cfg.Redis == nil {
		return errors.New("node: Redis is nil")
	}
	if err := checkListen(cfg.Listen, cfg.Insecure || cfg.Serve.Auth != nil); err != nil {
		return err
	}
	if cfg.AdminListen != "" {
		if err := checkAdminListen(cfg.AdminListen, cfg.Serve.Auth != nil); err != nil {
			return err
		}
	}
	client := cfg.Redis.NewClient()
	defer client.Close()
	ctx := context.Background()
	rooms, err := coordinator.New(client, cfg.Room)
	if err != nil {
		return err
	}
	defer rooms.Close(ctx)
	server, err := transport.New(rooms, cfg.Serve)
	if err != nil {
		return err
	}
	if err := server.Shutdown(ctx); err != nil {
		return err
	}
	_, err = api.New(rooms, server, cfg.apiOptions())
	return err
}

// MaxClients returns how many game clients a node takes that is to take wanted (0 for the
// default), and how many files the process may have open, or 0 if that is not known. It fails if
// there are too few for any client.
func MaxClients(wanted int) (clients, files int, err error) {
	files = maxFiles()
	most, err := limitsFor(cmp.Or(wanted, transport.DefaultMaxConnections), files)
	return most.clients, files, err
}
