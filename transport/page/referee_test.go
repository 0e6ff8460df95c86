package page_test

import (
	"context"
	"sync"
	"testing"
	"time"

	"roomd/lockmgr/redistest"
	"roomd/transport"
	"roomd/transport/auth"
	"roomd/transport/client"
)

// The referee by hand of the Go client's README, in two copies of which one is killed: each move counts once.
func TestReferee_ByHand(t *testing.T) {
	t.Parallel()
	needNode(t)
	script := programIn(t, "../client/referee/README.md")
	const key = "a key for tokens that only tests have"
	verifier, err := auth.New(auth.Secret(key), auth.Options{})
	redistest.OK(t, err)
	signer, err := auth.SecretSigner(key)
	redistest.OK(t, err)
	db := openEmbedded(t)
	n, _ := startNode(t, db, "127.0.0.1:0", transport.Options{Auth: verifier})
	token := func(user string, role auth.Role) string {
		token, err := signer.Sign(auth.Identity{User: user, Role: role, Expires: time.Now().Add(time.Hour)})
		redistest.OK(t, err)
		return token
	}
	referees := nodeCommand(t, script, n.URL(), token("one", auth.RoleAdmin), "42")
	other := nodeCommand(t, script, n.URL(), token("two", auth.RoleAdmin), "42")
	redistest.OK(t, referees.Start())
	redistest.OK(t, other.Start())
	t.Cleanup(func() { _ = other.Process.Kill(); _ = other.Wait() })

	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	const most, half = 20, 10
	var killed sync.Once
	var players sync.WaitGroup
	for _, user := range []string{"a", "b"} {
		c, err := client.Connect(ctx, client.Config{Addresses: []string{n.URL()}, Token: client.StaticToken(token(user, auth.RolePlayer))})
		redistest.OK(t, err)
		t.Cleanup(c.Close)
		room, err := c.Join(ctx, "42")
		redistest.OK(t, err)
		players.Go(func() {
			proposed := -1
			for range room.Changes(ctx) {
				var game struct {
					Sum  int
					Turn string
				}
				if err := room.Data().Decode(&game); err != nil {
					t.Error(err)
					return
				}
				if game.Sum == half {
					killed.Do(func() { _ = referees.Process.Kill(); _ = referees.Wait() })
				}
				if game.Sum >= most {
					return
				}
				if game.Turn == "" && user == "a" || game.Turn == user {
					if view := room.View(); len(view.Users) == 2 && view.Settings.History > 0 && proposed != game.Sum {
						proposed = game.Sum
						if err := room.Propose(ctx, game.Sum+1); err != nil {
							t.Error(err)
						}
						if err := room.Propose(ctx, game.Sum+1); err != nil { // once more, which is late
							t.Error(err)
						}
					}
				}
			}
			t.Errorf("%s: %v, and the data is %s", user, room.Err(), room.Data())
		})
	}
	players.Wait()
}
