package auth

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/golang-jwt/jwt/v5"

	"roomd/lockmgr/redistest"
	"roomd/transport/internal/reload"
)

// A key that cannot be used is an error that says why, in one line that shows no secret.
func TestUnusableKeys(t *testing.T) {
	k := testKeys()
	small, err := rsa.GenerateKey(rand.Reader, 1024)
	redistest.OK(t, err)
	p384, err := ecdsa.GenerateKey(elliptic.P384(), rand.Reader)
	redistest.OK(t, err)
	short := secret[:31]
	with := func(key, old, new string) string { return jwks(strings.Replace(key, old, new, 1)) }
	ec := jwkOf(k.ec, "")
	for _, tt := range []struct {
		source func(path string) KeySource
		text   string
		want   string
	}{
		{SecretFile, short, "31 bytes"},
		{SecretFile, short + "\n", "31 bytes"},
		{SecretFile, "", "0 bytes"},
		{SecretFile, strings.Repeat("x", reload.MaxSize+1), "1 MiB"},
		{PublicKeyFile, "", "no PEM block"},
		{PublicKeyFile, secret, "no PEM block"},
		{PublicKeyFile, privatePEM(k.ec), "PRIVATE KEY"},
		{PublicKeyFile, publicPEM(k.ec) + publicPEM(k.ed), "more than one"},
		{PublicKeyFile, publicPEM(small), "1024 bits"},
		{PublicKeyFile, publicPEM(p384), "P-384"},
		{PublicKeyFile, "-----BEGIN PUBLIC KEY-----\nAAAA\n-----END PUBLIC KEY-----\n", "asn1"},
		{JWKSFile, "", "not a JSON Web Key Set"},
		{JWKSFile, `[]`, "not a JSON Web Key Set"},
		{JWKSFile, `{}`, "no key"},
		{JWKSFile, jwks(), "no key"},
		{JWKSFile, jwks(`{"kty":"oct","k":"c2VjcmV0"}`), "no key"},
		{JWKSFile, jwks(jwkOf(k.rsa, `,"use":"enc"`)), "no key"},
		{JWKSFile, jwks(jwkOf(k.rsa, `,"alg":"PS256"`)), "no key"},
		{JWKSFile, jwks(jwkOf(k.rsa, `,"key_ops":["encrypt"]`)), "no key"},
		{JWKSFile, jwks(jwkOf(small, "")), "1024 bits"},
		{JWKSFile, jwks(ec, jwkOf(k.ed, "")), "same id"},
		{JWKSFile, jwks(jwkOf(k.ec, `,"d":"AA"`)), "private key"},
		{JWKSFile, with(ec, `"x":"`, `"x":"!`), `"x": illegal`},
		{JWKSFile, with(ec, `"x":"`, `"x":"AAAA`), "X in marshal"},
		{JWKSFile, with(ec, `"y":"`+ec[strings.Index(ec, `"y":"`)+5:len(ec)-2], `"y":"`+strings.Repeat("A", 43)), "point is not on"},
		{JWKSFile, with(jwkOf(k.rsa, ""), `"e":"AQAB"`, `"e":"AQ"`), `"e" is out of range`},
		{JWKSFile, with(jwkOf(k.rsa, ""), `"e":"AQAB"`, `"e":""`), `requires parameters "n" and "e"`},
	} {
		path := writeFile(t, tt.text)
		_, err := New(tt.source(path), Options{})
		if err == nil || !strings.Contains(err.Error(), tt.want) || !strings.HasPrefix(err.Error(), path+": ") ||
			strings.Contains(err.Error(), "\n") || strings.Contains(err.Error(), short) {
			t.Errorf("%.40q: %v; want %q", tt.text, err, tt.want)
		}
	}
	missing := filepath.Join(t.TempDir(), "missing")
	for _, source := range []KeySource{SecretFile(missing), PublicKeyFile(missing), JWKSFile(missing)} {
		if _, err := New(source, Options{}); err == nil || err.Error() != missing+": no such file or directory" {
			t.Error(err)
		}
	}
	if _, err := New(JWKSFile(t.TempDir()), Options{}); err == nil || !strings.Contains(err.Error(), "directory") {
		t.Error(err)
	}
	for _, source := range []KeySource{{}, Secret(""), Secret(short)} {
		if _, err := New(source, Options{}); err == nil || strings.Contains(err.Error(), short) {
			t.Error(err)
		}
	}
}

// A set may have keys that are for something else, and members that we do not know.
func TestSetWithOtherKeys(t *testing.T) {
	k := testKeys()
	v := verifier(t, JWKSFile(writeFile(t, `{"x":1,"keys":[`+
		jwkOf(k.otherRSA, `,"use":"enc","kid":"1"`)+`,`+`{"kty":"EC","crv":"secp256k1","kid":"2"},{"kty":"new"},`+
		jwkOf(k.rsa, `,"use":"sig","alg":"RS256","key_ops":["verify"],"x5c":["…"],"kid":"1"`)+`]}`)), Options{})
	for _, header := range []string{`{"alg":"RS256","kid":"1"}`, `{"alg":"RS256"}`} {
		if _, err := v.Verify(signed(jwt.SigningMethodRS256, k.rsa, header, claimsText(""))); err != nil {
			t.Errorf("%s: %v", header, err)
		}
	}
}

// A key file that changes is read again a second later. A broken one keeps the old keys, and is
// logged once.
func TestKeyFileChanges(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := testKeys()
		var log bytes.Buffer
		path := writeFile(t, jwks(jwkOf(k.ec, "")))
		v := verifier(t, JWKSFile(path), Options{Log: slog.New(slog.NewTextHandler(&log, nil))})
		ec := signed(jwt.SigningMethodES256, k.ec, `{"alg":"ES256"}`, claimsText(""))
		ed := signed(jwt.SigningMethodEdDSA, k.ed, `{"alg":"EdDSA"}`, claimsText(""))
		accepted := func(step string, wantEC, wantEd error) {
			t.Helper()
			_, errEC := v.Verify(ec)
			_, errEd := v.Verify(ed)
			redistest.ErrorIf(t, errEC != wantEC || errEd != wantEd, "%s: %v, %v", step, errEC, errEd)
		}
		write := func(text string) {
			t.Helper()
			redistest.OK(t, os.WriteFile(path, []byte(text), 0o600))
		}
		logged := func(step, want string, times int) {
			t.Helper()
			if n := strings.Count(log.String(), want); n != times {
				t.Errorf("%s: %d times %q in the log:\n%s", step, n, want, &log)
			}
		}
		accepted("at first", nil, errAlgorithm)
		write("{")
		for range 3 {
			time.Sleep(reload.Interval)
			accepted("broken", nil, errAlgorithm)
		}
		logged("broken", "the old keys count", 1)
		redistest.OK(t, os.Remove(path))
		for range 3 {
			time.Sleep(reload.Interval)
			accepted("missing", nil, errAlgorithm)
		}
		logged("missing", "the old keys count", 2)
		write(jwks(jwkOf(k.ed, "")))
		accepted("changed", nil, errAlgorithm) // it was looked at in this second
		time.Sleep(reload.Interval)
		accepted("a second later", errAlgorithm, nil)
		write(jwks(jwkOf(k.ed, `,"kid":"2"`), jwkOf(k.ec, `,"kid":"1"`)))
		time.Sleep(reload.Interval)
		accepted("two keys, and no kid", errNoKey, errNoKey)
		logged("in the end", "its new keys count", 2)
		logged("in the end", "ERROR", 2)
	})
}
