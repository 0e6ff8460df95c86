package main

// listenFlags say where game clients connect, and from where.
type listenFlags struct {
	Listen      string   `default:"127.0.0.1:8080" placeholder:"HOST:PORT" help:"Where game clients connect (default ${default})."`
	Insecure    bool     `help:"Without a key for tokens, listen all the same where other machines can reach it. A client is then the user that it names."`
	AllowOrigin []string `placeholder:"ORIGIN" help:"Web origin whose pages may connect besides this server's own, such as https://game.example. Repeat it, or * for all."`
}
