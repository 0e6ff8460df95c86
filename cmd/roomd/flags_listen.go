package main

import (
	"crypto/tls"
	"fmt"
	"log/slog"

	"roomd/transport/certfile"
)

// listenFlags say where game clients connect, and from where.
type listenFlags struct {
	Listen      string   `default:"127.0.0.1:8080" placeholder:"HOST:PORT" help:"Where game clients connect (default ${default})."`
	Insecure    bool     `help:"Without a key for tokens, listen all the same where other machines can reach it. A client is then the user that it names."`
	AllowOrigin []string `placeholder:"ORIGIN" help:"Web origin whose pages may connect besides this server's own, such as https://game.example, or https://*.game.example for all its subdomains. Repeat it, or * for all."`
	TLSCert     *string  `name:"tls-cert" placeholder:"FILE" help:"PEM file with the certificate of this server, and the intermediate ones behind it. Game clients connect to wss:// then. It is read again when it changes."`
	TLSKey      *string  `name:"tls-key" placeholder:"FILE" help:"PEM file with its private key."`
}

func (f *listenFlags) validate() error {
	return together("--tls-cert", f.TLSCert, "--tls-key", f.TLSKey)
}

// secure returns what the node needs to speak TLS, or nil if it speaks plain HTTP.
func (f *listenFlags) secure(log *slog.Logger) (*tls.Config, error) {
	if f.TLSCert == nil {
		return nil, nil
	}
	config, err := certfile.Serve(*f.TLSCert, *f.TLSKey, log)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", flagOfFile(err, "--tls-cert", *f.TLSCert, "--tls-key"), err)
	}
	return config, nil
}
