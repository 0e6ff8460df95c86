package auth

import (
	"errors"
	"log/slog"

	"roomd/transport/internal/reload"
)

// KeySource locates the key that verifies tokens. The zero value has none.
type KeySource struct {
	path  string // of a file; "" for a constant key
	text  []byte
	parse func(text []byte) (*keys, error)
}

// Secret is the key for HS256, at least 32 bytes long.
func Secret(secret string) KeySource { return KeySource{text: []byte(secret), parse: parseSecret} }

// SecretFile names a file whose content is the key for HS256. One line break at its end is ignored.
func SecretFile(path string) KeySource {
	return KeySource{path: path, parse: func(text []byte) (*keys, error) { return parseSecret(reload.TrimLine(text)) }}
}

// PublicKeyFile names a PEM file with one public key or certificate: RSA for RS256, P-256 for ES256, or Ed25519 for
// EdDSA.
func PublicKeyFile(path string) KeySource { return KeySource{path: path, parse: parsePublicKey} }

// JWKSFile names a file with a JSON Web Key Set. A token selects a key by its kid, unless there is only one.
func JWKSFile(path string) KeySource { return KeySource{path: path, parse: parseJWKS} }

// keyring holds the keys of a source, and reads them again when its file changes.
type keyring struct {
	fixed *keys                // if the source is constant
	file  *reload.Value[*keys] // if the source is a file, otherwise nil
}

func newKeyring(source KeySource, log *slog.Logger) (*keyring, error) {
	if source.parse == nil {
		return nil, errors.New("no key is given")
	}
	if source.path == "" {
		fixed, err := source.parse(source.text)
		return &keyring{fixed: fixed}, err
	}
	said := reload.Messages{Changed: "the key file has changed, its new keys count",
		Unusable: "the new key file cannot be used, the old keys count"}
	file, err := reload.New(log, said, func(texts [][]byte) (*keys, error) { return source.parse(texts[0]) },
		source.path)
	return &keyring{file: file}, err
}

func (r *keyring) current() *keys {
	if r.file == nil {
		return r.fixed
	}
	return r.file.Current()
}
