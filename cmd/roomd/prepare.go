package main

import (
	"errors"
	"fmt"
	"log/slog"
	"strings"

	"roomd/lockmgr"
	"roomd/room"
	"roomd/transport/node"
)

// nodeConfig makes the parts of a node from its flags. The caller closes the DB. The error
// names a flag that cannot be used, and is a useError.
func nodeConfig(cfg config, log *slog.Logger) (node.Config, error) {
	verifier, err := cfg.verifier(log)
	if err != nil {
		return node.Config{}, ofFlag(err)
	}
	secure, err := cfg.secure(log)
	if err != nil {
		return node.Config{}, err
	}
	db, err := cfg.redisFlags.open()
	if err != nil {
		return node.Config{}, err
	}
	clients := cfg.clients()
	clients.Auth = verifier
	parts := node.Config{
		Listen:   cfg.Listen,
		Insecure: cfg.Insecure,
		TLS:      secure,
		Redis:    db,
		Room:     cfg.rooms(),
		Serve:    clients,
		Log:      log,
		Version:  release(),
		Settings: cfg.labels(),
	}
	cfg.observe(&parts)
	return parts, nil
}

// flagOf is by which flag an operator knows an option that the packages behind check.
var flagOf = map[string]string{
	"AllowOrigins": "--allow-origin", "listen": "--listen", "AdminListen": "--admin-listen",
	"TrustProxy": "--trust-proxy", "MaxFrame": "--max-frame", "Rate": "--rate", "Burst": "--burst",
	"MemberData": "--max-member-data", "RoomData": "--max-room-data", "Message": "--max-message",
	"TTL": "--lock-ttl", "Claim": "--lock-ttl", "Poll": "--lock-poll", "LockWait": "--lock-wait", "NodeTTL": "--node-ttl",
}

// inFlags names the flag in an error that names an option.
func inFlags(err error) error {
	var invalid *room.InvalidError
	if errors.As(err, &invalid) && flagOf[invalid.Field] != "" {
		return useError{fmt.Errorf("%s %s", flagOf[invalid.Field], invalid.Problem)}
	}
	if text, isLock := strings.CutPrefix(fmt.Sprint(err), "lockmgr: "); isLock && errors.Is(err, lockmgr.ErrInvalid) {
		field, problem, _ := strings.Cut(text, " ")
		if flagOf[field] != "" {
			return useError{fmt.Errorf("%s %s", flagOf[field], problem)}
		}
	}
	return err
}
