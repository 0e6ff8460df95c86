package referee

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	mathrand "math/rand/v2"
	"slices"
	"time"

	"roomd/transport/client"
	"roomd/transport/protocol"
)

// Table is a room as a [Game] sees it and changes it, in one version. It is good until the method that got it returns.
type Table struct {
	view   client.View
	room   string
	secret []byte
	log    mark

	hands map[string]protocol.JSON // that were dealt now
	does  []protocol.Request       // besides
	wrong error                    // what the game did that cannot be
}

// Room returns the room's id.
func (t *Table) Room() string { return t.room }

// Users returns the members who have joined the game and not left it, in the order of their seats.
func (t *Table) Users() (users []string) {
	for _, u := range t.view.Users {
		if slices.Contains(t.log.Users, u.User) {
			users = append(users, u.User)
		}
	}
	return users
}

// View returns the room as it was before.
func (t *Table) View() client.View { return t.view }

// Deal gives a member private data, which the others do not see: the JSON form of hand, or nothing, if that is nil.
func (t *Table) Deal(user string, hand any) {
	data, err := json.Marshal(hand)
	if _, there := t.view.User(user); err == nil && !there {
		err = errors.New("who is not there")
	}
	if err != nil {
		t.wrong = errors.Join(t.wrong, fmt.Errorf("the hand of %s: %w", user, err))
	}
	if t.hands == nil {
		t.hands = make(map[string]protocol.JSON)
	}
	t.hands[user] = protocol.JSON(data)
	t.log.Hands = without(t.log.Hands, user)
	if string(data) != "null" {
		t.log.Hands = append(t.log.Hands, user)
	}
}

// Hand reads the private data of a member into what hand points to, and leaves it as it is if there is none.
func (t *Table) Hand(user string, hand any) error {
	data, dealt := t.hands[user]
	if u, there := t.view.User(user); there && !dealt {
		data = u.Private
	}
	return data.Decode(hand)
}

// SetTimer sets one of the table's timers, in the place of one of that name: after that time [Game].Timer is called.
// There may be 8, of at most 24 hours. The names are as [client.Room.SetTimer] has them.
func (t *Table) SetTimer(name string, in time.Duration) {
	t.forget(name)
	t.log.Timers = append(t.log.Timers, name)
	t.does = append(t.does, protocol.Request{Action: protocol.ActionTimer, Name: name, In: new(in.Milliseconds())})
}

// StopTimer cancels one of the table's timers, if it is set.
func (t *Table) StopTimer(name string) {
	t.forget(name)
	if _, set := t.view.Timers[name]; set {
		t.does = append(t.does, protocol.Request{Action: protocol.ActionTimer, Name: name})
	}
}

// forget takes back what was done with a timer.
func (t *Table) forget(name string) {
	t.log.Timers = without(t.log.Timers, name)
	t.does = slices.DeleteFunc(t.does, func(r protocol.Request) bool {
		return r.Action == protocol.ActionTimer && r.Name == name
	})
}

// has reports whether the user is a member whom the table does not throw out.
func (t *Table) has(user string) bool {
	_, is := t.view.User(user)
	return is && !slices.ContainsFunc(t.does, func(r protocol.Request) bool {
		return r.Action == protocol.ActionClose || r.Action == protocol.ActionKick && r.User == user
	})
}

// Say sends a message, the JSON form of data, to those of the users who are there, or to all.
func (t *Table) Say(data any, to ...string) {
	if len(to) > 0 {
		if to = slices.DeleteFunc(slices.Clone(to), func(user string) bool { return !t.has(user) }); len(to) == 0 {
			return
		}
	}
	text, err := json.Marshal(data)
	if err != nil {
		t.wrong = errors.Join(t.wrong, fmt.Errorf("a message: %w", err))
	}
	t.Do(protocol.Request{Action: protocol.ActionSay, Data: protocol.JSON(text), To: to})
}

// Kick makes a user leave who is there, and says why. Who is thrown out hears no message of the same version.
func (t *Table) Kick(user, why string) {
	if !t.has(user) {
		return
	}
	t.Do(protocol.Request{Action: protocol.ActionKick, User: user, Text: why})
}

// Do does something else in the same version: what a txn may have, but timers, and the data of the room.
func (t *Table) Do(action protocol.Request) { t.does = append(t.does, action) }

// Nonce returns a text that nobody has seen before, for [Table.Rand].
func (t *Table) Nonce() string { return rand.Text() }

// Rand returns what chance has in store for a nonce: always the same, for whichever referee, and nobody knows who has
// not [Config.Secret]. So a deck need not be kept anywhere: the game has the nonce with which it was shuffled in its
// data, where everybody may see it, and how many cards are gone. Take a new [Table.Nonce] for each deck. It panics
// without a Secret.
func (t *Table) Rand(nonce string) *mathrand.Rand {
	if len(t.secret) == 0 {
		panic("referee: Table.Rand needs Config.Secret")
	}
	mac := hmac.New(sha256.New, t.secret)
	mac.Write([]byte(nonce))
	return mathrand.New(mathrand.NewChaCha8([32]byte(mac.Sum(nil))))
}

// mark is what the referee has heeded, in the room's data.
type mark struct {
	Users  []string `json:"users"`            // who has joined and not left
	Hands  []string `json:"hands,omitempty"`  // who has been dealt something
	Timers []string `json:"timers,omitempty"` // that are set
	Epoch  string   `json:"epoch,omitempty"`  // of the last move
	Moved  uint64   `json:"moved,omitempty"`  // its version
}

// stays reports whether the user is a member since the game was told so: who has gone and come back has lost the hand.
func (m *mark) stays(view client.View, user string) bool {
	u, there := view.User(user)
	return there && (u.Private != "" || !slices.Contains(m.Hands, user))
}

// without returns names but one, in a slice of its own.
func without(names []string, name string) []string {
	return slices.DeleteFunc(slices.Clone(names), func(n string) bool { return n == name })
}

// behind returns the moves that are not heeded yet.
func (m *mark) behind(moves []client.Change) []client.Change {
	for i, move := range slices.Backward(moves) {
		if move.Epoch == m.Epoch && move.Version <= m.Moved {
			return moves[i+1:]
		}
	}
	return moves
}

// write returns the data of the room: the game, which has to be an object, and the mark.
func (m *mark) write(game Game) (protocol.JSON, error) {
	text, err := json.Marshal(game)
	if err != nil {
		return "", err
	}
	if len(text) == 0 || text[0] != '{' {
		return "", fmt.Errorf("its JSON form is no object: %.40s", text)
	}
	own, err := json.Marshal(m)
	if err != nil {
		return "", err
	}
	data := text[:len(text)-1]
	if len(data) > 1 {
		data = append(data, ',')
	}
	data = append(append(data, `"referee":`...), own...)
	return protocol.JSON(append(data, '}')), nil
}

// parts returns what the table has to do, of which the data comes first.
func (t *Table) parts(data protocol.JSON) (parts []protocol.Request) {
	if data != "" {
		parts = append(parts, protocol.Request{Action: protocol.ActionSet, Data: data})
	}
	for _, user := range slices.Sorted(maps.Keys(t.hands)) {
		parts = append(parts, protocol.Request{Action: protocol.ActionSet, Scope: protocol.ScopePrivate, User: user,
			Data: t.hands[user]})
	}
	return append(parts, t.does...)
}
