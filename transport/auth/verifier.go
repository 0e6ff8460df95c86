package auth

import (
	"errors"
	"log/slog"
	"strings"

	"github.com/golang-jwt/jwt/v5"
)

// Options limit the tokens that a [Verifier] accepts. The zero value accepts all tokens signed by its key.
type Options struct {
	// Audience must be in the token's aud. Empty accepts any, and none.
	Audience string
	// Issuer must be the token's iss. Empty accepts any, and none.
	Issuer string
	// Log gets messages about key files for the operator. Nil is silent.
	Log *slog.Logger
}

// Verifier verifies tokens.
type Verifier struct {
	keys   *keyring
	parser *jwt.Parser
}

// New returns a verifier with the keys of source. It fails if they cannot be used.
func New(source KeySource, opts Options) (*Verifier, error) {
	if opts.Log == nil {
		opts.Log = slog.New(slog.DiscardHandler)
	}
	ring, err := newKeyring(source, opts.Log)
	if err != nil {
		return nil, err
	}
	rules := []jwt.ParserOption{
		jwt.WithValidMethods([]string{hs256, rs256, es256, eddsa}),
		jwt.WithExpirationRequired(),
		jwt.WithStrictDecoding(),
	}
	if opts.Audience != "" {
		rules = append(rules, jwt.WithAudience(opts.Audience))
	}
	if opts.Issuer != "" {
		rules = append(rules, jwt.WithIssuer(opts.Issuer))
	}
	return &Verifier{ring, jwt.NewParser(rules...)}, nil
}

// Verify returns the identity in a token that is valid now. Otherwise the error says why not; it may be shown to the
// sender.
func (v *Verifier) Verify(token string) (Identity, error) {
	if len(token) > MaxToken {
		return Identity{}, errTooLong
	}
	first, _, dotted := strings.Cut(token, ".")
	if !dotted || strings.ContainsFunc(token, notOfToken) {
		return Identity{}, errMalformed
	}
	head, err := readHeader(first)
	if err != nil {
		return Identity{}, err
	}
	found := v.keys.current().find(head.keyID, head.named)
	switch {
	case found == nil:
		return Identity{}, errNoKey
	case head.algorithm != found.algorithm:
		return Identity{}, errAlgorithm
	}
	said := new(claims)
	_, err = v.parser.ParseWithClaims(token, said, func(parsed *jwt.Token) (any, error) {
		if parsed.Method.Alg() != found.algorithm { // the library must have read the same header
			return nil, errAlgorithm
		}
		return found.public, nil
	})
	if err != nil {
		return Identity{}, reasonOf(err)
	}
	return said.identity, nil
}

// notOfToken reports whether a token cannot contain c. The base64 decoder would skip line breaks.
func notOfToken(c rune) bool {
	return (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') && (c < '0' || c > '9') && c != '-' && c != '_' && c != '.'
}

// reasonOf translates an error of the JWT library, whose text may repeat parts of the token.
func reasonOf(err error) error {
	var ours reason
	if errors.As(err, &ours) {
		return ours
	}
	for _, known := range []struct {
		err error
		reason
	}{
		{jwt.ErrTokenMalformed, errMalformed},
		{jwt.ErrTokenSignatureInvalid, errSignature},
		{jwt.ErrTokenExpired, errExpired},
		{jwt.ErrTokenNotValidYet, errTooEarly},
		{jwt.ErrTokenInvalidAudience, errAudience},
		{jwt.ErrTokenInvalidIssuer, errIssuer},
		{jwt.ErrTokenRequiredClaimMissing, errMissing},
	} {
		if errors.Is(err, known.err) {
			return known.reason
		}
	}
	return errNotAllowed
}
