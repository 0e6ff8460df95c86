package auth

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/MicahParks/jwkset"
	"github.com/go-json-experiment/json"
)

// parseJWKS reads a JSON Web Key Set (RFC 7517) of public keys. As the RFC requires it skips keys for other uses and
// algorithms. An unreadable key for one of ours is an error.
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

// parseJWK returns the public key. It ignores additional fields, such as certificates.
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
