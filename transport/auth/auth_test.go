package auth

import (
	"errors"
	"reflect"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"roomd/lockmgr/redistest"
	"roomd/room"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestWhatATokenSays(t *testing.T) {
	v := verifier(t, Secret(secret), Options{})
	for claims, want := range map[string]Identity{
		`{"sub":"张三","exp":4000000000}`: {User: "张三", Role: RolePlayer, Expires: time.Unix(4000000000, 0)},
		`{"sub":"e\u0301","exp":4000000000.5,"nbf":1,"iat":"?","x":{"a":[]}}`: {
			User: "é", Role: RolePlayer, Expires: time.Unix(4000000000, 5e8)},
		` {"exp":4e9, "role":"admin", "rooms":[], "sub":"a"} `: {
			User: "a", Role: RoleAdmin, Rooms: []string{}, Expires: time.Unix(4000000000, 0)},
		`{"sub":"a","exp":4000000000,"rooms":["table-*","42"],"aud":"anybody","iss":"anybody"}`: {
			User: "a", Role: RolePlayer, Rooms: []string{"table-*", "42"}, Expires: time.Unix(4000000000, 0)},
	} {
		if got, err := v.Verify(token(claims)); err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%s: %+v, %v", claims, got, err)
		}
	}
}

// A token's watch binds admins, too. Members see their room where they may enter it.
func TestIdentity_May(t *testing.T) {
	for _, tt := range []struct {
		who                          Identity
		enter, watch, watchAsAMember bool
	}{
		{Identity{}, true, true, true},
		{Identity{Rooms: []string{}}, false, false, false},
		{Identity{Rooms: []string{"42"}}, true, true, true},
		{Identity{Rooms: []string{}, Watch: []string{"4?"}}, false, true, true},
		{Identity{Watch: []string{}}, true, false, true},
		{Identity{Watch: []string{}, Role: RoleAdmin}, true, false, true},
		{Identity{Rooms: []string{}, Role: RoleAdmin}, false, false, false},
	} {
		for _, one := range []struct {
			err  error
			want bool
		}{
			{tt.who.May(Enter, "42", true), tt.enter},
			{tt.who.May(Watch, "42", false), tt.watch},
			{tt.who.May(Watch, "42", true), tt.watchAsAMember},
		} {
			if (one.err == nil) != one.want || one.err != nil && !errors.Is(one.err, room.ErrForbidden) {
				t.Errorf("%+v: %v", tt.who, one.err)
			}
		}
	}
}

// A new room's id, with all that comes behind the prefix, is one that a room can have.
func TestIdentity_Prefix(t *testing.T) {
	long := strings.Repeat("x", room.MaxIDLength-10)
	for want, rooms := range map[string][]string{
		"m-": nil, "vip-": {"4?", "vip-*", "t-*"}, "": {"42", "a?-*", long + "y*"}, long: {long + "y*", long + "*"},
	} {
		if got := (&Identity{Rooms: rooms}).Prefix("m-", 10); got != want {
			t.Errorf("%v: %q, not %q", rooms, got, want)
		}
	}
}

// Settings let only members watch, unless the token is an admin's; the token counts in any case.
func TestIdentity_MayWatch(t *testing.T) {
	now := room.Snapshot{Settings: room.Settings{Watch: room.WatchMembers}}
	for role, want := range map[Role]bool{RolePlayer: true, RoleAdmin: true} {
		who := Identity{Role: role}
		if err := who.MayWatch(now, "42", "x", 0); (err == nil) != want {
			t.Errorf("%s: %v", role, err)
		}
		who.Watch = []string{}
		if err := who.MayWatch(now, "42", "x", 0); !errors.Is(err, room.ErrForbidden) {
			t.Errorf("%s, whose token lets nobody watch: %v", role, err)
		}
	}
}

func TestIdentity_MayEnterByPatterns(t *testing.T) {
	for _, tt := range []struct {
		patterns []string
		allowed  string
		refused  string
	}{
		{nil, "42 table-1 x", ""},
		{[]string{}, "", "42 table-1"},
		{[]string{"*"}, "42 table-1 a.b_c", ""},
		{[]string{"table-*"}, "table- table-1 table-1-2", "table Table-1 xtable-1 42"},
		{[]string{"table-*", "42"}, "table-1 42", "43 421 142"},
		{[]string{"*-eu-*"}, "a-eu-b -eu-", "eu a-us-b"},
		{[]string{"vip-?"}, "vip-1", "vip- vip-12"},
		{[]string{"t[0-9]"}, "t0 t9", "tx t10"},
		{[]string{"a.b"}, "a.b", "axb"},
	} {
		who := Identity{Rooms: tt.patterns}
		for want, ids := range map[bool]string{true: tt.allowed, false: tt.refused} {
			for _, id := range strings.Fields(ids) {
				redistest.ErrorIf(t, (who.May(Enter, id, false) == nil) != want,
					"%q, room %s: allowed is not %v", tt.patterns, id, want)
			}
		}
	}
}

