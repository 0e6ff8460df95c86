package lockmgr

import (
	"strings"
	"sync"

	"github.com/redis/go-redis/v9"

	"roomd/lockmgr/redisconn"
)

// uuidLen is the length of the UUID at the end of a token.
const uuidLen = 36

// tokens are the tokens under which a slot asks for one hold. It is the argument that names
// the token in a request for the lock, and gives each sending of that request a token of its
// own: the client sends a request again when the answer is missing, and the earlier copy may
// arrive whenever it likes, also after the lock was released. Nobody believes in the token
// of such a copy any more, so no write is accepted from the hold that it may bring about. And
// it brings about none once Redis was told so, by inherit.lua or abandon.lua.
type tokens struct {
	names *names
	name  string

	mu       sync.Mutex
	current  string
	underway bool        // guarded by mu: a request for current was not answered
	promised bool        // guarded by mu: nor was a release that names current as the next
	request  redis.Cmder // guarded by mu: that names current
	doubted  []string    // guarded by mu: earlier ones, whose requests were not answered
}

func newTokens(n *names, name string) *tokens {
	t := new(tokens)
	t.init(n, name)
	return t
}

func (t *tokens) init(n *names, name string) { t.names, t.name, t.current = n, name, n.newToken(name) }

// MarshalBinary returns the token under which the request asks. The client calls it each time
// that it puts the request on the wire.
func (t *tokens) MarshalBinary() ([]byte, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.request != nil {
		if err := t.request.Err(); err != nil && redisconn.Answered(err) {
			t.request.SetErr(nil) // by a redirection, for example: it was not carried out
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

// String returns the current token, for logs and traces of requests.
func (t *tokens) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.current
}

// sentBy names the request that is going to carry the token; nil if that is not known.
func (t *tokens) sentBy(request redis.Cmder) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.request = request
}

// answered records that Redis has answered the latest request. It reports whether earlier
// ones were not answered.
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

// promise records that a release names the current token as the next, or that it was answered.
func (t *tokens) promise(underway bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.promised = underway
}

// inDoubt returns all tokens whose requests were not answered, as scripts expect them: the
// UUIDs, one after the other.
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

// MarshalBinary is called after that of the token, in each sending.
func (d doubts) MarshalBinary() ([]byte, error) {
	d.of.mu.Lock()
	defer d.of.mu.Unlock()
	return []byte(joinIDs(d.of.doubted)), nil
}
