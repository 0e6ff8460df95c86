package main

import (
	"errors"
	"fmt"
	"log/slog"

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
