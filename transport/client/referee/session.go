package referee

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"roomd/room"
	"roomd/transport/client"
	"roomd/transport/protocol"
)

// session is a referee's time in a room. It goes by what the room is like now, beside what it had heeded when it last wrote: so it is all the
// same which of them has seen what happen.
type session struct {
	*Config
	room  *client.Room
	moves []client.Change // that are not heeded yet
	epoch string          // with known: the room is to get there before the next step
	known uint64
}

var (
	errGame  = errors.New("the game cannot go on")
	errAgain = errors.New("changes were missed, watching anew")
)

// run plays until ctx ends, or the room has to be watched anew.
func (s *session) run(ctx context.Context, changes <-chan client.Change) error {
	var again <-chan time.Time
	for first := true; ; {
		select {
		case change, goesOn := <-changes:
			switch {
			case !goesOn:
				return context.Cause(ctx)
			case change.Type == client.ChangeSnapshot && !first:
				return errAgain // messages may be missing, which the room has kept
			case change.Type == protocol.ChangeMessage && change.Data != "" && change.User != "":
				s.moves = append(s.moves, change)
			}
			if first = false; change.More || len(changes) > 0 {
				continue
			}
		case <-again:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
		again = nil
		err := s.step(ctx)
		if err != nil && !passes(err) {
			return err
		}
		if err != nil {
			s.log().Debug("trying again", "room", s.room.ID(), "error", err)
			again = time.After(100 * time.Millisecond)
		}
	}
}

// step heeds what has happened, in one version.
func (s *session) step(ctx context.Context) error {
	view := s.room.View()
	if view.Version == 0 || view.Epoch == s.epoch && view.Version < s.known {
		return nil // the change that is missing comes
	}
	t, game, fresh, err := s.open(view)
	if err != nil {
		return err
	}
	game, changed, err := s.heed(t, game)
	if err != nil {
		return err
	}
	changed = changed || fresh
	var data protocol.JSON
	if changed {
		data, err = t.log.write(game)
	}
	if err := errors.Join(err, t.wrong); err != nil {
		return fmt.Errorf("%w: %w", errGame, err)
	}
	parts := t.parts(data)
	if len(parts) == 0 {
		s.moves = nil
		return nil
	}
	reply, err := s.Client.Txn(ctx, s.room.ID(), parts, client.Expect(view.Epoch, view.Version))
	if conflict, is := errors.AsType[*client.ConflictError](err); is {
		s.epoch, s.known = conflict.Epoch, conflict.Version
		return err
	}
	if err != nil {
		return err
	}
	s.moves, s.epoch, s.known = nil, reply.Epoch, reply.Version
	return nil
}

// open returns the table, and the game as the room has it: a new one, if it has none, or if others could have set it.
func (s *session) open(view client.View) (t *Table, game Game, fresh bool, err error) {
	t = &Table{view: view, room: s.room.ID(), secret: s.Secret}
	game = s.New()
	data := view.Data
	if settings := view.Settings; settings.Data != room.DataAdmins || settings.History < History {
		if settings.Data != room.DataAdmins {
			data = ""
		}
		settings.Data, settings.History = room.DataAdmins, History
		t.Do(protocol.Request{Action: protocol.ActionConfigure, Settings: &settings})
	}
	if data == "" {
		return t, game, true, nil
	}
	read := struct {
		Referee *mark `json:"referee"`
	}{&t.log}
	if err = data.Decode(&read); err == nil {
		err = data.Decode(game)
	}
	if err != nil {
		err = fmt.Errorf("%w: its data cannot be read: %w", errGame, err)
	}
	return t, game, false, err
}

// heed calls the game for all that has happened since it was written. It returns the game after that, and whether something has.
func (s *session) heed(t *Table, game Game) (now Game, changed bool, err error) {
	ended := slices.Collect(func(yield func(string) bool) { // before the game sets others
		for _, name := range t.log.Timers {
			if _, runs := t.view.Timers[name]; !runs && !yield(name) {
				return
			}
		}
	})
	t.log.Timers = slices.DeleteFunc(t.log.Timers, func(name string) bool { return slices.Contains(ended, name) })
	for _, user := range slices.Clone(t.log.Users) {
		if !t.has(user) {
			t.log.Users = slices.DeleteFunc(t.log.Users, func(u string) bool { return u == user })
			game.Left(t, user)
			changed = true
		}
	}
	for _, u := range t.view.Users {
		if !slices.Contains(t.log.Users, u.User) {
			t.log.Users = append(t.log.Users, u.User)
			game.Joined(t, u.User)
			changed = true
		}
	}
	for _, name := range ended {
		if slices.Contains(t.log.Timers, name) { // the game has set it anew since
			continue
		}
		game.Timer(t, name)
		changed = true
	}
	moves := t.log.behind(s.moves)
	for _, move := range moves {
		if !t.has(move.User) {
			continue
		}
		after, refused, err := s.move(t, game, move)
		if err != nil {
			return nil, false, err
		}
		game, changed = after, changed || !refused
	}
	if n := len(moves); n > 0 {
		t.log.Epoch, t.log.Moved = moves[n-1].Epoch, moves[n-1].Version
	}
	return game, changed, nil
}

// move makes one move, or tells who proposed it why not, and returns the game after that.
func (s *session) move(t *Table, game Game, move client.Change) (after Game, refused bool, err error) {
	before, err := json.Marshal(game)
	if err != nil {
		return nil, false, fmt.Errorf("%w: %w", errGame, err)
	}
	table := *t
	table.log.Timers, table.does, table.hands = slices.Clone(t.log.Timers), slices.Clone(t.does), maps.Clone(t.hands)
	why := game.Moved(&table, move.User, move.Data)
	if why == nil {
		*t = table
		return game, false, nil
	}
	t.Say(map[string]string{"refused": why.Error()}, move.User)
	after = s.New()
	if err := json.Unmarshal(before, after); err != nil {
		return nil, false, fmt.Errorf("%w: %w", errGame, err)
	}
	return after, true, nil
}
