package node

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"time"

	"roomd/transport/auth"
)

// Flags that name a key are pointers: an empty value is a mistake, and not a key that is not given.

// secretFlags name a key that makes tokens and verifies them.
type secretFlags struct {
	AuthSecret     *string `secret:"" placeholder:"SECRET" help:"Key of tokens signed with HS256, at least 32 bytes. Other users of the machine see it among the arguments: better give it as ROOMD_AUTH_SECRET or in a file."`
	AuthSecretFile *string `placeholder:"FILE" help:"File with that secret. A line break at its end does not count."`
}

// partyFlags say by whom and for whom tokens are made.
type partyFlags struct {
	AuthAudience string `placeholder:"NAME" help:"What a token's aud must name. Use it if the issuer makes tokens for other services, too."`
	AuthIssuer   string `placeholder:"NAME" help:"What a token's iss must be."`
}

// verifierFlags say which tokens a node accepts.
type verifierFlags struct {
	secretFlags   `embed:""`
	AuthPublicKey *string `group:"Who may connect:" placeholder:"FILE" help:"PEM file with the public key of tokens signed with RS256, ES256 (P-256) or EdDSA (Ed25519)."`
	AuthJWKS      *string `group:"Who may connect:" name:"auth-jwks" placeholder:"FILE" help:"JSON Web Key Set with such keys, which tokens name by kid. All key files are read again when they change."`
	partyFlags    `embed:""`
}

// keyFlag is a flag that names a key, and what to do with its value.
type keyFlag[T any] struct {
	name  string
	value *string
	use   func(string) T
}

// given returns the one flag that has a value, or nil. Two of them are an error that names both.
func given[T any](flags ...keyFlag[T]) (*keyFlag[T], error) {
	var found *keyFlag[T]
	for i, flag := range flags {
		if flag.value == nil {
			continue
		}
		if found != nil {
			return nil, fmt.Errorf("%s and %s cannot be used together: there is one kind of key", found.name, flag.name)
		}
		found = &flags[i]
	}
	return found, nil
}

// source returns the flag that names the key of a node, or nil.
func (f *verifierFlags) source() (*keyFlag[auth.KeySource], error) {
	return given(
		keyFlag[auth.KeySource]{"--auth-secret", f.AuthSecret, auth.Secret},
		keyFlag[auth.KeySource]{"--auth-secret-file", f.AuthSecretFile, auth.SecretFile},
		keyFlag[auth.KeySource]{"--auth-public-key", f.AuthPublicKey, auth.PublicKeyFile},
		keyFlag[auth.KeySource]{"--auth-jwks", f.AuthJWKS, auth.JWKSFile},
	)
}

func (f *verifierFlags) validate() error {
	_, err := f.source()
	return err
}

// verifier returns what verifies tokens, or nil if the node has no key.
func (f *verifierFlags) verifier(log *slog.Logger) (*auth.Verifier, error) {
	source, err := f.source()
	if err != nil {
		return nil, err
	}
	if source == nil {
		if f.AuthAudience != "" || f.AuthIssuer != "" {
			return nil, errors.New("--auth-audience and --auth-issuer need a key, such as --auth-secret-file")
		}
		return nil, nil
	}
	verifier, err := auth.New(source.use(*source.value), auth.Options{Audience: f.AuthAudience, Issuer: f.AuthIssuer, Log: log})
	if err != nil {
		return nil, fmt.Errorf("%s: %w", source.name, err)
	}
	return verifier, nil
}

// tokenCmd is "roomd token".
type tokenCmd struct {
	User  string        `required:"" placeholder:"NAME" help:"Who the token is for."`
	TTL   time.Duration `name:"ttl" default:"1h" placeholder:"1h" help:"How long it is valid."`
	Rooms []string      `placeholder:"PATTERN" help:"Rooms that the user may enter, such as 'table-*'. Repeat it, or give several with commas. Without it all are allowed."`
	Watch []string      `placeholder:"PATTERN" help:"Rooms that the user may watch without being a member. Without it those of --rooms."`
	Role  string        `default:"player" enum:"player,admin" placeholder:"player" help:"One of ${enum}."`

	secretFlags
	AuthPrivateKey *string `placeholder:"FILE" help:"PEM file with the private key for RS256, ES256 (P-256) or EdDSA (Ed25519)."`
	KeyID          string  `placeholder:"KID" help:"The token's kid, for nodes with --auth-jwks and several keys."`
	AuthAudience   string  `placeholder:"NAME" help:"The token's aud."`
	AuthIssuer     string  `placeholder:"NAME" help:"The token's iss."`

	fileFlag
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
		return UseError{err}
	}
	made := key.use(*key.value)
	if made.err != nil {
		return ofFlag(fmt.Errorf("%s: %w", key.name, made.err))
	}
	made.signer.KeyID, made.signer.Audience, made.signer.Issuer = c.KeyID, c.AuthAudience, c.AuthIssuer
	token, err := made.signer.Sign(auth.Identity{
		User: c.User, Rooms: c.Rooms, Watch: c.Watch, Role: auth.Role(c.Role), Expires: time.Now().Add(c.TTL),
	})
	if err != nil {
		return fmt.Errorf("--%w", err)
	}
	_, err = fmt.Fprintln(stdout, token)
	return err
}