// A token is valid until the second of its exp, and from that of its nbf, without leeway.
func TestValidity(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		v := verifier(t, Secret(secret), Options{})
		text := token(`{"sub":"a","nbf":946684810,"exp":946684820}`) // the bubble begins at …800
		for _, step := range []struct {
			sleep time.Duration
			want  error
		}{
			{0, errTooEarly},
			{10*time.Second - 1, errTooEarly},
			{1, nil},
			{10*time.Second - 1, nil},
			{1, errExpired},
		} {
			time.Sleep(step.sleep)
			if _, err := v.Verify(text); err != step.want {
				t.Errorf("at %v: %v, want %v", time.Now(), err, step.want)
			}
		}
	})
}

// A verifier accepts what the signer with the matching key makes.
func TestSigner(t *testing.T) {
	k := testKeys()
	file := func(text string) string { return writeFile(t, text) }
	signer := func(s *Signer, err error) *Signer {
		t.Helper()
		redistest.OK(t, err)
		return s
	}
	who := Identity{User: "李四", Rooms: []string{"table-*"}, Role: RoleAdmin, Expires: time.Now().Add(time.Hour).Truncate(time.Second)}
	for name, tt := range map[string]struct {
		signer *Signer
		source KeySource
	}{
		"secret":      {signer(SecretSigner(secret)), Secret(secret)},
		"secret file": {signer(SecretFileSigner(file(secret + "\n"))), SecretFile(file(secret + "\r\n"))},
		"RSA":         {signer(PrivateKeySigner(file(privatePEM(k.rsa)))), PublicKeyFile(file(publicPEM(k.rsa)))},
		"EC":          {signer(PrivateKeySigner(file(privatePEM(k.ec)))), PublicKeyFile(file(publicPEM(k.ec)))},
		"Ed25519":     {signer(PrivateKeySigner(file(privatePEM(k.ed)))), JWKSFile(file(jwks(jwkOf(k.ed, ""))))},
		"key id":      {signer(PrivateKeySigner(file(privatePEM(k.ec)))), JWKSFile(file(jwks(jwkOf(k.ec, `,"kid":"1"`), jwkOf(k.rsa, `,"kid":"2"`))))},
	} {
		tt.signer.Audience, tt.signer.Issuer = "roomd", "me"
		if name == "key id" {
			tt.signer.KeyID = "1"
		}
		text, err := tt.signer.Sign(who)
		redistest.OK(t, err)
		got, err := verifier(t, tt.source, Options{Audience: "roomd", Issuer: "me"}).Verify(text)
		redistest.ErrorIf(t, err != nil || !reflect.DeepEqual(got, who), "%s: %+v, %v", name, got, err)
	}
	for field, bad := range map[string]Identity{
		"user":    {Expires: who.Expires},
		"expires": {User: "a", Expires: time.Now()},
		"rooms":   {User: "a", Expires: who.Expires, Rooms: []string{"["}},
		"role":    {User: "a", Expires: who.Expires, Role: "Admin"},
	} {
		_, err := signer(SecretSigner(secret)).Sign(bad)
		if invalid, ok := err.(*room.InvalidError); !ok || invalid.Field != field {
			t.Errorf("%s: %v", field, err)
		}
	}
}

func FuzzVerify(f *testing.F) {
	k := testKeys()
	for _, token := range attacksOnSecret() {
		f.Add(token)
	}
	f.Add(token(claimsText(`,"rooms":["table-*"],"role":"admin"`)))
	secretly := verifier(f, Secret(secret), Options{})
	set := verifier(f, JWKSFile(writeFile(f, jwks(jwkOf(k.rsa, `,"kid":"r"`), jwkOf(k.ec, `,"kid":"e"`), jwkOf(k.ed, "")))), Options{})
	f.Fuzz(func(t *testing.T, text string) {
		if who, err := set.Verify(text); err == nil {
			t.Fatalf("a token that nobody signed: %+v", who)
		} else if _, ours := err.(reason); !ours {
			t.Fatalf("not one of our errors: %v", err)
		}
		// As claims of a signed token, and as its header, with the rest of it good.
		for _, signed := range []string{text, token(text), hmacToken([]byte(secret), text, claimsText(""))} {
			who, err := secretly.Verify(signed)
			if err != nil {
				if _, ours := err.(reason); !ours {
					t.Fatalf("not one of our errors: %v", err)
				}
				continue
			}
			name, err := room.ParseUser(who.User)
			if err != nil || name != who.User || !who.Expires.After(time.Now()) || who.Role != RolePlayer && who.Role != RoleAdmin {
				t.Fatalf("accepted %+v, %v", who, err)
			}
		}
	})
}
