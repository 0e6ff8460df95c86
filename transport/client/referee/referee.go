package referee

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"sync"
	"time"

	"log/slog"

	"roomd/lockmgr"
	"roomd/lockmgr/redisconn/pause"
	"roomd/room"
	"roomd/transport/client"
	"roomd/transport/protocol"
)

// Game is the state and the rules of a game in one room. It is a pointer to the state. The state's JSON form, made by
// [json.Marshal], is the room's data, and everybody sees it: it has to be an object without a member "referee". For
// secrets use [Table.Deal] and [Table.Rand].
type Game interface {
	// Joined says that a user has become a member. The user has no hand yet.
	Joined(t *Table, user string)
	// Left says that a member has gone, for whatever reason, together with its hand. A user who is away is still a
	// member.
	Left(t *Table, user string)
	// Moved handles a move that a member proposes: the data of its message. An error refuses the move, and changes
	// nothing: the member gets a message with the data {"refused": the first 200 bytes of the text}.
	Moved(t *Table, user string, move protocol.JSON) error
	// Timer says that a timer has fired, or that somebody else has cancelled it.
	Timer(t *Table, name string)
}

// History is the least number of messages that a refereed room keeps, so that moves can wait for a referee.
const History = 100

// Retry is how often a waiting referee checks whether the room has lost its referee.
const Retry = time.Second

// Config describes a game and its referee. Client and New are required. Its methods do not change it.
type Config struct {
	// Client is connected with an admin's token. The server allows an admin any number of rooms and requests.
	Client *client.Client
	// New returns a game that has not started. If a room has data, the referee decodes it into such a game.
	New func() Game
	// Settings are for the game's rooms. The referee applies them to a room when it is elected, and when it has
	// missed something, as after Redis came back empty. In between, a host or admin may change them. Whatever they
	// say, only admins may set data, and History is at least [History]. Serve fails if more users sit in the room
	// than Capacity allows. Nil leaves all settings except those two as they are.
	Settings *room.Settings
	// Locks lets several referees share rooms, with one at a time for each room. With nil there should be only one
	// referee: several would compete.
	Locks *lockmgr.Manager
	// Secret seeds [Table.Rand], which needs one of at least 16 bytes, the same for all referees of a room.
	Secret []byte
	// Log gets elections and errors. Nil is silent.
	Log *slog.Logger
}

func (c *Config) check() error {
	switch {
	case c.Client == nil:
		return errors.New("referee: Client is required")
	case c.New == nil:
		return errors.New("referee: New is required")
	case len(c.Secret) > 0 && len(c.Secret) < 16:
		return fmt.Errorf("referee: Secret must have 16 bytes or more, not %d", len(c.Secret))
	}
	return nil
}

func (c *Config) log() *slog.Logger { return cmp.Or(c.Log, slog.New(slog.DiscardHandler)) }

// Serve is the referee of a room, or waits to become it, until ctx ends. Once a room has a referee, only admins may
// set its data, and it keeps messages. Serve returns the cause of ctx; the client's error, when the client has ended;
// an error of the game, such as data that is too long; or any other that a retry does not mend, such as a bad Config.
func (c *Config) Serve(ctx context.Context, room string) error {
	if err := c.check(); err != nil {
		return err
	}
	for {
		err := c.elected(ctx, room)
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if final := c.Client.Err(); final != nil {
			return final
		}
		if err != nil && !passes(err) {
			return fmt.Errorf("referee: room %s: %w", room, err)
		}
		if err != nil && !errors.Is(err, lockmgr.ErrHeld) {
			c.log().Warn("cannot be the referee now, trying again", "room", room, "error", err)
		}
		if pause.For(ctx, Retry) != nil {
			return context.Cause(ctx)
		}
	}
}

// passes reports whether a retry may help after err.
func passes(err error) bool {
	if refused, is := errors.AsType[*protocol.Error](err); is {
		return refused.Retry || errors.Is(err, protocol.ErrUnknown) || errors.Is(err, protocol.ErrNotMember) ||
			errors.Is(err, protocol.ErrConflict)
	}
	return !errors.Is(err, errGame) && !errors.Is(err, lockmgr.ErrInvalid) && !errors.Is(err, lockmgr.ErrClosed)
}

