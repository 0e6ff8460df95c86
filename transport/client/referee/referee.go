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

// Game is the state of a game in one room, and its rules. It is a pointer to what is the room's data: what
// [json.Marshal] makes of it, which has to be an object without a member "referee", everybody sees. What nobody may
// see does not belong there: see [Table.Deal] and [Table.Rand].
type Game interface {
	// Joined says that a user has become a member, to whom nothing is dealt yet.
	Joined(t *Table, user string)
	// Left says that a member has gone, for whatever reason, and with it what was dealt to it. Who is away is a member.
	Left(t *Table, user string)
	// Moved says what a member proposes: the data of what it said. An error refuses it, and nothing is changed: who
	// proposed it is told, by a message with the data {"refused": the first 200 bytes of the text}.
	Moved(t *Table, user string, move protocol.JSON) error
	// Timer says that a timer has fired, or that somebody else has cancelled it.
	Timer(t *Table, name string)
}

// History is how many messages a refereed room keeps, at least: the moves that wait for a referee.
const History = 100

// Retry is how often a referee asks whether a room has lost the one that it has.
const Retry = time.Second

// Config says which game a referee keeps, and how. Client and New are required. It is not changed by its methods.
type Config struct {
	// Client is connected with a token of the role admin. The server allows an admin any number of rooms and requests.
	Client *client.Client
	// New returns a game that has not begun: that of a room without data.
	New func() Game
	// Settings are those of the game's rooms. The referee gives them to a room that somebody has begun each time that
	// it comes there: when it is elected, and when it has missed something, as where Redis comes back empty. In
	// between a host or admin may change them. Data are set by admins only and History is at least [History],
	// whatever it says. Serve fails if more users sit there than Capacity lets in. Nil leaves the other settings as
	// they are.
	Settings *room.Settings
	// Locks makes this one of several referees, of whom each room has one at a time. Nil means that nobody else is
	// there, or that both try.
	Locks *lockmgr.Manager
	// Secret is what chance comes from: see [Table.Rand]. All referees of a room have the same, of at least 16 bytes.
	Secret []byte
	// Log says when this is the referee of a room, and what goes wrong. Nil is silent.
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

// Serve is the referee of a room until ctx ends, or waits to be. The room has data that only admins set, from then
// on, and a history. It returns the cause of ctx; the client's error, when that has ended; or what a game did that
// cannot be, such as data which is too long.
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

// passes reports whether it helps to try again.
func passes(err error) bool {
	if refused, is := errors.AsType[*protocol.Error](err); is {
		return refused.Retry || errors.Is(err, protocol.ErrUnknown) || errors.Is(err, protocol.ErrNotMember) ||
			errors.Is(err, protocol.ErrConflict)
	}
	return !errors.Is(err, errGame) && !errors.Is(err, lockmgr.ErrInvalid) && !errors.Is(err, lockmgr.ErrClosed)
}

// elected is the referee, if nobody else is.
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

// play watches the room, and plays, until ctx ends.
func (c *Config) play(ctx context.Context, id string) error {
	for {
		if err := c.watch(ctx, id); !errors.Is(err, errAgain) {
			return err
		}
	}
}

// watch is play until the room has to be watched anew.
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
	case errors.Is(err, errAgain): // a watch that goes on would get no messages of before
		return cmp.Or(room.Unwatch(whole), err)
	}
	bounded, cancel := context.WithTimeout(context.WithoutCancel(ctx), Retry)
	defer cancel()
	_ = room.Unwatch(bounded) // a client that is not connected goes on until it is
	return err
}

// Run is the referee of many rooms: of those in the last list that rooms has yielded. When ctx ends it is the referee
// of none any more, and it returns when rooms, which has to look at ctx where it waits, ends or yields again, and all
// it has begun has stopped. What a game of one room does that cannot be is logged, and tried again when the next list
// has the room.
func (c *Config) Run(ctx context.Context, rooms iter.Seq[[]string]) error {
	if err := c.check(); err != nil {
		return err
	}
	var all sync.WaitGroup
	defer all.Wait()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel() // before the wait
	type serving struct {
		stop func()
		over chan struct{}
	}
	served := make(map[string]serving)
	for list := range rooms {
		if ctx.Err() != nil {
			break
		}
		listed := make(map[string]bool, len(list))
		for _, id := range list {
			listed[id] = true
			if is, there := served[id]; there {
				select {
				case <-is.over:
				default:
					continue
				}
			}
			room, stop := context.WithCancel(ctx)
			over := make(chan struct{})
			served[id] = serving{stop, over}
			all.Go(func() {
				defer close(over)
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

// RunLobby is [Config.Run] for the rooms that the lobby lists. It returns the lobby's error, too.
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
