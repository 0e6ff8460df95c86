package auth

import (
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rsa"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/MicahParks/jwkset"
	"github.com/go-json-experiment/json"
)

// Names of the algorithms in tokens and key sets.
const (
	hs256 = "HS256"
	rs256 = "RS256"
	es256 = "ES256"
	eddsa = "EdDSA"
)

const (
	// minSecret is the least length of a secret, in bytes: RFC 7518 requires the length of the hash.
	minSecret = 32

	minRSABits = 2048
)

type key struct {
	algorithm string
	public    any // a secret's []byte, or a public key of package crypto
}

// keys are the keys valid at one time: one for all tokens, or a set with ids.
type keys struct {
	only *key            // for all tokens, whatever their key id; nil in a set
	byID map[string]*key // nil without a set; "" is the key without an id
}

// find returns the key for a token, or nil. id is the token's key id; named is false if the token has none.
func (k *keys) find(id string, named bool) *key {
	switch {
	case k.only != nil:
		return k.only
	case named:
		return k.byID[id]
	case len(k.byID) == 1:
		for _, one := range k.byID {
			return one
		}
	}
	return nil
}

func checkSecret(secret []byte) error {
	if len(secret) < minSecret {
		return fmt.Errorf("the secret has %d bytes, but it needs at least %d: openssl rand -hex 32 makes a good one",
			len(secret), minSecret)
	}
	return nil
}

func parseSecret(text []byte) (*keys, error) {
	if err := checkSecret(text); err != nil {
		return nil, err
	}
	return &keys{only: &key{hs256, text}}, nil
}

func parsePublicKey(text []byte) (*keys, error) {
	block, rest := pem.Decode(text)
	if block == nil {
		return nil, errors.New("no PEM block: the file must begin with -----BEGIN PUBLIC KEY-----")
	}
	if next, _ := pem.Decode(rest); next != nil {
		return nil, errors.New("more than one PEM block: several keys belong into a JWKS file")
	}
	var public any
	var err error
	switch block.Type {
	case "PUBLIC KEY":
		public, err = x509.ParsePKIXPublicKey(block.Bytes)
	case "RSA PUBLIC KEY":
		public, err = x509.ParsePKCS1PublicKey(block.Bytes)
	case "CERTIFICATE":
		var certificate *x509.Certificate
		if certificate, err = x509.ParseCertificate(block.Bytes); err == nil {
			public = certificate.PublicKey
		}
	default:
		return nil, fmt.Errorf("the PEM block is a %s, but must be a PUBLIC KEY", block.Type)
	}
	if err != nil {
		return nil, err
	}
	only, err := newKey(public)
	if err != nil {
		return nil, err
	}
	return &keys{only: only}, nil
}

// newKey returns the key for a key of package crypto, whose type decides the algorithm. It refuses weak and other
// keys.
func newKey(public any) (*key, error) {
	switch public := public.(type) {
	case *rsa.PublicKey:
		if bits := public.N.BitLen(); bits < minRSABits {
			return nil, fmt.Errorf("the RSA key has %d bits, but needs at least %d", bits, minRSABits)
		}
		return &key{rs256, public}, nil
	case *ecdsa.PublicKey:
		if public.Curve != elliptic.P256() {
			return nil, fmt.Errorf("the elliptic curve is %s, but must be P-256 (ES256)", public.Curve.Params().Name)
		}
		return &key{es256, public}, nil
	case ed25519.PublicKey:
		return &key{eddsa, public}, nil
	}
	return nil, errors.New("the key must be of RSA, of the elliptic curve P-256, or of Ed25519")
}

// parseJWKS reads a JSON Web Key Set (RFC 7517) of public keys. As the RFC requires, it skips keys for other uses and
// algorithms. It fails if it cannot read one of the remaining keys, if two have the same id, or if none remains.
func parseJWKS(text []byte) (*keys, error) {
	var set jwkset.JWKSMarshal
	if err := json.Unmarshal(text, &set); err != nil {
		return nil, fmt.Errorf("not a JSON Web Key Set: %w", err)
	}
	all := &keys{byID: make(map[string]*key)}
	for i, one := range set.Keys {
		if !verifies(one) {
			continue
		}
		parsed, err := parseJWK(one)
		if err == nil && all.byID[one.KID] != nil {
			err = errors.New("another key has the same id (kid)")
		}
		if err != nil {
			return nil, fmt.Errorf("key %d (kid %q): %w", i+1, one.KID, err)
		}
		all.byID[one.KID] = parsed
	}
	if len(all.byID) == 0 {
		return nil, errors.New("the set has no key for RS256, ES256 or EdDSA")
	}
	return all, nil
}

func verifies(k jwkset.JWKMarshal) bool {
	type kind struct {
		jwkset.KTY
		jwkset.CRV
	}
	algorithm := map[kind]jwkset.ALG{
		{jwkset.KtyRSA, ""}:                rs256,
		{jwkset.KtyEC, jwkset.CrvP256}:     es256,
		{jwkset.KtyOKP, jwkset.CrvEd25519}: eddsa,
	}[kind{k.KTY, k.CRV}]
	return algorithm != "" && (k.ALG == "" || k.ALG == algorithm) &&
		(k.USE == "" || k.USE == jwkset.UseSig) && (k.KEYOPS == nil || slices.Contains(k.KEYOPS, jwkset.KeyOpsVerify))
}

// parseJWK returns the public key. It refuses a private one, and ignores other fields, such as certificates.
func parseJWK(k jwkset.JWKMarshal) (*key, error) {
	if k.D != "" {
		return nil, errors.New("it is a private key, but only the public part belongs here")
	}
	public := jwkset.JWKMarshal{KTY: k.KTY, CRV: k.CRV, X: k.X, Y: k.Y, N: k.N, E: k.E}
	parsed, err := jwkset.NewJWKFromMarshal(public, jwkset.JWKMarshalOptions{},
		jwkset.JWKValidateOptions{StrictPadding: true})
	if err != nil {
		return nil, errors.New(strings.ReplaceAll(err.Error(), "\n", ": ")) // in one line
	}
	return newKey(parsed.Key())
}
