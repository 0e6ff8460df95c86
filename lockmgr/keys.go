package lockmgr

import (
	"encoding/hex"
	"fmt"
	"slices"
	"strings"

	"github.com/google/uuid"
)

// suffixes make the keys that stand beside a lock's own.
var suffixes = []string{":Queue", ":Fence"}

// newToken returns a value that no other hold has or will have: the name and a
// random UUID, except that the UUID's first 8 digits are the Manager's, so that its
// process alone is woken when it is this token's turn.
func (m *Manager) newToken(name string) string {
	id := uuid.New()
	copy(id[:], m.node[:])
	return name + ":" + id.String()
}

// checkName keeps out what cannot be a key, before anything is sent.
func (m *Manager) checkName(name string) error {
	switch {
	case name == "":
		return fmt.Errorf("lockmgr: name is empty: %w", ErrInvalid)
	case len(name) > MaxName:
		return fmt.Errorf("lockmgr: name is %d bytes long, at most %d are allowed: %w", len(name), MaxName, ErrInvalid)
	case slices.ContainsFunc(suffixes, func(s string) bool { return strings.HasSuffix(name, s) }):
		return fmt.Errorf("lockmgr: name %q ends like a key of another lock (%s): %w", name, strings.Join(suffixes, " "), ErrInvalid)
	case m.cluster != nil && strings.ContainsAny(name, "{}") && hashTag(name) == "":
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
	if m.cluster != nil && hashTag(name) == "" {
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

// wakeChannel is where this process is told that it is the turn of a token of its.
func (m *Manager) wakeChannel(name string) string {
	return m.Key(name) + ":Wake:" + hex.EncodeToString(m.node[:])
}
