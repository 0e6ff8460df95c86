package coordinator

import (
	"context"
	"errors"
	"fmt"
	"time"

	"roomd/lockmgr"
	"roomd/lockmgr/redisconn/pause"
	"roomd/room"
	"roomd/room/coordinator/internal/store"
)

// Imported is what becomes of a list of users.
type Imported struct {
	Users   []string // who have seats, in the order of the list
	Skipped []SkippedEntry
	Backup  string // the key that the list has now; "" if nothing was written
}

// SkippedEntry is an entry of a list that has no seat.
type SkippedEntry struct {
	Index int // in the list, from 0
	Text  string
	Why   error
}

var (
	// ErrNoList: there is no list to import, or not any more.
	ErrNoList = store.ErrNoList

	// ErrNobody: no entry of a list is a user who can be seated. Nothing was written.
	ErrNobody = errors.New("no entry of the list is a user who can be seated")

	errTwice = errors.New("stands in the list before")
)

// Import makes a room of the list of users that another program keeps under the key Room:<id>:Users (see
// [Coordinator.FindForeign]): a list of names in Redis, or a string with a JSON array of names or whole numbers. Without write
// it only says what would become of it. The users' seats are reserved, in the order of the list, as by [room.Reserve],
// under this coordinator's name: they are theirs for as long as it lives, and for the grace of the other nodes after that. An
// entry that cannot be seated is skipped. The list stays, under another key, without a TTL.
//
// It holds the room's lock meanwhile, so the other program may run if it respects that. All of it is written in one step, or
// nothing.
//
// It fails with ErrNoList, ErrNobody, [room.ErrForeign], [room.ErrBusy], [room.ErrUnavailable], [room.ErrClosed] or the cause
// of ctx, and then nothing was written; or with [room.ErrUnknown].
func (c *Coordinator) Import(ctx context.Context, id string, write bool) (Imported, error) {
	if err := room.CheckID(id); err != nil {
		return Imported{}, err
	}
	end, err := c.workers.begin()
	if err != nil {
		return Imported{}, err
	}
	defer end()
	i := importer{ws: c.workers, id: id, session: store.NewName()}
	if !write {
		list, err := c.store.ReadList(ctx, id)
		if err != nil {
			return Imported{}, err
		}
		_, done, err := i.seat(list, "")
		return done, err
	}
	return i.run(ctx)
}

// importer is one Import.
type importer struct {
	ws          *workers
	id, session string
}

// run holds the room's lock, again if it is lost, or the list has changed, before anything is written.
func (i *importer) run(ctx context.Context) (done Imported, err error) {
	limited, cancel := context.WithTimeoutCause(ctx, i.ws.opts.LockWait, errLockWait)
	defer cancel()
	defer context.AfterFunc(i.ws.life.life, cancel)()
	for {
		done, err = i.hold(limited)
		again := errors.Is(err, store.ErrLost) || errors.Is(err, store.ErrStale)
		switch {
		case again && limited.Err() == nil:
			continue
		case err == nil, errors.Is(err, ErrNoList), errors.Is(err, ErrNobody), errors.Is(err, room.ErrForeign), errors.Is(err, room.ErrUnknown):
			return done, err
		case i.ws.life.life.Err() != nil:
			return done, room.ErrClosed
		case ctx.Err() != nil:
			return done, context.Cause(ctx)
		case limited.Err() != nil:
			i.ws.checkTTL(i.id)
			return done, fmt.Errorf("room %s: %w: %w", i.id, room.ErrBusy, err)
		}
		return done, fmt.Errorf("room %s: %w: %w", i.id, room.ErrUnavailable, err)
	}
}

// hold makes the room under its lock. It fails with store.ErrLost or store.ErrStale if that may be tried again.
func (i *importer) hold(ctx context.Context) (done Imported, err error) {
	ws := i.ws
	registration := ws.node.Registration(i.id)
	defer registration.Close()
	if err := registration.Open(ctx); err != nil {
		return done, err
	}
	locks, err := ws.locks.AcquireAll(ctx, i.id)
	if errors.Is(err, lockmgr.ErrLost) {
		err = fmt.Errorf("%w: %w", store.ErrLost, err)
	}
	if err != nil {
		return done, err
	}
	defer func() {
		release, cancel := context.WithTimeout(ws.life.life, ws.opts.LockTTL)
		defer cancel()
		_ = locks.Release(release) // what is not released expires
	}()
	if !registration.Valid() {
		return done, store.ErrLost
	}
	list, err := ws.store.ReadList(ctx, i.id)
	if err != nil {
		return done, err
	}
	r, done, err := i.seat(list, registration.Node())
	if err != nil {
		return done, err
	}
	c := ws.store.Prepare(r, ws.store.KeysOf(i.id), store.Hold{Node: registration.Node(), Token: locks.Lock(i.id).Token(), Moves: true})
	if err := i.commit(c, list); err != nil {
		return done, err
	}
	ws.committed(r, c)
	done.Backup = list.Backup
	return done, nil
}

// seat reserves seats for the users of a list in a new room. It fails with ErrNobody.
func (i *importer) seat(list store.List, node string) (r *room.Room, done Imported, err error) {
	r = room.NewRoom(i.id, room.Position{}, make(map[string]room.Member))
	rules, by := i.ws.opts.Rules, room.Origin{Node: node, At: i.ws.timers.Now()}
	for n, entry := range list.Entries {
		user, err := entry.Text, entry.Err
		if err == nil {
			user, err = room.ParseUser(user)
		}
		if _, is := r.Member(user); is && err == nil {
			err = errTwice
		}
		if err == nil {
			_, err = r.Apply(room.Reserve{Session: i.session, Users: []string{user}}, rules, by)
		}
		if err != nil {
			done.Skipped = append(done.Skipped, SkippedEntry{n, entry.Text, err})
			continue
		}
		done.Users = append(done.Users, user)
	}
	if len(done.Users) == 0 && len(done.Skipped) > 0 {
		return r, done, ErrNobody
	}
	return r, done, nil
}

// commit writes the room. When the reply is lost it sends the request again, which tells whether it was carried out.
func (i *importer) commit(c *store.Commit, list store.List) error {
	request, err := i.ws.store.NewImport(i.ws.locks, c, list)
	if err != nil {
		return err
	}
	defer request.Close()
	ctx, cancel := context.WithTimeout(i.ws.life.life, 2*i.ws.opts.LockTTL)
	defer cancel()
	for again := false; ; again = true {
		attempt, end := context.WithTimeout(ctx, i.ws.opts.LockTTL/2)
		err := request.Send(attempt)
		end()
		switch {
		case err == nil || store.IsDecided(err) && !again:
			return err
		case store.IsDecided(err): // an earlier one may have been carried out, and the room have changed since
			return fmt.Errorf("room %s: %w: %w", i.id, room.ErrUnknown, err)
		}
		i.ws.logs.replies.Happened(err, "room", i.id)
		if pause.For(ctx, max(i.ws.opts.LockPoll, 10*time.Millisecond)) != nil {
			return fmt.Errorf("room %s: %w: %w", i.id, room.ErrUnknown, err)
		}
	}
}
