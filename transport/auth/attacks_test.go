package auth

import (
	"encoding/base64"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/golang-jwt/jwt/v5"

	"roomd/lockmgr/redistest"
)

const headerHS = `{"alg":"HS256","typ":"JWT"}`

// attacksOnSecret are tokens that a verifier with a secret must refuse. Most are signed with the
// right secret, so only the rule in question can refuse them.
func attacksOnSecret() map[string]string {
	good := token(claimsText(""))
	text, signature := good[:strings.LastIndex(good, ".")], good[strings.LastIndex(good, ".")+1:]
	k := testKeys()
	withHeader := func(header string) string { return hmacToken([]byte(secret), header, claimsText("")) }
	soon := time.Now().Add(time.Hour).Unix()
	return map[string]string{
		"nothing":                      "",
		"dots only":                    "..",
		"a word":                       "token",
		"two parts":                    text,
		"four parts":                   good + "." + signature,
		"a dot at the end":             good + ".",
		"a dot at the start":           "." + good,
		"a space at the end":           good + " ",
		"a line break in it":           text + ".\n" + signature,
		"a line break at the end":      good + "\n",
		"padding":                      good + "=",
		"no signature":                 text + ".",
		"truncated signature":          good[:len(good)-2],
		"longer signature":             good + "AAAA",
		"bits behind the signature":    good[:len(good)-1] + nextLetter(good[len(good)-1]),
		"wrong secret":                 hmacToken([]byte(strings.Repeat("x", 32)), headerHS, claimsText("")),
		"empty secret":                 hmacToken(nil, headerHS, claimsText("")),
		"beginning of the secret":      hmacToken([]byte(secret[:31]), headerHS, claimsText("")),
		"secret with a line break":     hmacToken([]byte(secret+"\n"), headerHS, claimsText("")),
		"other claims, old signature":  strings.Split(good, ".")[0] + "." + b64(claimsText(`,"role":"admin"`)) + "." + signature,
		"other header, old signature":  b64(`{"alg":"HS256"}`) + "." + strings.SplitN(good, ".", 2)[1],
		"alg none":                     b64(`{"alg":"none"}`) + "." + b64(claimsText("")) + ".",
		"alg none, signed":             withHeader(`{"alg":"none"}`),
		"alg None":                     withHeader(`{"alg":"None"}`),
		"alg empty":                    withHeader(`{"alg":""}`),
		"alg missing":                  withHeader(`{"typ":"JWT"}`),
		"alg null":                     withHeader(`{"alg":null}`),
		"alg a number":                 withHeader(`{"alg":256}`),
		"alg a list":                   withHeader(`{"alg":["HS256"]}`),
		"alg in lower case":            withHeader(`{"alg":"hs256"}`),
		"alg with a space":             withHeader(`{"alg":"HS256 "}`),
		"alg in full-width letters":    withHeader(`{"alg":"ＨＳ２５６"}`),
		"alg twice":                    withHeader(`{"alg":"none","alg":"HS256"}`),
		"alg twice, once escaped":      withHeader(`{"\u0061lg":"none","alg":"HS256"}`),
		"Alg beside alg":               withHeader(`{"Alg":"none","alg":"HS256"}`),
		"HS384":                        signed(jwt.SigningMethodHS384, []byte(secret), `{"alg":"HS384"}`, claimsText("")),
		"HS512":                        signed(jwt.SigningMethodHS512, []byte(secret), `{"alg":"HS512"}`, claimsText("")),
		"RS256 against a secret":       signed(jwt.SigningMethodRS256, k.rsa, `{"alg":"RS256"}`, claimsText("")),
		"crit":                         withHeader(`{"alg":"HS256","crit":["exp"]}`),
		"crit with b64":                withHeader(`{"alg":"HS256","crit":["b64"],"b64":false}`),
		"crit null":                    withHeader(`{"alg":"HS256","crit":null}`),
		"kid a number":                 withHeader(`{"alg":"HS256","kid":1}`),
		"jwk of the sender":            hmacToken([]byte("k"), `{"alg":"HS256","jwk":{"kty":"oct","k":"aw"}}`, claimsText("")),
		"kid is a path":                hmacToken(nil, `{"alg":"HS256","kid":"../../../../dev/null"}`, claimsText("")),
		"kid is SQL":                   hmacToken([]byte("x"), `{"alg":"HS256","kid":"' UNION SELECT 'x"}`, claimsText("")),
		"header not JSON":              withHeader(`alg`),
		"header a list":                withHeader(`["HS256"]`),
		"header null":                  withHeader(`null`),
		"header with more behind":      withHeader(`{"alg":"HS256"} {}`),
		"header not UTF-8":             withHeader("{\"alg\":\"HS256\",\"x\":\"\xff\"}"),
		"claims not JSON":              token(`sub`),
		"claims null":                  token(`null`),
		"claims a list":                token(`[]`),
		"claims empty":                 token(`{}`),
		"claims with more behind":      token(claimsText("") + `{"sub":"admin"}`),
		"claims not UTF-8":             token(claimsText(",\"x\":\"\xff\"")),
		"half a surrogate pair":        token(claimsText(`,"x":"\ud800"`)),
		"no exp":                       token(`{"sub":"mallory"}`),
		"exp null":                     token(`{"sub":"mallory","exp":null}`),
		"exp a string":                 token(fmt.Sprintf(`{"sub":"mallory","exp":"%d"}`, soon)),
		"exp a list":                   token(fmt.Sprintf(`{"sub":"mallory","exp":[%d]}`, soon)),
		"exp true":                     token(`{"sub":"mallory","exp":true}`),
		"exp negative":                 token(`{"sub":"mallory","exp":-1}`),
		"exp zero":                     token(`{"sub":"mallory","exp":0}`),
		"exp past":                     token(fmt.Sprintf(`{"sub":"mallory","exp":%d}`, time.Now().Add(-time.Second).Unix())),
		"exp too large for a float":    token(`{"sub":"mallory","exp":1e400}`),
		"exp too large for a time":     token(`{"sub":"mallory","exp":1e300}`),
		"exp too large for an int64":   token(`{"sub":"mallory","exp":9223372036854775808}`),
		"exp in milliseconds":          token(fmt.Sprintf(`{"sub":"mallory","exp":%d}`, time.Now().UnixMilli())),
		"exp twice":                    token(fmt.Sprintf(`{"sub":"mallory","exp":1,"exp":%d}`, soon)),
		"Exp for exp":                  token(fmt.Sprintf(`{"sub":"mallory","Exp":%d}`, soon)),
		"EXP beside exp":               token(fmt.Sprintf(`{"sub":"mallory","exp":1,"EXP":%d}`, soon)),
		"nbf in the future":            token(claimsText(fmt.Sprintf(`,"nbf":%d`, time.Now().Add(time.Minute).Unix()))),
		"nbf a string":                 token(claimsText(`,"nbf":"0"`)),
		"nbf null":                     token(claimsText(`,"nbf":null`)),
		"no sub":                       token(fmt.Sprintf(`{"exp":%d}`, soon)),
		"sub empty":                    token(fmt.Sprintf(`{"sub":"","exp":%d}`, soon)),
		"sub null":                     token(fmt.Sprintf(`{"sub":null,"exp":%d}`, soon)),
		"sub a number":                 token(fmt.Sprintf(`{"sub":1,"exp":%d}`, soon)),
		"sub a list":                   token(fmt.Sprintf(`{"sub":["mallory"],"exp":%d}`, soon)),
		"sub with a line break":        token(fmt.Sprintf(`{"sub":"a\nb","exp":%d}`, soon)),
		"sub with NUL":                 token(fmt.Sprintf(`{"sub":"a\u0000","exp":%d}`, soon)),
		"sub too long":                 token(fmt.Sprintf(`{"sub":%q,"exp":%d}`, strings.Repeat("x", 65), soon)),
		"sub twice":                    token(claimsText(`,"sub":"admin"`)),
		"sub twice, once escaped":      token(claimsText(`,"\u0073ub":"admin"`)),
		"Sub beside sub":               token(claimsText(`,"Sub":"admin"`)),
		"SUB for sub":                  token(fmt.Sprintf(`{"SUB":"mallory","exp":%d}`, soon)),
		"ſub, which folds to sub":      token(claimsText(`,"ſub":"admin"`)),
		"a name twice deeper down":     token(claimsText(`,"x":{"a":1,"a":2}`)),
		"role unknown":                 token(claimsText(`,"role":"root"`)),
		"role in upper case":           token(claimsText(`,"role":"ADMIN"`)),
		"role a list":                  token(claimsText(`,"role":["admin"]`)),
		"role null":                    token(claimsText(`,"role":null`)),
		"Role beside role":             token(claimsText(`,"role":"player","Role":"admin"`)),
		"rooms a string":               token(claimsText(`,"rooms":"*"`)),
		"rooms null":                   token(claimsText(`,"rooms":null`)),
		"rooms with a number":          token(claimsText(`,"rooms":[1]`)),
		"rooms with null":              token(claimsText(`,"rooms":[null]`)),
		"rooms with a broken pattern":  token(claimsText(`,"rooms":["[a"]`)),
		"rooms with an empty pattern":  token(claimsText(`,"rooms":[""]`)),
		"Rooms beside rooms":           token(claimsText(`,"rooms":[],"Rooms":["*"]`)),
		"longer than the limit":        token(claimsText(`,"x":"` + strings.Repeat("x", MaxToken) + `"`)),
		"deep":                         token(claimsText(`,"x":` + strings.Repeat("[", 2000))),
		"JWE, which has five parts":    "a.b.c.d.e",
		"JSON serialization of a JWS":  `{"payload":"` + b64(claimsText("")) + `","signature":"x"}`,
		"standard base64 in signature": text + "." + base64.StdEncoding.EncodeToString(make([]byte, 32)),
	}
}

