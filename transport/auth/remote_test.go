package auth

import (
	"bytes"
	"errors"
	"io"
	"log"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/golang-jwt/jwt/v5"

	"roomd/lockmgr/redistest"
	"roomd/transport/internal/reload"
)

// issuer answers requests for a key set in the place of a server.
type issuer struct {
	status int
	set    string
	err    error
	takes  time.Duration
	asked  atomic.Int32
}

func (i *issuer) RoundTrip(*http.Request) (*http.Response, error) {
	i.asked.Add(1)
	time.Sleep(i.takes)
	if i.err != nil {
		return nil, i.err
	}
	return &http.Response{StatusCode: i.status, Body: io.NopCloser(strings.NewReader(i.set))}, nil
}

// verifierOf returns a verifier with the keys of an issuer.
func verifierOf(t *testing.T, from *issuer, log io.Writer) *Verifier {
	t.Helper()
	set, err := newRemote(JWKSURL("https://issuer.example/keys", false), slog.New(slog.NewTextHandler(log, nil)))
	redistest.OK(t, err)
	set.client.Transport = from
	redistest.OK(t, set.start())
	v := verifier(t, Secret(secret), Options{})
	v.keys = set.keysFor
	return v
}

// A key set is fetched again for a key that it lacks, but not for each token, and when it is old. While there is none
// the last one counts, and the log says so once.
func TestJWKSURL_FetchedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := testKeys()
		var log bytes.Buffer
		from := &issuer{status: http.StatusOK, set: jwks(jwkOf(k.ec, `,"kid":"1"`))}
		v := verifierOf(t, from, &log)
		first := signed(jwt.SigningMethodES256, k.ec, `{"alg":"ES256","kid":"1"}`, claimsText(""))
		second := signed(jwt.SigningMethodEdDSA, k.ed, `{"alg":"EdDSA","kid":"2"}`, claimsText(""))
		expect := func(step string, wantFirst, wantSecond error, asked int32) {
			t.Helper()
			_, errSecond := v.Verify(second)
			_, errFirst := v.Verify(first)
			if errFirst != wantFirst || errSecond != wantSecond || from.asked.Load() != asked {
				t.Errorf("%s: %v, %v after %d requests, not %d", step, errFirst, errSecond, from.asked.Load(), asked)
			}
		}
		expect("at first", nil, errNoKey, 1)
		time.Sleep(fetchPause)
		expect("a key that there is not", nil, errNoKey, 2)
		from.set = jwks(jwkOf(k.ed, `,"kid":"2"`), jwkOf(k.ec, `,"kid":"1"`))
		expect("too early", nil, errNoKey, 2)
		time.Sleep(fetchPause)
		expect("a new key", nil, nil, 3)
		from.set = jwks(jwkOf(k.ed, `,"kid":"2"`))
		time.Sleep(fetchPause)
		expect("withdrawn a moment ago", nil, nil, 3)
		time.Sleep(maxAge)
		expect("withdrawn", errNoKey, nil, 4)
		good, asked := from.set, int32(4)
		for _, bad := range []*issuer{
			{err: errors.New("away")}, {err: errors.New("away")}, {status: http.StatusFound, set: good},
			{status: http.StatusOK, set: jwks()}, {status: http.StatusOK, set: "<html>"},
			{status: http.StatusOK, set: jwks(`{"kty":"oct","kid":"1","k":"c2VjcmV0"}`)},
			{status: http.StatusOK, set: good + strings.Repeat(" ", reload.MaxSize)},
		} {
			from.err, from.status, from.set = bad.err, bad.status, bad.set
			time.Sleep(maxAge)
			asked++
			expect("an unusable answer", errNoKey, nil, asked)
		}
		from.err, from.status, from.set = nil, http.StatusOK, jwks(jwkOf(k.ec, `,"kid":"1"`))
		time.Sleep(maxAge)
		expect("the issuer is back", nil, errNoKey, asked+1)
		for text, times := range map[string]int{"error=away": 1, "the old keys count": 6, "fetched again": 1,
			strings.Split(second, ".")[1]: 0} {
			if n := strings.Count(log.String(), text); n != times {
				t.Errorf("%d times %q in the log, not %d:\n%s", n, text, times, &log)
			}
		}
	})
}

// While a set is fetched, the tokens of its new key wait for it, by one request, and those of a known key do not. If
// nobody has asked for long, all wait: the key may be withdrawn.
func TestJWKSURL_AtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := testKeys()
		from := &issuer{status: http.StatusOK, set: jwks(jwkOf(k.ec, `,"kid":"1"`))}
		v := verifierOf(t, from, io.Discard)
		known := signed(jwt.SigningMethodES256, k.ec, `{"alg":"ES256","kid":"1"}`, claimsText(""))
		fresh := signed(jwt.SigningMethodEdDSA, k.ed, `{"alg":"EdDSA","kid":"2"}`, claimsText(""))
		from.takes = time.Second
		verify := func(token string, callers int) (waited int32, failed int32) {
			var all sync.WaitGroup
			var slow, wrong atomic.Int32
			for range callers {
				all.Go(func() {
					began := time.Now()
					if _, err := v.Verify(token); err != nil {
						wrong.Add(1)
					}
					if time.Since(began) > 0 {
						slow.Add(1)
					}
				})
			}
			all.Wait()
			return slow.Load(), wrong.Load()
		}
		expect := func(step string, token string, wantWaited, wantFailed, wantAsked int32) {
			t.Helper()
			waited, failed := verify(token, 5)
			if asked := from.asked.Load(); waited != wantWaited || failed != wantFailed || asked != wantAsked {
				t.Errorf("%s: %d waited, %d failed, %d requests", step, waited, failed, asked)
			}
		}
		from.set = jwks(jwkOf(k.ed, `,"kid":"2"`), jwkOf(k.ec, `,"kid":"1"`))
		time.Sleep(fetchPause)
		expect("a known key", known, 0, 0, 1)
		expect("a new key", fresh, 5, 0, 2)
		time.Sleep(maxAge + 1)
		expect("an old set", known, 1, 0, 3)
		from.set = jwks(jwkOf(k.ed, `,"kid":"2"`))
		time.Sleep(2*maxAge + 1)
		expect("a very old set", known, 5, 5, 4)
	})
}

