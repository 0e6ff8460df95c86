package referee

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"time"

	"roomd/room"
	"roomd/transport/client"
	"roomd/transport/protocol"
)

// session is a referee's time in a room. It compares the room with the record in its data (mark), so it does not
// matter which referee has seen the events.
type session struct {
	cfg   *Config
	room  *client.Room
	moves []client.Change // moves that are not handled yet
	epoch string          // of known
	known uint64          // the least version that the next step needs
	here  bool            // the room has the settings of cfg
}

// maxWhy is how much of a refusal the player gets, in bytes, because the text may quote the player's move.
const maxWhy = 200

var (
	errGame  = errors.New("the game cannot go on")
	errAgain = errors.New("changes were missed, watching anew")
)

// run plays until ctx ends, or fails: with errAgain, the room has to be watched again.
func (s *session) run(ctx context.Context, changes <-chan client.Change) error {
	var again <-chan time.Time
	for first := true; ; {
		select {
		case change, goesOn := <-changes:
			switch {
			case !goesOn:
				return context.Cause(ctx)
			case change.Type == client.ChangeSnapshot && !first:
				return errAgain // messages may be missing that the room has kept
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
			s.cfg.log().Debug("trying again", "room", s.room.ID(), "error", err)
			again = time.After(100 * time.Millisecond)
		}
	}
}

// step handles the events so far in one version. Those that do not fit wait for the next step.
func (s *session) step(ctx context.Context) error {
	view := s.room.View()
	if view.Version == 0 || view.Epoch == s.epoch && view.Version < s.known {
		return nil // the missing change will come
	}
	txn, rest, err := s.plan(view)
	if err != nil {
		return err
	}
	if len(txn.Actions) == 0 {
		s.moves, s.here = nil, true
		return nil
	}
	reply, err := s.cfg.Client.Txn(ctx, s.room.ID(), txn.Actions, client.Expect(view.Epoch, view.Version))
	if conflict, is := errors.AsType[*client.ConflictError](err); is {
		s.epoch, s.known = conflict.Epoch, conflict.Version
		return err
	}
	if err != nil {
		return err
	}
	s.moves, s.epoch, s.known, s.here = rest, reply.Epoch, reply.Version, true
	return nil
}

// plan lets the game handle the events so far, or as many as fit one request. It returns a txn with the game's
// changes, and the moves that are left.
func (s *session) plan(view client.View) (txn protocol.Request, rest []client.Change, err error) {
	for most := math.MaxInt; ; {
		t, game, fresh, err := s.open(view)
		if err != nil {
			return txn, nil, err
		}
		game, calls, rest, err := s.heed(t, game, most)
		if err != nil {
			return txn, nil, err
		}
		var data protocol.JSON
		if calls > 0 || fresh {
			data, err = t.log.write(game)
		}
		if err := errors.Join(err, t.wrong); err != nil {
			return txn, nil, fmt.Errorf("%w: %w", errGame, err)
		}
		txn = protocol.Request{ID: protocol.MaxID, Action: protocol.ActionTxn, Room: s.room.ID(),
			Actions: t.parts(data), Expect: &view.Version, Epoch: view.Epoch}
		size := len(protocol.AppendRequest(nil, &txn))
		switch {
		case len(txn.Actions) <= protocol.MaxTxn && size <= protocol.MaxFrame:
			return txn, rest, nil
		case calls <= 1:
			return txn, nil, fmt.Errorf("%w: one call does %d things, in %d bytes, and there may be %d and %d",
				errGame, len(txn.Actions), size, protocol.MaxTxn, protocol.MaxFrame)
		}
		most = calls / 2
	}
}

// open returns the table and the room's game. fresh says that the game is new: the room has none, or others than
// admins could have set it.
func (s *session) open(view client.View) (t *Table, game Game, fresh bool, err error) {
	t = &Table{view: view, room: s.room.ID(), secret: s.cfg.Secret}
	game = s.cfg.New()
	data := view.Data
	if view.Settings.Data != room.DataAdmins {
		data = ""
		for name := range view.Timers {
			t.StopTimer(name)
		}
	}
	settings := view.Settings
	if s.cfg.Settings != nil && !s.here {
		settings = *s.cfg.Settings
	}
	settings.Data, settings.History = room.DataAdmins, max(settings.History, History)
	if settings != view.Settings {
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

// heed calls the game for the events that the table's record lacks, up to most times, or more for the moves of one
// version. It returns the game after that, the number of calls, and the moves that are left.
func (s *session) heed(t *Table, game Game, most int) (now Game, calls int, rest []client.Change, err error) {
	var ended []string // collected before the game sets other timers
	for _, name := range t.log.Timers {
		if _, runs := t.view.Timers[name]; !runs {
			ended = append(ended, name)
		}
	}
	t.log.Timers = slices.DeleteFunc(t.log.Timers, func(name string) bool { return slices.Contains(ended, name) })
	for _, user := range t.log.Users {
		if !t.log.stays(t.view, user) && calls < most {
			t.log.Users, t.log.Hands = without(t.log.Users, user), without(t.log.Hands, user)
			game.Left(t, user)
			calls++
		}
	}
	for _, u := range t.view.Users {
		if !slices.Contains(t.log.Users, u.User) && calls < most {
			t.log.Users = append(t.log.Users, u.User)
			if u.Private != "" { // not dealt by the game
				t.Deal(u.User, nil)
			}
			game.Joined(t, u.User)
			calls++
		}
	}
	for _, name := range ended {
		switch {
		case slices.Contains(t.log.Timers, name): // the game has set it again since
		case calls < most:
			game.Timer(t, name)
			calls++
		default:
			t.log.Timers = append(t.log.Timers, name)
		}
	}
	moves := t.log.behind(s.moves)
	for i, move := range moves {
		// moves of one version are handled together
		if calls >= most && (i == 0 || move.Version != moves[i-1].Version) {
			return game, calls, moves[i:], nil
		}
		if t.has(move.User) { // others are ignored, such as the referee's own messages
			if game, err = s.move(t, game, move); err != nil {
				return nil, 0, nil, err
			}
			calls++
		}
		t.log.Epoch, t.log.Moved = move.Epoch, move.Version
	}
	return game, calls, nil, nil
}

// move makes one move, or tells its player why the game refuses it. It returns the game after that.
func (s *session) move(t *Table, game Game, move client.Change) (after Game, err error) {
	before, err := json.Marshal(game)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", errGame, err)
	}
	table := *t
	table.does, table.hands = slices.Clone(t.does), maps.Clone(t.hands)
	why := game.Moved(&table, move.User, move.Data)
	if why == nil {
		*t = table
		return game, nil
	}
	t.Say(map[string]string{"refused": why.Error()[:min(len(why.Error()), maxWhy)]}, move.User)
	after = s.cfg.New()
	if err := json.Unmarshal(before, after); err != nil {
		return nil, fmt.Errorf("%w: %w", errGame, err)
	}
	return after, nil
}