// nextLetter returns the letter that encodes the same bits as c, and one more behind them.
func nextLetter(c byte) string {
	const alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
	return string(alphabet[strings.IndexByte(alphabet, c)|1])
}

// A token that breaks a rule is refused, with a reason that has nothing of the token in it.
func TestAttacksOnSecret(t *testing.T) {
	v := verifier(t, Secret(secret), Options{})
	attacks := attacksOnSecret()
	for name, token := range attacks {
		refused(t, v, name, token)
	}
	t.Logf("%d attacks", len(attacks))
}

// The key's type decides which algorithm counts.
func TestAttacksOnPublicKeys(t *testing.T) {
	k := testKeys()
	pemOf := map[string]string{"RSA": publicPEM(k.rsa), "EC": publicPEM(k.ec), "Ed25519": publicPEM(k.ed)}
	sources := map[string]KeySource{
		"RSA":     PublicKeyFile(writeFile(t, pemOf["RSA"])),
		"EC":      PublicKeyFile(writeFile(t, pemOf["EC"])),
		"Ed25519": PublicKeyFile(writeFile(t, pemOf["Ed25519"])),
		"set":     JWKSFile(writeFile(t, jwks(jwkOf(k.rsa, `,"kid":"r"`), jwkOf(k.ec, `,"kid":"e"`)))),
	}
	zero := func(header string, size int) string {
		return b64(header) + "." + b64(claimsText("")) + "." + base64.RawURLEncoding.EncodeToString(make([]byte, size))
	}
	sign := func(m jwt.SigningMethod, key any, header string) string {
		return signed(m, key, header, claimsText(""))
	}
	rs, es, ed, ps := jwt.SigningMethodRS256, jwt.SigningMethodES256, jwt.SigningMethodEdDSA, jwt.SigningMethodPS256
	ownKey := jwkOf(k.otherRSA, `,"kid":"r"`)
	for _, tt := range []struct{ source, name, token string }{
		{"RSA", "HS256 with the PEM as secret", hmacToken([]byte(pemOf["RSA"]), headerHS, claimsText(""))},
		{"RSA", "HS256 with the trimmed PEM", hmacToken([]byte(strings.TrimSpace(pemOf["RSA"])), headerHS, claimsText(""))},
		{"EC", "HS256 with the PEM as secret", hmacToken([]byte(pemOf["EC"]), headerHS, claimsText(""))},
		{"Ed25519", "HS256 with the PEM as secret", hmacToken([]byte(pemOf["Ed25519"]), headerHS, claimsText(""))},
		{"Ed25519", "HS256 with the key's bytes", hmacToken(k.ed[32:], headerHS, claimsText(""))},
		{"RSA", "HS256, called RS256", hmacToken([]byte(pemOf["RSA"]), `{"alg":"RS256"}`, claimsText(""))},
		{"RSA", "none", zero(`{"alg":"none"}`, 0)},
		{"RSA", "another RSA key", sign(rs, k.otherRSA, `{"alg":"RS256"}`)},
		{"RSA", "PS256 with the right key", sign(ps, k.rsa, `{"alg":"PS256"}`)},
		{"RSA", "PS256, called RS256", sign(ps, k.rsa, `{"alg":"RS256"}`)},
		{"RSA", "RS512 with the right key", sign(jwt.SigningMethodRS512, k.rsa, `{"alg":"RS512"}`)},
		{"RSA", "zero signature", zero(`{"alg":"RS256"}`, 256)},
		{"RSA", "empty signature", zero(`{"alg":"RS256"}`, 0)},
		{"RSA", "jwk in the header", sign(rs, k.otherRSA, `{"alg":"RS256","jwk":`+ownKey+`}`)},
		{"RSA", "jku in the header", sign(rs, k.otherRSA, `{"alg":"RS256","jku":"https://evil.example/jwks.json"}`)},
		{"RSA", "ES256", sign(es, k.ec, `{"alg":"ES256"}`)},
		{"EC", "zero signature", zero(`{"alg":"ES256"}`, 64)},
		{"EC", "signature of 0 bytes", zero(`{"alg":"ES256"}`, 0)},
		{"EC", "RS256", sign(rs, k.rsa, `{"alg":"RS256"}`)},
		{"EC", "none", zero(`{"alg":"none"}`, 64)},
		{"Ed25519", "zero signature", zero(`{"alg":"EdDSA"}`, 64)},
		{"Ed25519", "ES256", sign(es, k.ec, `{"alg":"ES256"}`)},
		{"set", "no kid, although there are two", sign(rs, k.rsa, `{"alg":"RS256"}`)},
		{"set", "unknown kid", sign(rs, k.rsa, `{"alg":"RS256","kid":"x"}`)},
		{"set", "empty kid", sign(rs, k.rsa, `{"alg":"RS256","kid":""}`)},
		{"set", "kid of another key", sign(rs, k.rsa, `{"alg":"RS256","kid":"e"}`)},
		{"set", "kid twice", sign(rs, k.rsa, `{"alg":"RS256","kid":"e","kid":"r"}`)},
		{"set", "kid is a path", sign(rs, k.otherRSA, `{"alg":"RS256","kid":"/etc/passwd"}`)},
		{"set", "kid known, another key", sign(rs, k.otherRSA, `{"alg":"RS256","kid":"r","jwk":`+ownKey+`}`)},
		{"set", "a key that is not in it", sign(ed, k.ed, `{"alg":"EdDSA","kid":"r"}`)},
	} {
		refused(t, verifier(t, sources[tt.source], Options{}), tt.source+": "+tt.name, tt.token)
	}
	for source, tokens := range map[string][]string{
		"RSA":     {sign(rs, k.rsa, `{"alg":"RS256"}`), sign(rs, k.rsa, `{"alg":"RS256","kid":"any"}`)},
		"EC":      {sign(es, k.ec, `{"alg":"ES256"}`)},
		"Ed25519": {sign(ed, k.ed, `{"alg":"EdDSA"}`)},
		"set":     {sign(rs, k.rsa, `{"alg":"RS256","kid":"r"}`), sign(es, k.ec, `{"alg":"ES256","kid":"e"}`)},
	} {
		for _, token := range tokens {
			if who, err := verifier(t, sources[source], Options{}).Verify(token); err != nil || who.User != "mallory" {
				t.Errorf("%s: a good token: %+v, %v", source, who, err)
			}
		}
	}
}

