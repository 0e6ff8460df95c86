package lab

import (
	"context"

	"github.com/redis/go-redis/v9"

	"roomd/loadtest/lab/anomaly"
)

// multiExpire puts SETNX and EXPIRE 10 into one transaction, so that no crash
// comes between them. So EXPIRE also runs after a SETNX that failed.
//
// The lab's choices: the ttl, a variable there, is 10; the value is 1.
var multiExpire = discipline{
	name:  "multi-expire",
	about: "MULTI SETNX, EXPIRE 10 EXEC … DEL",
	ttl:   10,
	steps: lockSteps,
	way:   list{&multiExpireLock},
	lock:  &multiExpireLock,
	listed: []listed{
		{text: "losers refresh the TTL: a dead holder's lock lives on under load", fault: crashLocked, anomaly: anomaly.Stuck},
	},
}

var multiExpireLock = lock{try: multiExpireTry, unlock: del}

func multiExpireTry(ctx context.Context, c *caller) (bool, error) {
	var took *redis.Cmd
	_, err := c.process.rdb.TxPipelined(ctx, func(tx redis.Pipeliner) error {
		took = tx.Do(ctx, "SETNX", c.x.lockKey, 1)
		tx.Do(ctx, c.x.scaled("EXPIRE", c.x.lockKey, seconds(10))...)
		return nil
	})
	if err != nil {
		return false, err
	}
	return took.Bool()
}
