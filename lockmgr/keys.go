package lockmgr

import (
	"fmt"
	"slices"
	"strings"

	"github.com/google/uuid"
	"github.com/redis/go-redis/v9"
)

// suffixes make the keys and the channel that stand beside a lock's own key.
var suffixes = []string{":Queue", ":Fence", ":Wake"}

// newToken returns a value that no other hold has or will have.
func newToken(name string) string { return name + ":" + uuid.NewString() }

// checkName keeps out what cannot be a key, before anything is sent.
func (m *Manager) checkName(name string) error {
	switch {
	case name == "":
		return fmt.Errorf("lockmgr: name is empty: %w", ErrInvalid)
	case len(name) > MaxName:
		return fmt.Errorf("lockmgr: name is %d bytes long, at most %d are allowed: %w", len(name), MaxName, ErrInvalid)
	case slices.ContainsFunc(suffixes, func(s string) bool { return strings.HasSuffix(name, s) }):
		return fmt.Errorf("lockmgr: name %q ends like a key of another lock (%s): %w", name, strings.Join(suffixes, " "), ErrInvalid)
	case m.cluster && strings.ContainsAny(name, "{}") && hashTag(name) == "":
		return fmt.Errorf("lockmgr: name %q holds braces that are no hash tag: %w", name, ErrInvalid)
	}
	return nil
}

// hashTag returns what alone Redis Cluster hashes of a key, as its specification
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

// Key returns the key that holds the token of that lock's holder: Prefix + name.
// On Redis Cluster the name is put into braces, unless it has a hash tag of its
// own, so that all keys of a lock share a slot.
func (m *Manager) Key(name string) string {
	if m.cluster && hashTag(name) == "" {
		return m.opts.Prefix + "{" + name + "}"
	}
	return m.opts.Prefix + name
}

// Keys returns the keys of that lock for a script that is built on [Lua]. There
// they come first.
func (m *Manager) Keys(name string) []string {
	key := m.Key(name)
	return []string{key, key + ":Queue", key + ":Fence"}
}

// args puts the arguments of lock_at, which every script that is built on Lua
// begins with, before the others.
func (m *Manager) args(more ...any) []any {
	publish := "PUBLISH"
	if m.cluster {
		publish = "SPUBLISH"
	}
	all := make([]any, 0, 2+len(more))
	return append(append(all, publish, m.opts.Claim.Milliseconds()), more...)
}

// wakeChannel is where the token is told whose turn it is.
func (m *Manager) wakeChannel(name string) string { return m.Key(name) + ":Wake" }

func isCluster(client redis.UniversalClient) bool {
	_, ok := client.(*redis.ClusterClient)
	return ok
}
