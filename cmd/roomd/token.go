package main

import (
	"errors"
	"fmt"
	"io"
	"time"

	"roomd/transport/auth"
)

// tokenCmd is "roomd token".
type tokenCmd struct {
	User  string        `required:"" placeholder:"NAME" help:"Who the token is for."`
	TTL   time.Duration `name:"ttl" default:"1h" placeholder:"1h" help:"How long it is valid."`
	Rooms []string      `placeholder:"PATTERN" help:"Rooms that the user may enter, such as 'table-*'. Repeat it, or give several with commas. Without it all are allowed."`
	Role  string        `default:"player" enum:"player,admin" placeholder:"player" help:"One of ${enum}."`

	secretFlags
	AuthPrivateKey *string `placeholder:"FILE" help:"PEM file with the private key for RS256, ES256 (P-256) or EdDSA (Ed25519)."`
	KeyID          string  `placeholder:"KID" help:"The token's kid, for nodes with --auth-jwks and several keys."`
	AuthAudience   string  `placeholder:"NAME" help:"The token's aud."`
	AuthIssuer     string  `placeholder:"NAME" help:"The token's iss."`
}

// Help is shown by kong below the description.
func (*tokenCmd) Help() string {
	return `It prints the token alone, and nothing else, to standard output. Give it the key of the nodes: their secret, or the private key that belongs to their public key. For example:

  roomd token --auth-secret-file secret --user NAME --ttl 8h --rooms 'table-*'

A browser sends it as new WebSocket(url, ["roomd.v1", "roomd.token." + token]).`
}

// signing is a signer, or why there is none.
type signing struct {
	signer *auth.Signer
	err    error
}

func signBy(make func(string) (*auth.Signer, error)) func(string) signing {
	return func(value string) signing {
		signer, err := make(value)
		return signing{signer, err}
	}
}

// Validate is called by kong.
func (c *tokenCmd) Validate() error {
	if c.TTL < time.Second {
		return fmt.Errorf("--ttl is %v, it must be at least 1s", c.TTL)
	}
	_, err := c.key()
	return err
}

// key returns the flag that names the key.
func (c *tokenCmd) key() (*keyFlag[signing], error) {
	key, err := given(
		keyFlag[signing]{"--auth-secret", c.AuthSecret, signBy(auth.SecretSigner)},
		keyFlag[signing]{"--auth-secret-file", c.AuthSecretFile, signBy(auth.SecretFileSigner)},
		keyFlag[signing]{"--auth-private-key", c.AuthPrivateKey, signBy(auth.PrivateKeySigner)},
	)
	if err == nil && key == nil {
		err = errors.New("a key is missing: --auth-secret-file, --auth-secret or --auth-private-key")
	}
	return key, err
}

// print writes the token.
func (c *tokenCmd) print(stdout io.Writer) error {
	key, err := c.key()
	if err != nil {
		return useError{err}
	}
	made := key.use(*key.value)
	if made.err != nil {
		return ofFlag(fmt.Errorf("%s: %w", key.name, made.err))
	}
	made.signer.KeyID, made.signer.Audience, made.signer.Issuer = c.KeyID, c.AuthAudience, c.AuthIssuer
	token, err := made.signer.Sign(auth.Identity{
		User: c.User, Rooms: c.Rooms, Role: auth.Role(c.Role), Expires: time.Now().Add(c.TTL),
	})
	if err != nil {
		return fmt.Errorf("--%w", err)
	}
	_, err = fmt.Fprintln(stdout, token)
	return err
}
