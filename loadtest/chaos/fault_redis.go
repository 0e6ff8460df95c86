package chaos

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"roomd/lockmgr/redisconn"
	"roomd/lockmgr/redisconn/pause"
)

// powerLoss is how much of the last writes a power failure loses with appendfsync everysec.
const powerLoss = time.Second

var redisFaults = []*Fault{
	{
		Name: "redis-kill", What: "SIGKILL of a primary; it starts again with what it wrote to its disk, as a replica if one took its place", splits: true, evicts: true,
		loses: func(c Config) loss {
			switch {
			case c.Profile != Standalone:
				return failedOver(c)
			case c.Persist == PersistNone:
				return everything
			}
			return nothing // the kernel writes the data of a killed process
		},
		inject: onPrimary(killPrimary),
	},
	{
		Name: "redis-power", What: "the same, and the disk has not what was not synced",
		Profiles: []string{Standalone}, evicts: true,
		loses: func(c Config) loss {
			switch c.Persist {
			case PersistNone:
				return everything
			case PersistAlways:
				return nothing
			}
			return theLast
		},
		inject: onPrimary(func(ctx context.Context, i *injection, s *server) (heal, error) {
			if i.run.cfg.Persist != PersistEverysec {
				return killPrimary(ctx, i, s)
			}
			return restoreOld(ctx, s, powerLoss)
		}),
	},
	{
		Name: "redis-old", What: "SIGKILL of the primary; it starts again from a copy, made up to 2 s before",
		Profiles: []string{Standalone}, evicts: true, loses: func(Config) loss { return theLast },
		inject: onPrimary(func(ctx context.Context, i *injection, s *server) (heal, error) {
			return restoreOld(ctx, s, time.Second+time.Duration(i.random.Int64N(int64(time.Second))))
		}),
	},
	{
		Name: "redis-empty", What: "SIGKILL of the primary; it starts again without any data",
		Profiles: []string{Standalone}, evicts: true, loses: func(Config) loss { return everything },
		inject: onPrimary(func(_ context.Context, _ *injection, s *server) (heal, error) {
			s.kill()
			return s.heal, s.restore("")
		}),
	},
	{
		Name: "redis-stop", What: "SIGSTOP of a primary", loses: failedOver, splits: true, evicts: true,
		inject: onPrimary(func(_ context.Context, _ *injection, s *server) (heal, error) {
			s.stop()
			return s.heal, nil
		}),
	},
	{
		Name: "script-flush", What: "SCRIPT FLUSH on all servers, ten times a second",
		inject: onServers(100*time.Millisecond, "SCRIPT", "FLUSH"),
	},
	{
		Name: "client-kill", What: "CLIENT KILL of all connections with commands, every half second",
		inject: onServers(500*time.Millisecond, "CLIENT", "KILL", "TYPE", "normal"),
	},
	{
		Name: "pubsub-kill", What: "CLIENT KILL of all connections with events, every half second",
		inject: onServers(500*time.Millisecond, "CLIENT", "KILL", "TYPE", "pubsub"),
	},
	{
		Name: "memory-full", What: "maxmemory is reached",
		inject: func(ctx context.Context, i *injection) (heal, error) {
			set := func(ctx context.Context, bytes string) (refused, away error) {
				for _, s := range i.run.store.all {
					switch err := s.Admin.ConfigSet(ctx, "maxmemory", bytes).Err(); {
					case redisconn.Answered(err):
						refused = errors.Join(refused, err)
					default:
						away = errors.Join(away, err)
					}
				}
				return refused, away
			}
			i.on = "redis"
			// servers that do not answer are stopped or dead by another fault, perhaps all of them
			refused, _ := set(ctx, "1")
			return func(ctx context.Context) error { return errors.Join(set(ctx, "0")) }, refused
		},
	},
}

// failedOver returns the data that a promoted replica may lack.
func failedOver(c Config) loss {
	if c.Profile == Standalone || c.Replicas > 0 {
		return nothing
	}
	return theLast
}

func killPrimary(_ context.Context, i *injection, s *server) (heal, error) {
	s.kill()
	return func(ctx context.Context) error {
		// if it came back before a replica has taken its place, the replica would follow it and lose its data
		for _, other := range i.run.store.all {
			if other != s && other.follows(ctx) == s.Port() {
				return fmt.Errorf("no replica has taken the place of %s", s.Name)
			}
		}
		return s.heal(ctx)
	}, nil
}

// restoreOld copies a primary's data, kills it after age, and finally starts it from the copy.
func restoreOld(ctx context.Context, s *server, age time.Duration) (heal, error) {
	copied, err := s.copyData(ctx)
	if err != nil {
		return nil, err
	}
	if err := pause.For(ctx, age); err != nil {
		return nil, err
	}
	s.kill()
	return s.heal, s.restore(copied)
}

// onServers sends all servers a command periodically.
func onServers(every time.Duration, command ...any) inject {
	return func(_ context.Context, i *injection) (heal, error) {
		i.on = "redis"
		return repeat(every, func() {
			for _, s := range i.run.store.all {
				ctx, cancel := context.WithTimeout(context.Background(), time.Second)
				_ = s.Admin.Do(ctx, command...).Err()
				cancel()
			}
		})
	}
}

var failoverFaults = []*Fault{
	{
		Name: "failover", What: "an operator has a replica take over", Profiles: []string{Sentinel, Cluster},
		loses: failedOver, splits: true, evicts: true, lasts: 4 * time.Second,
		inject: func(ctx context.Context, i *injection) (heal, error) {
			room := i.room()
			for { // the voters may not agree yet on the primary
				s, err := i.run.store.failOver(ctx, room)
				if s != nil {
					i.on = s.Name
				}
				if err == nil || pause.For(ctx, 10*lookPause) != nil {
					return nil, err
				}
			}
		},
	},
	{
		Name: "slot-move", What: "the slots of two rooms move to other primaries", Profiles: []string{Cluster},
		evicts: true,
		inject: func(ctx context.Context, i *injection) (heal, error) {
			all := i.run.store
			for range 2 {
				room := i.room()
				to, err := all.moveSlot(ctx, room, i.random.IntN(2))
				for err != nil { // the servers may not agree yet on the owner of the slot
					// another fault has filled the servers; the slot can move after it
					if strings.Contains(err.Error(), "OOM") {
						i.on = strings.TrimPrefix(i.on+", "+room+" at the end", ", ")
						return func(ctx context.Context) error { _, err := all.moveSlot(ctx, room, 0); return err }, nil
					}
					if pause.For(ctx, 10*lookPause) != nil {
						return nil, err
					}
					to, err = all.moveSlot(ctx, room, i.random.IntN(2))
				}
				i.on = strings.TrimPrefix(i.on+", "+room+" to "+to.Name, ", ")
			}
			return nil, nil
		},
	},
}
