package auth

import (
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rsa"
	"encoding/base64"
	"errors"
	"fmt"
	"math/big"
	"slices"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// jwk is one key of a JSON Web Key Set (RFC 7517).
type jwk struct {
	Type       string   `json:"kty"`
	ID         string   `json:"kid"`
	Use        string   `json:"use"`
	Operations []string `json:"key_ops"`
	Algorithm  string   `json:"alg"`

	N     string `json:"n"`
	E     string `json:"e"`
	Curve string `json:"crv"`
	X     string `json:"x"`
	Y     string `json:"y"`

	Private jsontext.Value `json:"d"`
}

// parseJWKS reads a set of public keys. It skips those that are for something else, or of an
// algorithm that is not ours, as RFC 7517 asks for; one of ours that cannot be read is an error.
func parseJWKS(text []byte) (*keys, error) {
	var set struct {
		Keys []jwk `json:"keys"`
	}
	if err := json.Unmarshal(text, &set); err != nil {
		return nil, fmt.Errorf("not a JSON Web Key Set: %w", err)
	}
	all := &keys{byID: make(map[string]*key)}
	for i, one := range set.Keys {
		parse := one.parser()
		if parse == nil {
			continue
		}
		parsed, err := parse()
		if err == nil && one.Private != nil {
			err = errors.New("it is a private key, but only the public part belongs here")
		}
		if err == nil && all.byID[one.ID] != nil {
			err = errors.New("another key has the same id (kid)")
		}
		if err != nil {
			return nil, fmt.Errorf("key %d (kid %q): %w", i+1, one.ID, err)
		}
		all.byID[one.ID] = parsed
	}
	if len(all.byID) == 0 {
		return nil, errors.New("the set has no key for RS256, ES256 or EdDSA")
	}
	return all, nil
}

// parser returns what reads the key, or nil if the key is not for signatures of ours.
func (k *jwk) parser() func() (*key, error) {
	forSignatures := (k.Use == "" || k.Use == "sig") && (k.Operations == nil || slices.Contains(k.Operations, "verify"))
	is := func(kind, curve, algorithm string) bool {
		return k.Type == kind && k.Curve == curve && (k.Algorithm == "" || k.Algorithm == algorithm)
	}
	switch {
	case !forSignatures:
		return nil
	case is("RSA", "", rs256):
		return k.rsa
	case is("EC", "P-256", es256):
		return k.elliptic
	case is("OKP", "Ed25519", eddsa):
		return k.ed25519
	}
	return nil
}

func (k *jwk) rsa() (*key, error) {
	n, err := decode("n", k.N)
	if err != nil {
		return nil, err
	}
	e, err := decode("e", k.E)
	if err != nil {
		return nil, err
	}
	exponent := new(big.Int).SetBytes(e)
	if exponent.BitLen() > 31 || exponent.Bit(0) == 0 || exponent.Int64() < 3 {
		return nil, errors.New("e must be an odd number from 3 to 2³¹−1")
	}
	return newKey(&rsa.PublicKey{N: new(big.Int).SetBytes(n), E: int(exponent.Int64())})
}

func (k *jwk) elliptic() (*key, error) {
	x, err := decode("x", k.X)
	if err != nil {
		return nil, err
	}
	y, err := decode("y", k.Y)
	if err != nil {
		return nil, err
	}
	const size = 32
	if len(x) != size || len(y) != size {
		return nil, fmt.Errorf("x and y must have %d bytes each", size)
	}
	const uncompressed = 4
	public, err := ecdsa.ParseUncompressedPublicKey(elliptic.P256(), slices.Concat([]byte{uncompressed}, x, y))
	if err != nil {
		return nil, errors.New("x and y are no point of the curve")
	}
	return newKey(public)
}

func (k *jwk) ed25519() (*key, error) {
	x, err := decode("x", k.X)
	if err != nil {
		return nil, err
	}
	if len(x) != ed25519.PublicKeySize {
		return nil, fmt.Errorf("x must have %d bytes", ed25519.PublicKeySize)
	}
	return newKey(ed25519.PublicKey(x))
}

func decode(name, text string) ([]byte, error) {
	value, err := base64.RawURLEncoding.Strict().DecodeString(text)
	if err != nil || len(value) == 0 {
		return nil, fmt.Errorf("%s must be base64url without padding", name)
	}
	return value, nil
}
