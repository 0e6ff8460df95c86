package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	"roomd/loadtest"
	"roomd/loadtest/audit"
	"roomd/lockmgr/redisconn/redisurl"
	"roomd/transport/node"
)

// errNotClean ends the program after its report.
var errNotClean = errors.New("the journals and Redis do not agree")

type auditCmd struct {
	Redis        string          `required:"" placeholder:"URL" help:"The Redis of the nodes, in the same form as their --redis. In ROOMLOAD_REDIS, or with --redis-password-file, other users of the machine do not see a password."`
	Files        node.RedisFiles `embed:""`
	audit.Config `embed:""`
	JSON         string `name:"json" placeholder:"FILE" help:"Write the report as JSON; - is standard output, and the summary then goes to standard error."`
	Quiet        bool   `help:"Print findings only, and no progress."`
}

func (c *auditCmd) Help() string {
	return `Examples:

  roomload audit --redis redis://127.0.0.1:6379
  roomload audit --redis redis+cluster://a:7000,b:7000 --room 'table-*'
  roomload audit --redis rediss://auditor@h:6379 --redis-password-file password --redis-ca ca.pem
  roomload audit --redis redis://127.0.0.1:6379 --json - --quiet | jq '.findings[].rule'

Nodes with --journal write each commit of a room to the stream Room:<id>:Log. The audit
replays it with rules of its own, and compares the outcome with the room's members,
settings, data, bans, removed users and expiry. Each entry names the one before by a hash, so
an entry that somebody changed is found, too. It changes nothing, and nodes may go on
meanwhile: the end of a journal and the room are read in one step.

A finding names the room, the version, and two sides that do not fit together:

  room 42, version 17, entry 1795317206151-0: seat taken twice
      the entry says  "李四" joins on seat 3
      before it       "张三" sits on seat 3, which version 12 mentions first

A journal that was trimmed begins in the middle of its room; what it does not say is not
judged. Rooms without a journal are counted and named. A version gap comes from nodes that
were started with another --journal, or somebody has deleted entries.

It only reads, and may have a user of its own in Redis (+cluster is for a Redis Cluster; with
--key-prefix eu: the keys are %R~eu:Room:*):
  ACL SETUSER auditor on >secret %R~Room:* +@read +@scripting +@connection +cluster

It ends with 0 if nothing was found, with 1 if something was, or if Redis failed, and with 2
if it was started wrongly.`
}

// Validate is called by kong.
func (c *auditCmd) Validate() error {
	switch {
	case c.Most < 1:
		return fmt.Errorf("--most is %d, it must be at least 1", c.Most)
	case c.Rooms == "":
		return errors.New("--room is empty, it must be a pattern")
	case c.Redis == redisurl.Embedded:
		return errors.New("--redis is embedded, which has no rooms: give the URL of the nodes' Redis")
	}
	db, err := c.Files.Open(c.Redis)
	switch {
	case errors.As(err, new(node.UseError)):
		return err
	case err == nil: // otherwise Run reports a bad file
		db.Close()
	}
	return cmp.Or(loadtest.CheckKeyPrefix(c.KeyPrefix), c.Config.Validate())
}

// Run is called by kong.
func (c *auditCmd) Run(ctx context.Context, std streams) error {
	db, err := c.Files.Open(c.Redis)
	if err != nil {
		return err
	}
	defer db.Close()
	client := db.NewClient()
	defer client.Close()
	cfg, done := c.Config, func() {}
	if !c.Quiet {
		cfg.Progress, done = newStatus(std.stderr)
	}
	report, err := audit.Run(ctx, client, cfg)
	done()
	if err != nil {
		return fmt.Errorf("%s: %w", db, db.Explain(ctx, err))
	}
	if err := c.print(report, std); err != nil {
		return err
	}
	if !report.Clean() {
		return errNotClean
	}
	return nil
}

func (c *auditCmd) print(report *audit.Report, std streams) error {
	text := std.stdout
	if err := writeJSON(c.JSON, std.stdout, report); err != nil {
		return err
	}
	if c.JSON == "-" {
		text = std.stderr
	} else if err := report.WriteFindings(text); err != nil {
		return err
	}
	if c.Quiet {
		return nil
	}
	return report.WriteSummary(text)
}
