package auth

import (
	"errors"
	"log/slog"

	"roomd/transport/internal/reload"
)

// KeySource says where the key is that verifies tokens. The zero value is none.
type KeySource struct {
	path  string // of a file; "" for a key that never changes
	text  []byte
	parse func(text []byte) (*keys, error)
}

// Secret is the key for HS256, at least 32 bytes long.
func Secret(secret string) KeySource { return KeySource{text: []byte(secret), parse: parseSecret} }

// SecretFile names a file whose content is the key for HS256. A line break at its end does not count.
func SecretFile(path string) KeySource {
	return KeySource{path: path, parse: func(text []byte) (*keys, error) { return parseSecret(reload.TrimLine(text)) }}
}

// PublicKeyFile names a PEM file with one public key or certificate. An RSA key verifies RS256, one
// of the curve P-256 ES256, one of Ed25519 EdDSA.
func PublicKeyFile(path string) KeySource { return KeySource{path: path, parse: parsePublicKey} }

// JWKSFile names a file with a JSON Web Key Set. A token names one of the keys by its kid; it need
// not if there is only one.
func JWKSFile(path string) KeySource { return KeySource{path: path, parse: parseJWKS} }

// keyring has the keys of a source, and reads them again when its file changes.
type keyring struct {
	fixed *keys                // of a source without a file
	file  *reload.Value[*keys] // nil for a source without a file
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

// current returns the keys that count now.
func (r *keyring) current() *keys {
	if r.file == nil {
		return r.fixed
	}
	return r.file.Current()
}
