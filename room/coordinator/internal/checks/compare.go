package checks

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"

	"roomd/room"
	"roomd/room/coordinator/internal/store"
)

const readTimeout = 3 * time.Second

// check checks a room, and returns its number of members; 0 if it could not be checked.
func (v *Checks) check(ctx context.Context, id string) (members int) {
	ctx, cancel := context.WithTimeout(ctx, readTimeout)
	defer cancel()
	s := v.shadowOf(id)
	if s == nil {
		v.forget(id)
		return 0
	}
	if s.Active(ctx) != nil { // events do not arrive now
		return 0
	}
	s.Use()
	is, recorded, err := v.store.Examine(ctx, id)
	found, gap := verdicts{}, s.Gap()
	var commitID string
	var stays bool
	switch {
	case errors.Is(err, room.ErrForeign):
		found[CheckCopies] = err.Error()
	case err != nil || s.Behind(): // Redis is away, or the node knows that it has missed something
	default:
		settings, _ := is.Settings()
		members, commitID = is.Count(), is.CommitID // compare may hand the room to the shadow
		stays = members > 0 || settings.Keep
		found[CheckSeats], found[CheckCapacity] = clash(is), overfull(is)
		v.compare(ctx, s, is, recorded, found)
		v.resize(s, emptySize+members)
	}
	s.Release()
	if what, compared := found[CheckCopies]; compared && what == "" {
		found[CheckCopies] = wrongExpiry(ctx, v.store, id, commitID, stays)
	}
	if gap != "" {
		found[CheckVersions] = gap
	}
	v.record(id, found, gap != "", time.Now())
	return members
}

// compare compares the room in Redis (is) with this node's copy, and adds verdicts to found. recorded is the number of
// members by the room's last commit.
func (v *Checks) compare(ctx context.Context, s *shadow, is *room.Room, recorded int, found verdicts) {
	at, differences, known := s.Meet(ctx, is)
	if !known {
		at = v.last[is.ID]
	}
	if is.Count() != recorded {
		found[CheckCopies] = cmp.Or(differences, fmt.Sprintf(
			"Redis has %d members, and not as many as the last commit has left", is.Count()))
	} else if !known || at.Is(is.Position) {
		found[CheckCopies] = differences
	}
	found[CheckVersions] = ""
	switch {
	case at.Lost(is.Position):
		found[CheckVersions] = fmt.Sprintf("version %d of epoch %s was followed by version %d with other content",
			at.Version, at.Epoch, is.Version)
	case !known:
		s.Adopt(is)
	case at.Epoch != "" && is.Position == (room.Position{}) && (s.Room == nil || s.Room.Count() == 0):
		s.Room = nil // Redis does not keep empty rooms for ever
	case !at.Is(is.Position):
		found[CheckVersions] = fmt.Sprintf("Redis is at version %d of epoch %q, and the last event was of version %d of epoch %q", is.Version, is.Epoch, at.Version, at.Epoch)
	}
	if found[CheckVersions] == "" {
		v.last[is.ID] = is.Position
	}
}

// wrongExpiry describes wrong TTLs of a room's keys, "" for none. If the room stays, because of members or settings, no
// key may expire; otherwise all must. It returns "" if the commit id has changed, or Redis does not answer.
func wrongExpiry(ctx context.Context, s *store.Store, id, commitID string, stays bool) string {
	k := s.KeysOf(id)
	var ids [2]*redis.StringCmd
	var ttls [2]*redis.DurationCmd
	_, err := s.Client.Pipelined(ctx, func(p redis.Pipeliner) error {
		ids[0] = p.HGet(ctx, k.Meta, "mark")
		for i, key := range k.Both {
			ttls[i] = p.PTTL(ctx, key)
		}
		ids[1] = p.HGet(ctx, k.Meta, "mark") // shows that nothing was committed in between
		return nil
	})
	if err != nil || ids[0].Val() != commitID || ids[1].Val() != commitID {
		return ""
	}
	for i, key := range k.Both {
		switch ttl := ttls[i].Val(); {
		case stays && ttl >= 0:
			return fmt.Sprintf("%s expires in %v, and the room is to stay", key, ttl)
		case !stays && ttl == -1:
			return fmt.Sprintf("%s does not expire, and the room is empty and not to be kept", key)
		}
	}
	return ""
}

// record stores a check's results. A fault counts once further checks confirm it. sure says that a wrong version counts
// at once.
func (v *Checks) record(id string, all verdicts, sure bool, now time.Time) {
	v.mu.Lock()
	defer v.mu.Unlock()
	d := v.doubts[id]
	if d == nil {
		d = &doubt{of: make(map[Check]*finding)}
	}
	d.next = now.Add(checkAgain)
	for check, what := range all {
		result := v.checked[check]
		result.checks++
		result.at = now
		if what == "" {
			delete(d.of, check)
			delete(result.differs, id)
			continue
		}
		f := d.of[check]
		// A new fault. A wrong version is new whenever its text changes.
		if f == nil || check == CheckVersions && f.what != what {
			f = &finding{since: now}
			d.of[check] = f
		}
		f.what, f.times = what, f.times+1
		if sure && check == CheckVersions || f.times >= confirmTimes && now.Sub(f.since) >= confirmAfter {
			result.differs[id] = shortened(what)
		}
	}
	if len(d.of) > 0 {
		v.doubts[id] = d
	} else {
		delete(v.doubts, id)
	}
}

func shortened(text string) string { return fmt.Sprintf("%.*s", maxWhat, text) }

func clash(r *room.Room) string {
	users := make(map[int]string, r.Count())
	for user, m := range r.Members() {
		if other, taken := users[m.Seat]; taken {
			return fmt.Sprintf("%q and %q are on seat %d", min(user, other), max(user, other), m.Seat)
		}
		users[m.Seat] = user
	}
	return ""
}

// overfull describes how a room exceeds the seats of its settings; "" if it does not, or has no settings.
func overfull(r *room.Room) string {
	settings, settled := r.Settings()
	seats := settings.Seats()
	if !settled {
		return ""
	}
	if r.Count() > seats {
		return fmt.Sprintf("%d members are on %d seats", r.Count(), seats)
	}
	for user, m := range r.Members() {
		if m.Seat >= seats {
			return fmt.Sprintf("%q is on seat %d, and the last one is %d", user, m.Seat, seats-1)
		}
	}
	return ""
}
