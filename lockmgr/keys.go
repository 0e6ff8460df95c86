package lockmgr

import (
	"cmp"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/google/uuid"
	"github.com/redis/go-redis/v9"
)

// suffixes make the keys that stand beside a lock's own.
var suffixes = []string{":Queue", ":Fence"}

// lockKeys is how many keys a lock has.
const lockKeys = 3

// maxRecent is of how many locks the keys are kept: to make them takes as long as the rest of a request.
const maxRecent = 1024

// names makes keys, channels and tokens of the names of locks.
type names struct {
	prefix  string
	cluster bool
	process [4]byte // begins the UUID of every token
	first   []any   // what ARGV begins with in every script that uses the lock's rules: publish, claim

	mu     sync.Mutex
	recent map[string]scriptKeys // guarded by mu: by name, of locks that were used of late
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

// newToken returns a value that no other hold has or will have: the name and a
// random UUID, except that the UUID's first 8 digits are the Manager's, so that its
// process alone is woken when the token has the lock. Its version is 8, and not the 4 of the tokens
// that other programs draw.
func (n *names) newToken(name string) string {
	id := uuid.New()
	copy(id[:], n.process[:])
	id[6] = id[6]&0x0f | 0x80
	return name + ":" + id.String()
}

// isToken reports whether newToken, of any process, has made a token of the lock of that name.
func isToken(token, name string) bool {
	id, ok := strings.CutPrefix(token, name+":")
	return ok && len(id) == uuidLen && id[14] == '8'
}

// check refuses a name that cannot be part of a key, before anything is sent.
func (n *names) check(name string) error {
	switch {
	case name == "":
		return fmt.Errorf("name is empty: %w", ErrInvalid)
	case len(name) > maxName:
		return fmt.Errorf("name is %d bytes long, at most %d are allowed: %w", len(name), maxName, ErrInvalid)
	case slices.ContainsFunc(suffixes, func(s string) bool { return strings.HasSuffix(name, s) }):
		return fmt.Errorf("name %q ends like a key of another lock (%s): %w", name, strings.Join(suffixes, " "), ErrInvalid)
	case n.cluster && strings.ContainsAny(name, "{}") && hashTag(name) == "":
		return fmt.Errorf("name %q holds braces that are no hash tag: %w", name, ErrInvalid)
	}
	return nil
}

// hashTag returns the part of a key that Redis Cluster hashes, as its specification
// has it: what stands between the first { and the first } behind it. Empty means
// that there is no such part, and that the whole key counts.
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

// wakeChannel is where this process is told that a token of its own has the lock.
func (n *names) wakeChannel(name string) string {
	return n.key(name) + ":Wake:" + hex.EncodeToString(n.process[:])
}

// inOrder sorts names by their keys, and drops a name whose key came before: on Redis
// Cluster two names may mean one key.
func (n *names) inOrder(list []string) []string {
	list = slices.Clone(list)
	slices.SortStableFunc(list, func(a, b string) int { return cmp.Compare(n.key(a), n.key(b)) })
	return slices.CompactFunc(list, func(a, b string) bool { return n.key(a) == n.key(b) })
}

// oneSlot reports whether one script may touch all those locks.
func (n *names) oneSlot(list []string) bool {
	first := n.slotTag(list[0])
	return !slices.ContainsFunc(list, func(name string) bool { return n.slotTag(name) != first })
}

// slotTag returns what is equal for locks that one script may touch.
func (n *names) slotTag(name string) string {
	if !n.cluster {
		return ""
	}
	return hashTag(n.key(name))
}

// scriptKeys are the keys of a script, and the part of its command that they determine.
type scriptKeys struct {
	keys []string
	sent []any // how many keys, the keys, and what ARGV begins with
}

// of returns the keys of a lock.
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
	return scriptKeys{keys, append(sent, n.first...)}
}

// together returns the keys of all attempts, in their order.
func (n *names) together(attempts []attempt) scriptKeys {
	var keys []string
	for _, a := range attempts {
		keys = append(keys, a.on.keys...)
	}
	return n.scriptKeys(keys)
}

// only returns the same for the first count keys.
func (k scriptKeys) only(count int) scriptKeys {
	if len(k.keys) <= count {
		return k
	}
	sent := append([]any{count}, k.sent[1:1+count]...)
	return scriptKeys{k.keys[:count], append(sent, k.sent[1+len(k.keys):]...)}
}

// command returns the command that runs a script by its hash.
func (k scriptKeys) command(script *redis.Script, args ...any) []any {
	all := make([]any, 0, 2+len(k.sent)+len(args))
	return append(append(append(all, "evalsha", script.Hash()), k.sent...), args...)
}

// asking is command for a script that names one more argument before args: tokens.
func (k scriptKeys) asking(script *redis.Script, tokens *tokens, args []any) []any {
	all := make([]any, 0, 3+len(k.sent)+len(args))
	return append(append(append(append(all, "evalsha", script.Hash()), k.sent...), tokens), args...)
}