func TestAudienceAndIssuer(t *testing.T) {
	v := verifier(t, Secret(secret), Options{Audience: "roomd", Issuer: "https://id.example"})
	for name, more := range map[string]string{
		"neither":               ``,
		"no audience":           `,"iss":"https://id.example"`,
		"no issuer":             `,"aud":"roomd"`,
		"another audience":      `,"aud":"other","iss":"https://id.example"`,
		"other audiences":       `,"aud":["a","b"],"iss":"https://id.example"`,
		"no audiences":          `,"aud":[],"iss":"https://id.example"`,
		"audience in an object": `,"aud":{"roomd":1},"iss":"https://id.example"`,
		"audience in case":      `,"aud":"Roomd","iss":"https://id.example"`,
		"another issuer":        `,"aud":"roomd","iss":"https://id.example.evil"`,
		"issuer with a slash":   `,"aud":"roomd","iss":"https://id.example/"`,
		"issuer in a list":      `,"aud":"roomd","iss":["https://id.example"]`,
		"issuer null":           `,"aud":"roomd","iss":null`,
		"Iss beside iss":        `,"aud":"roomd","iss":"https://id.example","Iss":"x"`,
	} {
		refused(t, v, name, token(claimsText(more)))
	}
	for _, aud := range []string{`"roomd"`, `["other","roomd"]`} {
		if _, err := v.Verify(token(claimsText(`,"iss":"https://id.example","aud":` + aud))); err != nil {
			t.Errorf("aud %s: %v", aud, err)
		}
	}
}

// refused checks that a token is refused, and that the error has no part of it.
func refused(t *testing.T, v *Verifier, name, token string) {
	t.Helper()
	who, err := v.Verify(token)
	if err == nil {
		t.Errorf("%s: accepted as %+v", name, who)
		return
	}
	redistest.ErrorIf(t, who.User != "", "%s: refused, but %+v", name, who)
	if _, ours := err.(reason); !ours {
		t.Errorf("%s: the error is not one of ours: %v", name, err)
	}
}
