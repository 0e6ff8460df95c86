package auth

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/hmac"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/pem"
	"fmt"
	"math/big"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/golang-jwt/jwt/v5"

	"roomd/lockmgr/redistest"
)

const secret = "0123456789abcdef0123456789abcdef"

// testKeys are made once: an RSA key takes a while.
var testKeys = sync.OnceValue(func() (k struct {
	rsa, otherRSA *rsa.PrivateKey
	ec            *ecdsa.PrivateKey
	ed            ed25519.PrivateKey
}) {
	must := func(err error) {
		if err != nil {
			panic(err)
		}
	}
	var err error
	k.rsa, err = rsa.GenerateKey(rand.Reader, 2048)
	must(err)
	k.otherRSA, err = rsa.GenerateKey(rand.Reader, 2048)
	must(err)
	k.ec, err = ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	must(err)
	_, k.ed, err = ed25519.GenerateKey(rand.Reader)
	must(err)
	return k
})

func b64(text string) string { return base64.RawURLEncoding.EncodeToString([]byte(text)) }

// claimsText returns the claims of a valid token with more members, as JSON.
func claimsText(more string) string {
	return fmt.Sprintf(`{"sub":"mallory","exp":%d%s}`, time.Now().Add(time.Hour).Unix(), more)
}

// hmacToken signs a token with SHA-256, whatever its header says.
func hmacToken(key []byte, header, claims string) string {
	text := b64(header) + "." + b64(claims)
	mac := hmac.New(sha256.New, key)
	mac.Write([]byte(text))
	return text + "." + base64.RawURLEncoding.EncodeToString(mac.Sum(nil))
}

// token signs claims with the secret of the tests.
func token(claims string) string {
	return hmacToken([]byte(secret), `{"alg":"HS256","typ":"JWT"}`, claims)
}

// signed signs a token with a private key.
func signed(method jwt.SigningMethod, key any, header, claims string) string {
	text := b64(header) + "." + b64(claims)
	signature, err := method.Sign(text, key)
	if err != nil {
		panic(err)
	}
	return text + "." + base64.RawURLEncoding.EncodeToString(signature)
}

func publicPEM(key crypto.Signer) string {
	der, err := x509.MarshalPKIXPublicKey(key.Public())
	if err != nil {
		panic(err)
	}
	return string(pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der}))
}

func privatePEM(key crypto.Signer) string {
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		panic(err)
	}
	return string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}))
}

// jwkOf returns a public key as a member of a key set; more are further members.
func jwkOf(key crypto.Signer, more string) string {
	enc := base64.RawURLEncoding.EncodeToString
	switch public := key.Public().(type) {
	case *rsa.PublicKey:
		return fmt.Sprintf(`{"kty":"RSA","n":%q,"e":%q%s}`, enc(public.N.Bytes()), enc(big.NewInt(int64(public.E)).Bytes()), more)
	case *ecdsa.PublicKey:
		point, err := public.Bytes()
		if err != nil {
			panic(err)
		}
		return fmt.Sprintf(`{"kty":"EC","crv":"P-256","x":%q,"y":%q%s}`, enc(point[1:33]), enc(point[33:]), more)
	case ed25519.PublicKey:
		return fmt.Sprintf(`{"kty":"OKP","crv":"Ed25519","x":%q%s}`, enc(public), more)
	}
	panic("unknown key")
}

func jwks(keys ...string) string { return `{"keys":[` + strings.Join(keys, ",") + `]}` }

func writeFile(t testing.TB, text string) (path string) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "key")
	redistest.OK(t, os.WriteFile(path, []byte(text), 0o600))
	return path
}

func verifier(t testing.TB, source KeySource, opts Options) *Verifier {
	t.Helper()
	v, err := New(source, opts)
	redistest.OK(t, err)
	return v
}
