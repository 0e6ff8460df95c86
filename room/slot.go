package room

import (
	"context"
	"errors"

	"github.com/redis/go-redis/v9"

	"roomd/lockmgr"
)

// masterOf returns the address of the server of a Cluster that has a key, or "" if
// there is only one server, or nobody knows.
func masterOf(ctx context.Context, client redis.UniversalClient, key string) string {
	cluster, ok := client.(*redis.ClusterClient)
	if !ok {
		return ""
	}
	master, err := cluster.MasterForKey(ctx, key)
	if err != nil {
		return ""
	}
	return master.Options().Addr
}

// runScript runs a script. While the slot of its keys moves from one master of a
// Cluster to another, it asks again until they are together, or ctx ends, as lockmgr
// does.
func runScript(ctx context.Context, client redis.UniversalClient, script *redis.Script, keys []string, args ...any) (cmd *redis.Cmd) {
	_ = untilMoved(ctx, func() error {
		cmd = script.Run(ctx, client, keys, args...)
		seekMaster(ctx, client, cmd.Err())
		return cmd.Err()
	})
	return cmd
}

// untilMoved sends a request, and again as long as it fails because a slot moves.
func untilMoved(ctx context.Context, send func() error) error {
	for {
		err := send()
		if !moving(err) {
			return err
		}
		if pause(ctx, lockmgr.DefaultPoll); ctx.Err() != nil {
			return err
		}
	}
}

// moving reports whether a request failed because a slot moves: some of its keys are
// here and some there, or the client was sent to and fro until it gave up.
func moving(err error) bool {
	if err == nil {
		return false
	}
	_, moved := redis.IsMovedError(err)
	_, ask := redis.IsAskError(err)
	return moved || ask || redis.IsTryAgainError(err)
}

// seekMaster has the client of a Cluster look who has which slots, if a request failed
// because its server did not answer, or is not the one to ask. By itself the client
// looks once a minute.
func seekMaster(ctx context.Context, client redis.UniversalClient, err error) {
	var reply redis.Error
	if cluster, ok := client.(*redis.ClusterClient); ok && err != nil && (!errors.As(err, &reply) || moving(err)) {
		cluster.ReloadState(ctx)
	}
}
