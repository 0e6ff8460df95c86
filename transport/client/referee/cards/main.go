// Command cards serves a game of cards beside roomd's nodes: its referee and its page. README.md has the rules.
package main

import (
	"context"
	"crypto/rand"
	"embed"
	"encoding/json"
	"flag"
	"log"
	"log/slog"
	"net/http"
	"os"
	"time"

	"roomd/lockmgr"
	"roomd/lockmgr/redisconn/redisurl"
	"roomd/transport/auth"
	"roomd/transport/client"
	"roomd/transport/client/referee"
	"roomd/transport/page"
)

//go:embed index.html cards.css
var files embed.FS

func main() {
	key := flag.String("key", "key", "the nodes' --auth-secret-`file`")
	redis := flag.String("redis", "", "the nodes' Redis, a `URL`, where several of these programs share the tables")
	listen := flag.String("listen", "127.0.0.1:8090", "the page's `host:port`, which the nodes have to --allow-origin")
	clock := flag.Duration("clock", 20*time.Second, "how long a turn lasts")
	flag.Parse() // the arguments are the nodes' addresses
	secret, signer := must(os.ReadFile(*key)), must(auth.SecretFileSigner(*key))
	token := func(user string, role auth.Role) string {
		return must(signer.Sign(auth.Identity{User: user, Role: role, Rooms: []string{"cards-*"}, Expires: time.Now().Add(24 * time.Hour)}))
	}
	http.Handle("GET /", http.FileServerFS(files))
	http.Handle("GET /roomd.js", page.New(page.Options{}))
	http.HandleFunc("POST /player", func(w http.ResponseWriter, r *http.Request) { // yours will have a login
		_ = json.NewEncoder(w).Encode(map[string]any{"token": token("player-"+rand.Text()[:6], auth.RolePlayer), "nodes": flag.Args()})
	})
	go func() { log.Fatal(http.ListenAndServe(*listen, nil)) }()

	fresh := func(context.Context) (string, error) { return token("referee", auth.RoleAdmin), nil }
	c := must(client.Connect(context.Background(), client.Config{Addresses: flag.Args(), Token: fresh}))
	keeper := referee.Config{Client: c, New: func() referee.Game { return &game{clock: *clock} }, Secret: append(secret, "cards"...), Log: slog.Default()}
	if *redis != "" {
		keeper.Locks = must(lockmgr.New(must(redisurl.Open(*redis)).NewClient(), lockmgr.Options{}))
	}
	log.Fatal(keeper.RunLobby(context.Background(), client.LobbyQuery{Labels: map[string]string{"game": "cards"}}))
}

func must[T any](value T, err error) T {
	if err != nil {
		log.Fatal(err)
	}
	return value
}
