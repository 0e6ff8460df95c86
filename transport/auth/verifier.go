package auth

import (
	"errors"
	"log/slog"
	"slices"
	"strings"

	"github.com/golang-jwt/jwt/v5"

	"roomd/transport/internal/reload"
)

// Options limit the tokens that a [Verifier] accepts. The zero value accepts all valid tokens that the key has signed.
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
	keys   func(header) *keys // for a token with that header
	parser *jwt.Parser
}

// New returns a verifier with the keys of source. It fails if there are none, or they cannot be used.
func New(source KeySource, opts Options) (*Verifier, error) {
	if opts.Log == nil {
		opts.Log = slog.New(slog.DiscardHandler)
	}
	current, err := keyring(source, opts.Log)
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
	return &Verifier{current, jwt.NewParser(rules...)}, nil
}

// Algorithms returns the algorithm of each key, sorted.
func (v *Verifier) Algorithms() (all []string) {
	now := v.keys(header{})
	if now.only != nil {
		return []string{now.only.algorithm}
	}
	for _, one := range now.byID {
		all = append(all, one.algorithm)
	}
	slices.Sort(all)
	return all
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
	found := v.keys(head).find(head.keyID, head.named)
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

// reasonOf translates an error of the JWT library, because its text can repeat parts of the token.
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

// KeySource says where the keys that verify tokens are. The zero value has none.
type KeySource struct {
	path    string // of a file; "" for a constant key
	text    []byte
	parse   func(text []byte) (*keys, error)
	url     string // of a set; "" for the others
	private bool   // url may lead to private addresses
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

// JWKSFile names a file with a JSON Web Key Set. A token selects a key by its kid. Without a kid it gets the only key,
// if there is just one.
func JWKSFile(path string) KeySource { return KeySource{path: path, parse: parseJWKS} }

// keyring reads the keys of a source. current returns those for a token with the header given, and first reads them
// again if need be.
func keyring(source KeySource, log *slog.Logger) (current func(header) *keys, err error) {
	switch {
	case source.url != "":
		set, err := newRemote(source, log)
		if err != nil {
			return nil, err
		}
		return set.keysFor, set.start()
	case source.parse == nil:
		return nil, errors.New("no key is given")
	case source.path == "":
		fixed, err := source.parse(source.text)
		return func(header) *keys { return fixed }, err
	}
	said := reload.Messages{Changed: "the key file has changed, its new keys count",
		Unusable: "the new key file cannot be used, the old keys count"}
	file, err := reload.New(log, said, func(texts [][]byte) (*keys, error) { return source.parse(texts[0]) },
		source.path)
	return func(header) *keys { return file.Current() }, err
}
