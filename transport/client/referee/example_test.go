package referee_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"slices"
	"time"

	"roomd/transport/client/referee"
	"roomd/transport/protocol"
)

// duel is a game of two. Each has five cards that the other does not see, and plays one; the higher card wins
// the trick.
type duel struct {
	Deck   string         `json:"deck"` // the nonce by which it was shuffled
	Turn   string         `json:"turn"`
	Down   map[string]int `json:"down"`
	Tricks map[string]int `json:"tricks"`
}

func (g *duel) Joined(t *referee.Table, user string) {
	if users := t.Users(); len(users) == 2 && g.Deck == "" {
		g.Deck, g.Turn, g.Tricks = t.Nonce(), users[0], map[string]int{}
		cards := t.Rand(g.Deck).Perm(52)
		t.Deal(users[0], cards[:5])
		t.Deal(users[1], cards[5:10])
		t.SetTimer("turn", 30*time.Second)
	}
}

func (g *duel) Left(t *referee.Table, user string) {
	t.StopTimer("turn")
	*g = duel{} // the game is over
}

func (g *duel) Moved(t *referee.Table, user string, move protocol.JSON) error {
	var card int
	var hand []int
	if err := errors.Join(move.Decode(&card), t.Hand(user, &hand)); err != nil {
		return err
	}
	at := slices.Index(hand, card)
	if user != g.Turn || at < 0 {
		return errors.New("it is not your turn, or not your card")
	}
	t.Deal(user, slices.Delete(hand, at, at+1))
	g.put(t, user, card)
	return nil
}

func (g *duel) put(t *referee.Table, user string, card int) {
	users := t.Users()
	other := users[1-slices.Index(users, user)]
	if first, there := g.Down[other]; !there {
		g.Down, g.Turn = map[string]int{user: card}, other
	} else {
		g.Turn = map[bool]string{true: user, false: other}[card > first]
		g.Tricks[g.Turn]++
		g.Down = map[string]int{}
	}
	t.SetTimer("turn", 30*time.Second)
}

func (g *duel) Timer(t *referee.Table, name string) { t.Kick(g.Turn, "too slow") }

// A game of cards whose players cannot cheat.
func Example() {
	s := startServers(1) // a node, and the tokens of the players
	defer s.stop()
	ctx, stop := context.WithTimeout(context.Background(), 20*time.Second)
	defer stop()
	cfg := referee.Config{
		Client: s.connect("referee"),
		New:    func() referee.Game { return new(duel) },
		Secret: []byte("a secret of the game's own"),
	}
	go func() {
		if err := cfg.Serve(ctx, "duel"); ctx.Err() == nil {
			log.Print(err)
		}
	}()

	li, err := s.connect("李四").Join(ctx, "duel")
	if err == nil {
		_, err = s.connect("王五").Join(ctx, "duel")
	}
	if err != nil {
		fmt.Println(err)
		return
	}
	var g duel
	played := false
	for range li.Changes(ctx) {
		var hand []int
		if errors.Join(li.Data().Decode(&g), li.Private().Decode(&hand)) != nil {
			break
		}
		if len(hand) == 5 && !played {
			played = true
			fmt.Println(g.Turn, "plays one of", len(hand), "cards")
			_ = li.Propose(ctx, hand[0])
		}
		if g.Turn == "王五" {
			fmt.Println("it is the turn of", g.Turn)
			break
		}
	}
	// Output:
	// 李四 plays one of 5 cards
	// it is the turn of 王五
}
