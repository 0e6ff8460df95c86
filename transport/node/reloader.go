package node

import (
	"context"
	"log/slog"
	"reflect"

	"roomd/lockmgr/redisconn/redisurl"
	"roomd/transport/webhook"
)

// reloader applies changes of the configuration to a running node. It is used by one goroutine.
type reloader struct {
	cfg   config // in force
	parts Config // at the node's start
	node  *Node
	level *slog.LevelVar
	log   *slog.Logger
}

// serve reads the file again at each SIGHUP. It returns when the node must stop; failed: it cannot listen any more.
func (r *reloader) serve(ctx context.Context, super *supervisor) (failed bool) {
	for {
		select {
		case <-ctx.Done():
			return false
		case <-r.node.DrainRequested():
			r.log.Info("an operator asks this node to stop, by the API of some node")
			return false
		case err := <-r.node.Failed():
			r.log.Error("stopped listening", "error", err)
			return true
		case <-r.cfg.hangups:
			super.reloading()
			r.reload()
			super.reloaded()
		}
	}
}

// reload reads the configuration again, and applies live changes. It logs changes that need a restart. If anything in
// the file is unusable, nothing changes.
func (r *reloader) reload() {
	fresh, err := r.cfg.reread()
	if err == nil {
		err = fresh.file.locate(r.change(fresh))
	}
	if err != nil {
		r.log.Error("the configuration cannot be used, everything stays as it is", "error", err)
	}
}

func (r *reloader) change(fresh config) error {
	changes, next, err := r.compare(fresh)
	if err != nil {
		return err
	}
	wanted := r.parts
	// kong has already checked these values of fresh
	wanted.Room, wanted.Serve, wanted.Webhooks = fresh.rooms(), fresh.clients(), webhook.Config{}
	wanted.Serve.Auth = r.parts.Serve.Auth
	if err := wanted.Validate(); err != nil {
		return inFlags(err)
	}
	parts := Config{Serve: next.clients(), Settings: next.labels()}
	parts.Webhooks.Timeout = next.WebhookTimeout
	if err := r.node.Reload(parts); err != nil {
		return inFlags(err)
	}
	r.level.Set(next.level())
	r.cfg = next
	live := 0
	for _, c := range changes {
		if c.live {
			live++
			r.log.Info("a setting has changed", "setting", c.flag, "was", c.was, "is", c.is)
		} else {
			r.log.Warn("a setting stays as it is: to change it, restart the node", "setting", c.flag, "is", c.was,
				"wanted", c.is)
		}
	}
	fresh.file.warn(r.log)
	r.log.Info("the configuration was read again", "changed", live, "need_restart", len(changes)-live)
	return nil
}

// change is a setting that differs between file and node.
type change struct {
	flag    string
	was, is string // safe for the log
	live    bool
}

// compare returns the differences of fresh, and the configuration in force once its live changes are applied.
func (r *reloader) compare(fresh config) (changes []change, next config, err error) {
	wanted := fresh.Redis
	if wanted != redisurl.Embedded {
		db, err := new(RedisFiles).Open(wanted)
		if err != nil {
			return nil, next, err
		}
		defer db.Close()
		wanted = db.String()
	}
	after := &cli{Serve: r.cfg}
	was, err := settings(after, r.parts.Redis.String())
	if err != nil {
		return nil, next, err
	}
	is, err := settings(&cli{Serve: fresh}, wanted)
	if err != nil {
		return nil, next, err
	}
	for i, old := range was {
		if reflect.DeepEqual(old.Target.Interface(), is[i].Target.Interface()) {
			continue
		}
		c := change{flag: old.Name, was: old.shown, is: is[i].shown, live: old.Tag.Has("live")}
		if c.live {
			old.Target.Set(is[i].Target)
		}
		changes = append(changes, c)
	}
	return changes, after.Serve, nil
}
