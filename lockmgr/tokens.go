package lockmgr

import (
	"strings"
	"sync"

	"github.com/redis/go-redis/v9"

	"roomd/lockmgr/redisconn"
)

// uuidLen is the length of the UUID at the end of a token.
const uuidLen = 36

// tokens are the tokens by which a slot asks for one hold. As an argument of a request, tokens gives each
// sending of it a token of its own. The client sends a request again when the answer is missing, and the
// earlier copy may arrive at any time, even after the lock was released. Nobody uses the token of such a copy
// any more, so no write is accepted in a hold that the copy acquires. Once inherit.lua or abandon.lua has
// buried that token, the copy acquires nothing.
type tokens struct {
	names *names
	name  string

	mu       sync.Mutex
	current  string
	underway bool        // guarded by mu: a request for current was not answered
	promised bool        // guarded by mu: a release that hands the lock to current was not answered
	request  redis.Cmder // guarded by mu: the request that carries current
	doubted  []string    // guarded by mu: earlier tokens, whose requests were not answered
}

func newTokens(n *names, name string) *tokens {
	t := new(tokens)
	t.init(n, name)
	return t
}

func (t *tokens) init(n *names, name string) { t.names, t.name, t.current = n, name, n.newToken(name) }

// MarshalBinary returns the token for the next sending of the request. The client calls it for each one.
func (t *tokens) MarshalBinary() ([]byte, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.request != nil {
		if err := t.request.Err(); err != nil && redisconn.Answered(err) {
			t.request.SetErr(nil) // Redis did not execute it, because of a redirection, for example
			t.underway = false
		}
	}
	if t.underway {
		t.doubted = append(t.doubted, t.current)
		t.current = t.names.newToken(t.name)
	}
	t.underway = true
	return []byte(t.current), nil
}

// String returns the current token.
func (t *tokens) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.current
}

// sentBy records the request that will carry the token; nil if it is not known.
func (t *tokens) sentBy(request redis.Cmder) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.request = request
}

// answered records that Redis has answered the latest request. It reports whether earlier ones were not
// answered.
func (t *tokens) answered() (doubt bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.underway, t.request = false, nil
	return len(t.doubted) > 0
}

// inherited records that Redis has buried the tokens of earlier requests.
func (t *tokens) inherited() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.doubted = nil
}

// promise records whether a release that names the current token as the next holder is unanswered.
func (t *tokens) promise(underway bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.promised = underway
}

// inDoubt returns the UUIDs of all tokens whose requests were not answered, one after the other, as scripts
// expect them.
func (t *tokens) inDoubt() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	ids := joinIDs(t.doubted)
	if t.underway || t.promised {
		ids += t.current[len(t.current)-uuidLen:]
	}
	return ids
}

func joinIDs(tokens []string) string {
	var ids strings.Builder
	for _, token := range tokens {
		ids.WriteString(token[len(token)-uuidLen:])
	}
	return ids.String()
}

// doubts is the argument of inherit.lua that names the earlier tokens.
type doubts struct{ of *tokens }

// MarshalBinary returns the UUIDs of the earlier tokens. Each sending marshals tokens before doubts.
func (d doubts) MarshalBinary() ([]byte, error) {
	d.of.mu.Lock()
	defer d.of.mu.Unlock()
	return []byte(joinIDs(d.of.doubted)), nil
}