// New fetches a set from loopback, and from elsewhere only by TLS and from public addresses. It follows no redirection.
func TestJWKSURL_Start(t *testing.T) {
	t.Parallel()
	k := testKeys()
	set := jwks(jwkOf(k.ec, `,"kid":"1"`), `{"kty":"oct","kid":"2","k":"`+b64(secret)+`"}`)
	answer := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/moved" {
			http.Redirect(w, r, "/keys", http.StatusFound)
		}
		_, _ = io.WriteString(w, set)
	})
	plain, secure := httptest.NewServer(answer), httptest.NewUnstartedServer(answer)
	defer plain.Close()
	secure.Config.ErrorLog = log.New(io.Discard, "", 0)
	secure.StartTLS()
	defer secure.Close()
	v := verifier(t, JWKSURL(plain.URL+"/keys", false), Options{})
	_, err := v.Verify(signed(jwt.SigningMethodES256, k.ec, `{"alg":"ES256","kid":"1"}`, claimsText("")))
	redistest.OK(t, err)
	if _, err := v.Verify(hmacToken([]byte(secret), `{"alg":"HS256","kid":"2"}`, claimsText(""))); err != errNoKey {
		t.Error("a published secret counts:", err)
	}
	everywhere := strings.Replace(secure.URL, "127.0.0.1", "0.0.0.0", 1) // Linux leads it to loopback
	for _, tt := range []struct {
		url     string
		private bool
		want    string
	}{
		{plain.URL + "/moved", false, "HTTP 302"},
		{secure.URL, false, "certificate"},
		{everywhere, false, "--auth-jwks-private"},
		{everywhere, true, "certificate"},
		{"https://10.1.2.3/keys", false, "--auth-jwks-private"},
		{"https://[::ffff:169.254.169.254]/keys", false, "--auth-jwks-private"},
		{"http://issuer.example/keys", true, "https://"},
		{"ftp://127.0.0.1/keys", true, "https://"},
		{"https://", true, "name a host"},
		{"https://:443/keys", true, "name a host"},
		{"https://user:hidden@issuer.example/keys", false, "no user and password"},
		{"https://%zz", false, "is no URL"},
	} {
		if _, err := New(JWKSURL(tt.url, tt.private), Options{}); err == nil || !strings.Contains(err.Error(), tt.want) ||
			strings.Contains(err.Error(), "hidden") {
			t.Errorf("%s: %v; want %q", tt.url, err, tt.want)
		}
	}
}

// Addresses of private networks are refused, also those that are written as IPv6.
func TestCheckPublic(t *testing.T) {
	for address, public := range map[string]bool{
		"9.9.9.9:443": true, "[2620:fe::fe]:443": true, "[::ffff:9.9.9.9]:443": true,
		"10.0.0.1:443": false, "172.16.0.1:443": false, "192.168.0.1:443": false, "127.0.0.1:443": false,
		"169.254.169.254:80": false, "100.64.0.1:443": false, "0.0.0.0:443": false, "224.0.0.1:443": false,
		"255.255.255.255:443": false, "240.0.0.1:443": false, "[::]:443": false, "[::1]:443": false,
		"[::ffff:10.0.0.1]:443": false, "[fe80::1%eth0]:443": false, "[fd00::1]:443": false,
		"[64:ff9b::a00:1]:443": false, "[2002:a00:1::]:443": false, "[::a00:1]:443": false, "nonsense": false,
	} {
		if err := checkPublic(address, false); (err == nil) != public {
			t.Errorf("%s: %v", address, err)
		}
	}
	for address, ok := range map[string]bool{"127.0.0.1:80": true, "[::1]:80": true, "10.0.0.1:80": false} {
		if err := checkPublic(address, true); (err == nil) != ok {
			t.Errorf("of a loopback URL, %s: %v", address, err)
		}
	}
}

// JWKSSigner makes a pair once, which a verifier of the set accepts, and overwrites no file.
func TestJWKSSigner(t *testing.T) {
	path := writeFile(t, "mine")
	if _, err := JWKSSigner(path); err == nil || !strings.HasPrefix(err.Error(), path+": ") {
		t.Error("a file was overwritten:", err)
	}
	path += "-2"
	for range 2 {
		signer, err := JWKSSigner(path)
		redistest.OK(t, err)
		token, err := signer.Sign(Identity{User: "ada", Expires: time.Now().Add(time.Hour)})
		redistest.OK(t, err)
		_, err = verifier(t, JWKSFile(path), Options{}).Verify(token)
		redistest.OK(t, err)
	}
}
