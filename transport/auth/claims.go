package auth

import (
	"encoding/base64"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/golang-jwt/jwt/v5"

	"roomd/room"
)

// reason is why a token is refused. Its text is constant, so that it never contains a part of a token.
type reason string

func (r reason) Error() string { return string(r) }

const (
	errTooLong    reason = "the token is longer than 8 KiB"
	errMalformed  reason = "the token is not a JSON Web Token"
	errHeader     reason = "the token's header cannot be understood"
	errCritical   reason = "the token's header has extensions (crit)"
	errNoKey      reason = "the token names no key that this server has"
	errAlgorithm  reason = "the token is signed by another algorithm than the server's key is for"
	errSignature  reason = "the token's signature is wrong"
	errAmbiguous  reason = "the token's claims are not plain: a name is there twice or in other letter case, or the text is not UTF-8"
	errExpires    reason = "the token's exp must be a time, in seconds since 1970"
	errNotBefore  reason = "the token's nbf must be a time, in seconds since 1970"
	errSubject    reason = "the token's sub must be a user name: 1 to 64 characters without control characters"
	errRooms      reason = "the token's rooms must be a list of patterns such as table-*"
	errWatch      reason = "the token's watch must be a list of patterns such as table-*"
	errRole       reason = "the token's role must be player or admin"
	errAudience   reason = "the token is for another audience"
	errIssuer     reason = "the token is from another issuer"
	errExpired    reason = "the token has expired"
	errTooEarly   reason = "the token is not valid yet"
	errMissing    reason = "the token has no aud, or no iss, and this server requires it"
	errNotAllowed reason = "the token is not valid"
)

type header struct {
	algorithm string
	keyID     string
	named     bool // keyID is present
}

// readHeader reads a token's header, more strictly than the JWT library does.
func readHeader(part string) (h header, err error) {
	text, err := base64.RawURLEncoding.Strict().DecodeString(part)
	if err != nil {
		return h, errMalformed
	}
	members, ok := readObject(text, "alg", "kid", "crit", "typ")
	if !ok {
		return h, errHeader
	}
	if members["crit"] != nil {
		return h, errCritical
	}
	if h.algorithm, ok = readString(members["alg"]); !ok {
		return h, errHeader
	}
	if id := members["kid"]; id != nil {
		if h.keyID, h.named = readString(id); !h.named {
			return h, errHeader
		}
	}
	return h, nil
}

type claims struct {
	identity  Identity
	notBefore *jwt.NumericDate
	audience  jwt.ClaimStrings
	issuer    string
}

// UnmarshalJSON reads the claims of a token. Unlike the JWT library it refuses duplicate names, and names in other
// letter case.
func (c *claims) UnmarshalJSON(text []byte) error {
	members, ok := readObject(text, "sub", "exp", "nbf", "aud", "iss", "rooms", "watch", "role")
	if !ok {
		return errAmbiguous
	}
	c.identity.Role = RolePlayer
	for _, claim := range []struct {
		name     string
		read     func(value jsontext.Value) bool
		wrong    reason
		required bool
	}{
		{"exp", func(v jsontext.Value) (ok bool) { c.identity.Expires, ok = readTime(v); return ok }, errExpires, true},
		{"nbf", c.readNotBefore, errNotBefore, false},
		{"sub", c.readSubject, errSubject, true},
		{"rooms", patternsInto(&c.identity.Rooms), errRooms, false},
		{"watch", patternsInto(&c.identity.Watch), errWatch, false},
		{"role", c.readRole, errRole, false},
		{"iss", func(v jsontext.Value) (ok bool) { c.issuer, ok = readString(v); return ok }, errIssuer, false},
		{"aud", c.readAudience, errAudience, false},
	} {
		value := members[claim.name]
		if value == nil && claim.required || value != nil && !claim.read(value) {
			return claim.wrong
		}
	}
	return nil
}

func (c *claims) readNotBefore(value jsontext.Value) bool {
	from, ok := readTime(value)
	c.notBefore = &jwt.NumericDate{Time: from}
	return ok
}

func (c *claims) readSubject(value jsontext.Value) bool {
	name, ok := readString(value)
	user, err := room.ParseUser(name)
	c.identity.User = user
	return ok && err == nil
}

func patternsInto(list *[]string) func(jsontext.Value) bool {
	return func(value jsontext.Value) (ok bool) {
		*list, ok = readList(value)
		return ok && !slices.ContainsFunc(*list, func(p string) bool { return !validPattern(p) })
	}
}

func (c *claims) readRole(value jsontext.Value) bool {
	role, _ := readString(value)
	c.identity.Role = Role(role)
	return c.identity.Role == RolePlayer || c.identity.Role == RoleAdmin
}

func (c *claims) readAudience(value jsontext.Value) (ok bool) {
	if one, is := readString(value); is {
		c.audience = jwt.ClaimStrings{one}
		return true
	}
	c.audience, ok = readList(value)
	return ok
}

// readObject returns the members of a JSON object. It reports false if text is none, or a name is there twice, or one
// of names is there in other letter case.
func readObject(text []byte, names ...string) (map[string]jsontext.Value, bool) {
	var members map[string]jsontext.Value
	if err := json.Unmarshal(text, &members); err != nil || members == nil {
		return nil, false
	}
	for found := range members {
		for _, name := range names {
			if found != name && strings.EqualFold(found, name) {
				return nil, false
			}
		}
	}
	return members, true
}

func readString(value jsontext.Value) (string, bool) {
	var text string
	if value.Kind() != jsontext.KindString || json.Unmarshal(value, &text) != nil {
		return "", false
	}
	return text, true
}

// readList reads a list of strings. An empty one is not nil.
func readList(value jsontext.Value) ([]string, bool) {
	var elements []jsontext.Value
	if value.Kind() != jsontext.KindBeginArray || json.Unmarshal(value, &elements) != nil {
		return nil, false
	}
	list := make([]string, len(elements))
	for i, element := range elements {
		var ok bool
		if list[i], ok = readString(element); !ok {
			return nil, false
		}
	}
	return list, true
}

// maxTime is the end of the year 9999, in seconds since 1970.
const maxTime = 253402300799

// readTime reads seconds since 1970, with or without decimals.
func readTime(value jsontext.Value) (time.Time, bool) {
	seconds, err := strconv.ParseFloat(string(value), 64) // other JSON values fail
	if err != nil || seconds < 0 || seconds > maxTime {
		return time.Time{}, false
	}
	whole, part := math.Modf(seconds)
	return time.Unix(int64(whole), int64(part*1e9)), true
}

// GetExpirationTime and the methods after it return what the JWT library compares with the time and its options.

func (c *claims) GetExpirationTime() (*jwt.NumericDate, error) {
	if c.identity.Expires.IsZero() {
		return nil, nil
	}
	return &jwt.NumericDate{Time: c.identity.Expires}, nil
}
func (c *claims) GetNotBefore() (*jwt.NumericDate, error) { return c.notBefore, nil }
func (c *claims) GetIssuedAt() (*jwt.NumericDate, error)  { return nil, nil }
func (c *claims) GetAudience() (jwt.ClaimStrings, error)  { return c.audience, nil }
func (c *claims) GetIssuer() (string, error)              { return c.issuer, nil }
func (c *claims) GetSubject() (string, error)             { return c.identity.User, nil }
