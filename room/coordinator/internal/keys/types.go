package keys

import "strings"

// OfRoom returns the names of all keys of a room and its lock.
func (s Space) OfRoom(id string) []string {
	lock := s.LockPrefix() + s.tagged(id)
	return []string{s.Room(id, Users), s.Room(id, Meta), s.Room(id, Log), s.Room(id, Said), lock, lock + ":Queue",
		lock + ":Fence"}
}

// shared returns the keys that name neither a room nor a node, with their types.
func (s Space) shared() map[string]string {
	return map[string]string{
		s.Timers():       "zset",
		s.Lobby("Rooms"): "hash", s.Lobby("Changed"): "zset", s.Lobby("Gone"): "zset", s.Lobby("State"): "hash",
		s.Feed("Entries"): "stream", s.Feed("Rooms"): "hash", s.Feed("Searched"): "string", s.Feed("Readers"): "hash",
	}
}

// Shared returns the keys that all rooms share, except keys of nodes and of seats by labels.
func (s Space) Shared() (names []string) {
	for name := range s.shared() {
		names = append(names, name)
	}
	return names
}

// TypeOf returns the type of a key as Redis names it, judged by the key's name; "" for an unknown name.
func (s Space) TypeOf(key string) string {
	if kind, ok := s.shared()[key]; ok {
		return kind
	}
	for _, of := range []struct{ begins, ends, kind string }{
		{s.LockPrefix(), ":Queue", "zset"},
		{s.LockPrefix(), "", "string"},
		{s.Prefix + "Room:", ":" + Users, "hash"},
		{s.Prefix + "Room:", ":" + Meta, "hash"},
		{s.Prefix + "Room:", ":" + Log, "stream"},
		{s.Prefix + "Room:", ":" + Said, "stream"},
		{s.Prefix + "Nodes", "", "zset"},
		{s.Prefix + "Node:", ":Rooms", "set"},
		{s.Prefix + "Node:", "", "string"},
		{s.Lobby("Free:"), "", "zset"},
		{s.Lobby("Match:"), "", "string"},
	} {
		if strings.HasPrefix(key, of.begins) && strings.HasSuffix(key, of.ends) {
			return of.kind
		}
	}
	return ""
}
