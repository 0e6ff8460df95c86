package auth

import (
	"cmp"
	"crypto"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/x509"
	"encoding/base64"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"time"

	"github.com/golang-jwt/jwt/v5"

	"roomd/room"
	"roomd/transport/internal/reload"
)

// Signer makes tokens. Make one with [SecretSigner], [SecretFileSigner], [PrivateKeySigner] or
// [JWKSSigner].
type Signer struct {
	method jwt.SigningMethod
	key    any

	// KeyID is the token's kid, by which a verifier with several keys selects one. Empty leaves it out.
	KeyID string
	// Audience and Issuer are the token's aud and iss. Empty leaves them out.
	Audience, Issuer string
}

// SecretSigner returns a signer for HS256. It fails if the secret is shorter than 32 bytes.
func SecretSigner(secret string) (*Signer, error) {
	if err := checkSecret([]byte(secret)); err != nil {
		return nil, err
	}
	return &Signer{method: jwt.SigningMethodHS256, key: []byte(secret)}, nil
}

// SecretFileSigner returns a signer for HS256 with the secret in a file: see [SecretFile]. Its errors name the file.
func SecretFileSigner(path string) (*Signer, error) {
	text, err := reload.Read(path)
	if err != nil {
		return nil, err
	}
	signer, err := SecretSigner(string(reload.TrimLine(text)))
	if err != nil {
		return nil, reload.NewFileError(path, err)
	}
	return signer, nil
}

// PrivateKeySigner returns a signer with the key in a PEM file, which decides the algorithm. Its errors name the file.
func PrivateKeySigner(path string) (*Signer, error) {
	text, err := reload.Read(path)
	if err != nil {
		return nil, err
	}
	private, err := parsePrivateKey(text)
	if err != nil {
		return nil, reload.NewFileError(path, err)
	}
	public, err := newKey(private.Public())
	if err != nil {
		return nil, reload.NewFileError(path, err)
	}
	return &Signer{method: jwt.GetSigningMethod(public.algorithm), key: private}, nil
}

// JWKSSigner returns a signer with the private key in path.pem. Without that file it makes a key first, and writes its
// public part to path, as a set for [JWKSFile]. It overwrites nothing. Its errors name the file.
func JWKSSigner(path string) (*Signer, error) {
	private := path + ".pem"
	if _, err := os.Stat(private); errors.Is(err, fs.ErrNotExist) {
		if err := makeJWKS(path, private); err != nil {
			return nil, err
		}
	}
	return PrivateKeySigner(private)
}

func makeJWKS(path, private string) error {
	public, key, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		return err
	}
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return err
	}
	set := fmt.Sprintf(`{"keys":[{"kty":"OKP","crv":"Ed25519","alg":"EdDSA","use":"sig","x":%q}]}`+"\n",
		base64.RawURLEncoding.EncodeToString(public))
	if err := create(path, []byte(set), 0o644); err != nil {
		return err
	}
	if err := create(private, pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}), 0o600); err != nil {
		_ = os.Remove(path)
		return err
	}
	return nil
}

func create(path string, text []byte, mode fs.FileMode) error {
	file, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, mode)
	if err != nil {
		return reload.NewFileError(path, err)
	}
	_, err = file.Write(text)
	if err = cmp.Or(err, file.Close()); err != nil {
		_ = os.Remove(path)
		return reload.NewFileError(path, err)
	}
	return nil
}

func parsePrivateKey(text []byte) (crypto.Signer, error) {
	for block, rest := pem.Decode(text); block != nil; block, rest = pem.Decode(rest) {
		var private any
		var err error
		switch block.Type {
		case "PRIVATE KEY":
			private, err = x509.ParsePKCS8PrivateKey(block.Bytes)
		case "RSA PRIVATE KEY":
			private, err = x509.ParsePKCS1PrivateKey(block.Bytes)
		case "EC PRIVATE KEY":
			private, err = x509.ParseECPrivateKey(block.Bytes)
		default:
			continue // openssl writes EC PARAMETERS before the key
		}
		if err != nil {
			return nil, err
		}
		if signer, ok := private.(crypto.Signer); ok {
			return signer, nil
		}
		return nil, errors.New("the private key cannot sign")
	}
	return nil, errors.New("no PEM block with a PRIVATE KEY, or it is encrypted")
}

// Sign returns a token for identity. If its user, its role or a pattern is invalid, or it has expired, the error is
// room.ErrInvalid and names the field.
func (s *Signer) Sign(identity Identity) (string, error) {
	user, err := room.ParseUser(identity.User)
	if err != nil {
		return "", err
	}
	now := time.Now()
	if !identity.Expires.After(now) {
		return "", &room.InvalidError{Field: "expires", Problem: "is not in the future"}
	}
	if role := identity.Role; role != "" && role != RolePlayer && role != RoleAdmin {
		return "", &room.InvalidError{Field: "role", Problem: "must be player or admin"}
	}
	said := jwt.MapClaims{"sub": user, "iat": now.Unix(), "exp": identity.Expires.Unix()}
	for name, patterns := range map[string][]string{"rooms": identity.Rooms, "watch": identity.Watch} {
		for _, pattern := range patterns {
			if !validPattern(pattern) {
				return "", &room.InvalidError{Field: name, Problem: fmt.Sprintf("has %q, which is no pattern", pattern)}
			}
		}
		if patterns != nil {
			said[name] = patterns
		}
	}
	for name, value := range map[string]string{"role": string(identity.Role), "aud": s.Audience, "iss": s.Issuer} {
		if value != "" {
			said[name] = value
		}
	}
	token := jwt.NewWithClaims(s.method, said)
	if s.KeyID != "" {
		token.Header["kid"] = s.KeyID
	}
	return token.SignedString(s.key)
}
