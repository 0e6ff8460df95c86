package client

import (
	"encoding/base64"
	"encoding/json"
	"math"
	"strings"
	"time"
)

// expiry reads from a JSON Web Token when it expires, without checking it, which is the server's
// business. It is the zero time if the token does not say.
func expiry(token string) time.Time {
	parts := strings.Split(token, ".")
	if len(parts) != 3 {
		return time.Time{}
	}
	payload, err := base64.RawURLEncoding.DecodeString(parts[1])
	if err != nil {
		return time.Time{}
	}
	var claims struct {
		Exp float64 `json:"exp"`
	}
	if json.Unmarshal(payload, &claims) != nil || claims.Exp <= 0 || claims.Exp > math.MaxInt32*100 {
		return time.Time{}
	}
	return time.Unix(int64(claims.Exp), 0)
}
