package coordinator

import (
	"context"
	"errors"

	"roomd/room"
	"roomd/room/coordinator/internal/lobby"
)

// Lobby returns a list of the rooms that have members, and of empty rooms that were configured, unless these are closed
// and not kept. It includes this node's commits up to now, and those of other nodes up to half a second ago; up to a
// minute ago where Redis lost the room, or the node died while changing it. No call searches Redis: nodes keep an index
// there and share it. The first call waits up to three seconds for the complete index.
//
// It fails with [room.ErrUnavailable], [room.ErrClosed] or the cause of ctx.
func (c *Coordinator) Lobby(ctx context.Context) (*Lobby, error) { return c.lobby.Get(ctx) }

// NextLobby waits until the list of [Coordinator.Lobby] differs from an earlier one (before), and returns it with the
// ids of the rooms that differ. If before is nil it does not wait, and returns no ids. It fails as Lobby does.
func (c *Coordinator) NextLobby(ctx context.Context, before *Lobby) (now *Lobby, ids []string, err error) {
	return c.lobby.Next(ctx, before)
}

// Wanted describes the room that a caller of [Coordinator.Match] looks for.
type Wanted = lobby.Wanted

// NewIDLength is how many characters follow Wanted.Prefix in the id of a room that [Coordinator.Match] begins.
const NewIDLength = lobby.NewIDLength

// maxMatches is how many rooms Match tries before it begins a new one.
const maxMatches = 20

// Match finds the fullest room with the labels and enough free seats, or chooses the id of a new one. Then it calls
// join, which takes the seats with a [room.Join] or a [room.Reserve] that has begin as its Begin, or with a
// [Coordinator.MoveParty]. If a room refuses, because others were faster or the room does not let this user in, Match
// tries the next. So users who look for the same at the same instant, on any nodes, sit together, and a new room begins
// only when no known one has seats: if single players join rooms with these labels in no other way, all rooms except the
// last are full.
//
// Usually that is two requests: one finds the room and claims the seats, the other is the join. If the join fails
// without writing, Match releases the claim; after [room.ErrUnknown] the next search for missing rooms releases it.
// Match fails with the error of the last join; with Wanted.NoNew or [room.ErrForbidden] if no room is found and none
// may begin; or with [room.ErrInvalid], [room.ErrUnavailable], [room.ErrClosed] or the cause of ctx.
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
		if w.Allow != nil && !w.Allow(found.Room) { // an earlier sending, with another token, found it
			err = room.Forbid("the token does not allow room %s", found.Room)
		} else {
			result, err = join(ctx, found.Room, &found.Settings)
		}
		tried := lobby.Tried{Room: found.Room, At: room.Position{Epoch: result.Epoch, Version: result.Version},
			Members: result.Count(), Settings: result.Settings}
		switch {
		case err == nil:
			c.lobby.Settle(tried) // the user may have sat there before
		case !errors.Is(err, room.ErrUnknown): // else the join may still be carried out
			c.lobby.GiveBack(ctx, w, found, tried)
		}
		// In a new room only faster users are a reason to try again: a rule that refuses there refuses everywhere.
		again := isTaken(err) || !found.New && isPassedOver(err)
		if !again || last {
			return err
		}
		not = append(not, found.Room)
	}
}

// isTaken reports whether err says that others were faster.
func isTaken(err error) bool {
	return errors.Is(err, room.ErrFull) || errors.Is(err, room.ErrRoomClosed) || errors.Is(err, room.ErrOtherLabels)
}

// isPassedOver reports whether another room may admit a user whom a room refused with err.
func isPassedOver(err error) bool {
	return isTaken(err) || errors.Is(err, room.ErrSeatTaken) || errors.Is(err, room.ErrBanned) ||
		errors.Is(err, room.ErrForbidden) || errors.Is(err, room.ErrDuplicate) ||
		errors.Is(err, room.ErrNoRoom) // nobody has begun it yet
}
