package roomd

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"roomd/lockmgr/redisconn/pause"
	"roomd/lockmgr/redisconn/redisurl"
	"roomd/room/coordinator"
)

const (
	// closeTimeout bounds how long "roomd import" takes to give its lease back.
	closeTimeout = 5 * time.Second

	// progressPause is how often it says how far it is.
	progressPause = 5 * time.Second
)

// importCmd is "roomd import".
type importCmd struct {
	config `embed:""`
	Write  bool          `env:"-" help:"Make the rooms. Without it import only says what it would do."`
	Hold   time.Duration `env:"-" default:"0s" placeholder:"0s" help:"Stay for so long afterwards, or until SIGINT, and keep the users' seats meanwhile. After that they have the nodes' --grace to come."`
}

// Help is shown by kong below the description.
func (*importCmd) Help() string {
	return `A program that kept the users of a room as a list under Room:<id>:Users, with LockRoom:<id> as its lock, leaves lists that roomd refuses to touch (with --key-prefix, under keys that begin with that). Import makes rooms of them: of lists of names in Redis, and of strings with a JSON array of names or whole numbers. Each user has a seat, in the order of the list, as one of a party has who has not come yet. The list itself stays, as Room:<id>:Users:imported-<ms since 1970>. Each room is made in one step under its lock, so both programs may run meanwhile; a second import finds nothing left to do.

Give it --redis and the other flags of a node. It ends with 1 if a list could not be imported, or an entry was skipped: a name that roomd does not take, one that stands there twice, or one for whom there is no seat.`
}

// errNotAll ends "roomd import" with 1.
var errNotAll = errors.New("import: not everything could be imported, see above")

// run writes a line for each list, others for what was skipped, and the sum.
func (c *importCmd) run(ctx context.Context, stdout, stderr io.Writer) error {
	if c.Redis == redisurl.Embedded {
		return useError{errors.New("--redis has to name the Redis that has the lists")}
	}
	log, _ := newLog(c.config, stderr)
	redis.SetLogger(redisLog{log})
	db, err := c.redisFlags.open()
	if err != nil {
		return err
	}
	defer db.Close()
	client := db.NewClient()
	defer client.Close()
	opts := c.rooms()
	opts.Log = log
	rooms, err := coordinator.New(client, opts)
	if err != nil {
		return inFlags(err)
	}
	defer func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), closeTimeout)
		defer cancel()
		_ = rooms.Close(ctx) // what is not given back expires
	}()
	var lists []coordinator.Foreign
	if err := rooms.FindForeign(ctx, func(f coordinator.Foreign) { lists = append(lists, f) }); err != nil {
		return fmt.Errorf("search for lists: %w", db.Explain(ctx, err))
	}
	slices.SortFunc(lists, func(a, b coordinator.Foreign) int { return strings.Compare(a.Key, b.Key) })
	sum := imports{write: c.Write, out: stdout}
	for last, n := time.Now(), 0; n < len(lists) && ctx.Err() == nil; n++ {
		if time.Since(last) > progressPause {
			last = time.Now()
			fmt.Fprintf(stderr, "%d of %d lists\n", n, len(lists))
		}
		done, err := rooms.Import(ctx, lists[n].Room, c.Write)
		sum.add(lists[n], done, err)
	}
	sum.end(len(lists))
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if c.Write && sum.users > 0 && c.Hold > 0 {
		fmt.Fprintf(stdout, "the seats are kept for %v, or until SIGINT\n", c.Hold)
		_ = pause.For(ctx, c.Hold)
	}
	if sum.failed+sum.skipped > 0 {
		return errNotAll
	}
	return nil
}

// imports are what has become of lists.
type imports struct {
	write                         bool
	out                           io.Writer
	rooms, users, failed, skipped int
}

// add writes what has become of one.
func (s *imports) add(list coordinator.Foreign, done coordinator.Imported, err error) {
	switch {
	case errors.Is(err, coordinator.ErrNoList): // somebody else was faster
		return
	case err != nil:
		s.failed++
		fmt.Fprintf(s.out, "failed  %s (%s): %v\n", list.Key, list.Type, err)
	case s.write:
		fmt.Fprintf(s.out, "made    room %s with %d users of %s (%s), which is %s now\n", list.Room, len(done.Users), list.Key, list.Type, done.Backup)
	default:
		fmt.Fprintf(s.out, "would make room %s with %d users of %s (%s)\n", list.Room, len(done.Users), list.Key, list.Type)
	}
	if err == nil {
		s.rooms, s.users = s.rooms+1, s.users+len(done.Users)
	}
	for _, entry := range done.Skipped {
		s.skipped++
		fmt.Fprintf(s.out, "skipped %s, entry %d, %.80q: %v\n", list.Key, entry.Index, entry.Text, entry.Why)
	}
}

// end writes the sum.
func (s *imports) end(lists int) {
	made := "made"
	if !s.write {
		made = "would be made, with --write"
	}
	fmt.Fprintf(s.out, "%d lists: %d rooms %s, with %d users; %d lists failed, %d entries skipped\n", lists, s.rooms, made, s.users, s.failed, s.skipped)
}
