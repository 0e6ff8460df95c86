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

// Table is a room as a [Game] sees and changes it, in one version. It is valid until the game's method returns. A
// change that is impossible, such as a hand for a user who is no member, is an error of the game: Serve returns it.
type Table struct {
	view   client.View
	room   string
	secret []byte
	log    mark

	hands map[string]protocol.JSON // dealt in this version
	does  []protocol.Request       // other actions in this version
	wrong error                    // an error of the game
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

// View returns the room before this version.
func (t *Table) View() client.View { return t.view }

// Deal gives a member private data that other members do not see: the JSON form of hand, or none if hand is nil.
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

// Hand decodes the private data of a member into *hand, or null if there is none. It fails if they do not fit.
func (t *Table) Hand(user string, hand any) error {
	data, dealt := t.hands[user]
	if u, there := t.view.User(user); there && !dealt {
		data = u.Private
	}
	return data.Decode(hand)
}

// SetTimer sets a timer of the table, which replaces one of the same name. After that time the referee calls
// [Game].Timer. For limits see [client.Room.SetTimer].
func (t *Table) SetTimer(name string, in time.Duration) {
	t.forget(name)
	t.log.Timers = append(t.log.Timers, name)
	t.does = append(t.does, protocol.Request{Action: protocol.ActionTimer, Name: name, In: new(in.Milliseconds())})
}

// StopTimer cancels a timer of the table, if it is set.
func (t *Table) StopTimer(name string) {
	t.forget(name)
	if _, set := t.view.Timers[name]; set {
		t.does = append(t.does, protocol.Request{Action: protocol.ActionTimer, Name: name})
	}
}

// forget drops a timer from the record, and its actions from this version.
func (t *Table) forget(name string) {
	t.log.Timers = without(t.log.Timers, name)
	t.does = slices.DeleteFunc(t.does, func(r protocol.Request) bool {
		return r.Action == protocol.ActionTimer && r.Name == name
	})
}

// has reports whether the user is a member whom this version does not remove.
func (t *Table) has(user string) bool {
	_, is := t.view.User(user)
	return is && !slices.ContainsFunc(t.does, func(r protocol.Request) bool {
		return r.Action == protocol.ActionClose || r.Action == protocol.ActionKick && r.User == user
	})
}

// Say sends a message, the JSON form of data, to those users of to who are members, or to all if to is empty.
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

// Kick removes a member from the room, and tells why. The member gets no message of the same version.
func (t *Table) Kick(user, why string) {
	if !t.has(user) {
		return
	}
	t.Do(protocol.Request{Action: protocol.ActionKick, User: user, Text: why})
}

// Do adds another action to this version: any that a txn may have, except timers and the room's data.
func (t *Table) Do(action protocol.Request) { t.does = append(t.does, action) }

// Nonce returns a new random text for [Table.Rand].
func (t *Table) Nonce() string { return rand.Text() }

// Rand returns random numbers that depend only on a nonce and [Config.Secret]: every referee gets the same, and
// nobody without the Secret can know them. So a game need not store a deck. Its data has the nonce of the shuffle,
// which everybody may see, and the number of cards that are gone. Use a new [Table.Nonce] for each deck. Rand panics
// without a Secret.
func (t *Table) Rand(nonce string) *mathrand.Rand {
	if len(t.secret) == 0 {
		panic("referee: Table.Rand needs Config.Secret")
	}
	mac := hmac.New(sha256.New, t.secret)
	mac.Write([]byte(nonce))
	return mathrand.New(mathrand.NewChaCha8([32]byte(mac.Sum(nil))))
}

// mark is the referee's record in the room's data: the game's users, hands and timers, and its last move.
type mark struct {
	Users  []string `json:"users"`            // users in the game
	Hands  []string `json:"hands,omitempty"`  // users with a hand
	Timers []string `json:"timers,omitempty"` // timers that are set
	Epoch  string   `json:"epoch,omitempty"`  // epoch of the last move
	Moved  uint64   `json:"moved,omitempty"`  // version of the last move
}

// stays reports whether the user has been a member since [Game].Joined: one who left and came back has no hand.
func (m *mark) stays(view client.View, user string) bool {
	u, there := view.User(user)
	return there && (u.Private != "" || !slices.Contains(m.Hands, user))
}

func without(names []string, name string) []string {
	return slices.DeleteFunc(slices.Clone(names), func(n string) bool { return n == name })
}

// behind returns the moves that no referee has handled yet.
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

// parts returns the actions of this version: first the data, then the hands, then the others.
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
