package coordinator

import (
	"context"
	"errors"

	"roomd/room"
	"roomd/room/coordinator/internal/lobby"
)

// Lobby returns a list of the rooms that somebody is in, or that were configured and may be used. It
// has what this node has committed until now, and what other nodes had committed half a second ago; a
// room that Redis forgets, or a node changed in the moment in which it died, after a minute at
// most. No call searches Redis: nodes keep an index of the rooms there, from the first call on, which all share.
// The first one waits up to three seconds for it to be complete.
//
// It fails with [room.ErrUnavailable], [room.ErrClosed] or the cause of ctx.
func (c *Coordinator) Lobby(ctx context.Context) (*Lobby, error) { return c.lobby.Get(ctx) }

// NextLobby waits until the list of [Coordinator.Lobby] is another one than before, and returns it with the ids of
// the rooms in which the two differ. Nil is no list: then it does not wait, and returns no ids. It fails as Lobby does.
func (c *Coordinator) NextLobby(ctx context.Context, before *Lobby) (now *Lobby, ids []string, err error) {
	return c.lobby.Next(ctx, before)
}

// Wanted is what a caller of [Coordinator.Match] looks for.
type Wanted = lobby.Wanted

// NewIDLength is how many characters the id of a room that [Coordinator.Match] begins has behind Wanted.Prefix.
const NewIDLength = lobby.NewIDLength

// maxMatches is how many rooms Match tries before it begins one: in each others would have to be faster, or it would
// not let this user in.
const maxMatches = 20

// Match finds a room with labels and enough seats, the fullest first, or begins one, and has join take the seats: by
// a [room.Join] or a [room.Reserve] with these settings as Begin. A room that refuses, since others were faster, or
// it does not let this user in, is passed over. So users who look for the same at the same instant, on any nodes, sit
// together, and a new room begins only when all others that are known have no seats: of players who join rooms with
// these labels in no other way, all sit in full ones but the last.
//
// Usually that is two requests: one finds the room, and claims the seats, the other is the join. If that fails and
// has written nothing, the claim is given back; an error of join that is [room.ErrUnknown] leaves it to the next
// search of the index. It fails with the error of join in a room that nobody had found before, or of the last one,
// and with [room.ErrInvalid], [room.ErrUnavailable], [room.ErrClosed] or the cause of ctx.
func (c *Coordinator) Match(ctx context.Context, w Wanted,
	join func(ctx context.Context, id string, begin *room.Settings) (room.Result, error)) error {
	if w.Settings.Capacity == 0 {
		w.Settings.Capacity = c.opts.Rules.Seats() % room.MaxSeats
	}
	if err := w.Check(c.opts.Rules); err != nil {
		return err
	}
	var not []string
	for {
		last := len(not) == maxMatches
		found, err := c.lobby.Claim(ctx, w, last, not...)
		if err != nil {
			return err
		} else if found.Room == "" && w.NoNew != nil {
			return w.NoNew
		} else if found.Room == "" {
			return room.Forbid("no room that is allowed has these labels and free seats, and none may begin, "+
				"because no allowed name ends in * behind at most %d characters", room.MaxIDLength-NewIDLength)
		}
		var result room.Result
		if w.Allow != nil && !w.Allow(found.Room) { // the same request found it, with another token
			err = room.Forbid("the token does not allow room %s", found.Room)
		} else {
			result, err = join(ctx, found.Room, &found.Settings)
		}
		tried := lobby.Tried{Room: found.Room, At: room.Position{Epoch: result.Epoch, Version: result.Version},
			Members: result.Count(), Settings: result.Settings}
		switch {
		case err == nil:
			c.lobby.Settle(tried) // the user may have sat there before
		case !errors.Is(err, room.ErrUnknown): // the join may still be carried out
			c.lobby.GiveBack(ctx, w, found, tried)
		}
		// In a new room only others who were faster make a difference: a rule that refuses there does so in any.
		again := isTaken(err) || !found.New && isPassedOver(err)
		if !again || last {
			return err
		}
		not = append(not, found.Room)
	}
}

// isTaken reports whether an error says that others have been faster.
func isTaken(err error) bool {
	return errors.Is(err, room.ErrFull) || errors.Is(err, room.ErrRoomClosed) || errors.Is(err, room.ErrOtherLabels)
}

// isPassedOver reports whether an error says that a room will not do, and another one may.
func isPassedOver(err error) bool {
	return isTaken(err) || errors.Is(err, room.ErrSeatTaken) || errors.Is(err, room.ErrBanned) ||
		errors.Is(err, room.ErrForbidden) || errors.Is(err, room.ErrDuplicate) ||
		errors.Is(err, room.ErrNoRoom) // nobody has begun it yet
}
