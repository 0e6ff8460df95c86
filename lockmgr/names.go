package lockmgr

import (
	"cmp"
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/google/uuid"
	"github.com/redis/go-redis/v9"

	"roomd/lockmgr/redisconn"
)

// suffixes make the other keys of a lock from its first one.
var suffixes = []string{":Queue", ":Fence"}

const lockKeys = 3

// maxRecent is the number of locks whose keys are cached. Deriving them takes as long as the rest of a request.
const maxRecent = 1024

// names derives keys, channels and tokens from the names of locks.
type names struct {
	prefix  string
	cluster bool
	process [4]byte // begins the UUID of every token
	first   []any   // the first of ARGV in every script that uses lock.lua: publish command, claim

	mu     sync.Mutex
	recent map[string]scriptKeys // guarded by mu: cache by name
}

func newNames(opts Options, cluster bool) *names {
	n := &names{prefix: opts.Prefix, cluster: cluster, first: []any{"PUBLISH", opts.Claim.Milliseconds()}}
	n.recent = make(map[string]scriptKeys)
	if cluster {
		n.first[0] = "SPUBLISH"
	}
	id := uuid.New()
	copy(n.process[:], id[:])
	return n
}

// newToken returns a token that no other hold has or will have: the name and a random UUID. The UUID's first 8
// digits identify the Manager, so that a wake-up reaches only its process. The UUID's version is 8, so that
// isToken can tell it from the tokens of other programs, which have version 4.
func (n *names) newToken(name string) string {
	var id uuid.UUID
	_, _ = rand.Read(id[:]) // does not fail
	copy(id[:], n.process[:])
	id[6], id[8] = id[6]&0x0f|0x80, id[8]&0x3f|0x80
	return name + ":" + id.String()
}

// isToken reports whether token was made by newToken, in any process, for the lock of that name.
func isToken(token, name string) bool {
	id, ok := strings.CutPrefix(token, name+":")
	return ok && len(id) == uuidLen && id[14] == '8'
}

// check returns an error for a name that cannot be part of a key.
func (n *names) check(name string) error {
	switch {
	case name == "":
		return fmt.Errorf("name is empty: %w", ErrInvalid)
	case len(name) > maxName:
		return fmt.Errorf("name is %d bytes long, at most %d are allowed: %w", len(name), maxName, ErrInvalid)
	case slices.ContainsFunc(suffixes, func(s string) bool { return strings.HasSuffix(name, s) }):
		return fmt.Errorf("name %q ends like a key of another lock (%s): %w", name, strings.Join(suffixes, " "),
			ErrInvalid)
	case n.cluster && strings.ContainsAny(name, "{}") && hashTag(name) == "":
		return fmt.Errorf("name %q holds braces that are no hash tag: %w", name, ErrInvalid)
	}
	return nil
}

// hashTag returns the part of a key that Redis Cluster hashes: the text between the first { and the first }
// after it. "" means that Redis hashes the whole key.
func hashTag(key string) string {
	_, rest, _ := strings.Cut(key, "{")
	tag, _, closed := strings.Cut(rest, "}")
	if !closed {
		return ""
	}
	return tag
}

func (n *names) key(name string) string {
	if n.cluster && hashTag(name) == "" {
		return n.prefix + "{" + name + "}"
	}
	return n.prefix + name
}

func (n *names) keys(name string) []string {
	key := n.key(name)
	return []string{key, key + ":Queue", key + ":Fence"}
}

// wakeChannel returns the channel on which this process learns that one of its tokens has the lock.
func (n *names) wakeChannel(name string) string {
	return n.key(name) + ":Wake:" + hex.EncodeToString(n.process[:])
}

// inOrder sorts names by their keys, and keeps one name for each key: on Redis Cluster two names may mean the
// same key.
func (n *names) inOrder(list []string) []string {
	list = slices.Clone(list)
	slices.SortStableFunc(list, func(a, b string) int { return cmp.Compare(n.key(a), n.key(b)) })
	return slices.CompactFunc(list, func(a, b string) bool { return n.key(a) == n.key(b) })
}

// oneSlot reports whether one script may use all locks of a list, which is not empty.
func (n *names) oneSlot(list []string) bool {
	first := n.slotTag(list[0])
	return !slices.ContainsFunc(list, func(name string) bool { return n.slotTag(name) != first })
}