// elected plays as the room's referee. If another one holds the lock, the error is [lockmgr.ErrHeld].
func (c *Config) elected(ctx context.Context, room string) error {
	if c.Locks == nil {
		return c.play(ctx, room)
	}
	lock, err := c.Locks.TryAcquire(ctx, "Referee-"+room)
	if err != nil {
		return err
	}
	lock.KeepAlive()
	holds, cancel := lock.Context(ctx)
	defer cancel()
	c.log().Info("is the referee", "room", room, "fence", lock.Fence())
	err = c.play(holds, room)
	if lost := lock.Release(ctx); lost != nil && ctx.Err() == nil {
		err = cmp.Or(err, lost)
	}
	return err
}

// play watches the room and plays, until ctx ends or an error prevents it.
func (c *Config) play(ctx context.Context, id string) error {
	for {
		if err := c.watch(ctx, id); !errors.Is(err, errAgain) {
			return err
		}
	}
}

// watch is play with one watch: errAgain says that the room has to be watched again.
func (c *Config) watch(ctx context.Context, id string) error {
	room, err := c.Client.WatchHistory(ctx, id, History)
	if err != nil {
		return err
	}
	s := &session{cfg: c, room: room}
	whole := ctx
	ctx, cancel := context.WithCancel(ctx)
	changes := make(chan client.Change, 256)
	var pump sync.WaitGroup
	pump.Go(func() {
		defer close(changes)
		for change := range room.Changes(ctx) {
			select {
			case changes <- change:
			case <-ctx.Done():
				return
			}
		}
	})
	err = s.run(ctx, changes)
	cancel()
	pump.Wait()
	switch ended := room.Err(); {
	case ended != nil:
		return ended
	case errors.Is(err, errAgain): // only a new watch gets earlier messages
		return cmp.Or(room.Unwatch(whole), err)
	}
	bounded, cancel := context.WithTimeout(context.WithoutCancel(ctx), Retry)
	defer cancel()
	_ = room.Unwatch(bounded) // fails without a connection: then the client goes on watching
	return err
}

// Run is the referee of the rooms in the last list that rooms has yielded. When ctx ends, it stops being the referee
// of all of them, but returns only once rooms ends or yields again: rooms must watch ctx while it waits. If Serve
// fails for a room, Run logs the error, and tries that room again when the next list contains it. When Run returns,
// all its goroutines have ended. It returns ctx.Err(), or an error of a bad Config at once.
func (c *Config) Run(ctx context.Context, rooms iter.Seq[[]string]) error {
	if err := c.check(); err != nil {
		return err
	}
	var all sync.WaitGroup
	defer all.Wait()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel() // runs before the wait
	type serving struct {
		context.Context // ends when the referee of the room has stopped
		stop            context.CancelFunc
	}
	served := make(map[string]serving)
	for list := range rooms {
		if ctx.Err() != nil {
			break
		}
		listed := make(map[string]bool, len(list))
		for _, id := range list {
			listed[id] = true
			if is, there := served[id]; there && is.Err() == nil {
				continue
			}
			room, stop := context.WithCancel(ctx)
			served[id] = serving{room, stop}
			all.Go(func() {
				defer stop()
				if err := c.Serve(room, id); room.Err() == nil {
					c.log().Error("the referee has stopped", "room", id, "error", err)
				}
			})
		}
		for id, is := range served {
			if !listed[id] {
				is.stop()
				delete(served, id)
			}
		}
	}
	return ctx.Err()
}

// RunLobby is like [Config.Run] for the rooms that the lobby lists. It may also return the lobby's error.
func (c *Config) RunLobby(ctx context.Context, query client.LobbyQuery) error {
	var ended error
	err := c.Run(ctx, func(yield func(rooms []string) bool) {
		for list, err := range c.Client.Lobby(ctx, query) {
			if ended = err; err != nil {
				return
			}
			var rooms []string
			for _, room := range list.Rooms {
				rooms = append(rooms, room.Room)
			}
			if !yield(rooms) {
				return
			}
		}
	})
	return cmp.Or(err, ended)
}