// slotTag returns a text that locks share if one script may use them all.
func (n *names) slotTag(name string) string {
	if !n.cluster {
		return ""
	}
	return hashTag(n.key(name))
}

// scriptKeys are the keys of a script, and the part of its command that depends on them only.
type scriptKeys struct {
	keys  []string
	sent  []any   // the number of keys, the keys, and names.first
	token *tokens // the argument behind them; nil for none
}

func (n *names) of(name string) scriptKeys {
	n.mu.Lock()
	defer n.mu.Unlock()
	on, known := n.recent[name]
	if !known {
		if len(n.recent) >= maxRecent {
			clear(n.recent)
		}
		on = n.scriptKeys(n.keys(name))
		n.recent[name] = on
	}
	return on
}

func (n *names) scriptKeys(keys []string) scriptKeys {
	sent := make([]any, 0, 1+len(keys)+len(n.first))
	sent = append(sent, len(keys))
	for _, key := range keys {
		sent = append(sent, key)
	}
	return scriptKeys{keys: keys, sent: append(sent, n.first...)}
}

// together returns the keys of all attempts, in order.
func (n *names) together(attempts []attempt) scriptKeys {
	var keys []string
	for _, a := range attempts {
		keys = append(keys, a.on.keys...)
	}
	return n.scriptKeys(keys)
}

// only returns k with no more than its first count keys.
func (k scriptKeys) only(count int) scriptKeys {
	if len(k.keys) <= count {
		return k
	}
	sent := append([]any{count}, k.sent[1:1+count]...)
	return scriptKeys{keys: k.keys[:count], sent: append(sent, k.sent[1+len(k.keys):]...)}
}

func (k scriptKeys) with(token *tokens) scriptKeys {
	k.token = token
	return k
}

// command returns the command that runs a script by its hash.
func (k scriptKeys) command(script *redis.Script, args ...any) []any {
	all := make([]any, 0, 3+len(k.sent)+len(args))
	all = append(append(all, "evalsha", script.Hash()), k.sent...)
	if k.token != nil {
		all = append(all, k.token)
	}
	return append(all, args...)
}

// uuidLen is the length of the UUID at the end of a token.
const uuidLen = 36

// tokens are a slot's tokens for one hold. As an argument, tokens gives each sending of a request its own token. The
// client sends a request again when the answer is missing, and the earlier copy may arrive at any time, even after the
// lock was released. Nobody uses the token of such a copy any more, so no write is accepted in a hold that the copy
// acquires. Once inherit.lua or abandon.lua has buried that token, the copy acquires nothing.
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

// sending is an argument whose text depends on the sending of its request.
type sending interface {
	text() string // for the next sending
}

// The client marshals an argument for each sending.
func (t *tokens) MarshalBinary() ([]byte, error) { return []byte(t.text()), nil }
func (d doubts) MarshalBinary() ([]byte, error)  { return []byte(d.text()), nil }
func (s *sends) MarshalBinary() ([]byte, error)  { return []byte(s.text()), nil }

// text returns the token for the next sending of the request.
func (t *tokens) text() string {
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
	return t.current
}

// String returns the current token.
func (t *tokens) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.current
}

// sentBy records the request that will carry the token.
func (t *tokens) sentBy(request redis.Cmder) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.request = request
}

// answered records that Redis has answered the latest request. doubt reports whether earlier requests were not
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

// promise records that a release names the current token as the next holder: underway says whether Redis has yet
// to answer that release.
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

// text returns the UUIDs of the earlier tokens. Each sending asks tokens before doubts.
func (d doubts) text() string {
	d.of.mu.Lock()
	defer d.of.mu.Unlock()
	return joinIDs(d.of.doubted)
}

// sends is an argument of a request. It counts how often the client has sent the request: if more than once,
// Redis may have executed an earlier copy.
type sends struct {
	arg  string
	sent atomic.Int32
}

// text returns the argument, and counts a sending.
func (s *sends) text() string {
	s.sent.Add(1)
	return s.arg
}

// again reports whether the request was sent more than once.
func (s *sends) again() bool { return s.sent.Load() > 1 }
