package coordinator

import (
	"errors"
	"log/slog"

	"roomd/room/episode"
)

// episodes are the troubles that an outage of Redis, or a client, can cause any number of
// times. Each is logged when it begins and when it is over.
type episodes struct {
	events       *episode.Log // the connection that events come on is lost
	snapshots    *episode.Log // one that a feed needs cannot be read
	garbage      *episode.Log // an event cannot be read
	replies      *episode.Log // a commit gets no reply
	stale        *episode.Log // a commit is refused because its hold is over
	epochs       *episode.Log // a room that lost commits cannot begin a new epoch at once
	lease        *episode.Log // the node's lease cannot be prolonged
	renamed      *episode.Log // Redis has lost the node's lease, or what was committed under it
	eviction     *episode.Log // members of dead nodes cannot be removed
	over         *episode.Log // an event is of an epoch that is over
	partial      *episode.Log // Redis has lost some of a room
	unheard      *episode.Log // Redis takes a commit, but not its event
	unlogged     *episode.Log // Redis takes a commit, but not its entry in the journal
	unanswered   *episode.Log // members for whom no session answers cannot be removed
	registration *episode.Log // a room cannot be compared with the records of this node
	lobby        *episode.Log // the list of all rooms cannot be made
}

func newEpisodes(opts Options) *episodes {
	quiet := max(episode.Quiet, 3*opts.NodeTTL) // longer than one turn of the lease's loop, which may be a timeout and a pause
	warn := func(message string) *episode.Log {
		return episode.New(opts.Log, slog.LevelWarn, message, quiet)
	}
	return &episodes{
		events:       warn("events: connection to Redis lost, making a new one"),
		snapshots:    warn("events: snapshot not read, trying again"),
		garbage:      episode.New(opts.Log, slog.LevelError, "events: cannot be read, taking a snapshot instead", quiet),
		replies:      warn("no reply to a commit; sending it again to learn its outcome"),
		stale:        warn("a stale commit was refused; its actions run again under a new hold"),
		epochs:       warn("commits were lost; the room's new epoch begins with the next action"),
		lease:        warn("the node's lease could not be prolonged"),
		renamed:      warn("the node's lease, or commits under it, were lost; its sessions join again under a new name"),
		eviction:     warn("members of dead nodes could not be removed, trying again"),
		over:         warn("events of an epoch that is over were ignored"),
		partial:      warn("Redis has lost some of a room; a new epoch begins with what is there"),
		unheard:      episode.New(opts.Log, slog.LevelError, "Redis takes commits, but not their events: other nodes hear nothing of what happens here", quiet),
		unlogged:     episode.New(opts.Log, slog.LevelError, "Redis takes commits, but not their entries in the journal", quiet),
		unanswered:   warn("members without a session could not be removed, trying again"),
		registration: episode.New(opts.Log, slog.LevelWarn, "a room could not be compared with the records of this node there, trying again", quiet+compareRound),
		lobby:        warn("the list of rooms could not be made"),
	}
}

// close ends the episodes that run. Nothing may happen after it.
func (t *episodes) close() {
	for _, l := range []*episode.Log{t.events, t.snapshots, t.garbage, t.replies, t.stale, t.epochs, t.lease, t.renamed, t.eviction, t.over, t.partial, t.unheard, t.unlogged, t.unanswered, t.registration, t.lobby} {
		l.Close()
	}
}

// incomplete records what Redis has not taken of a commit that is done all the same.
func (t *episodes) incomplete(c *commit) {
	if c.unheard != "" {
		t.unheard.Happened(errors.New(c.unheard), "room", c.id)
	}
	if c.unlogged != "" {
		t.unlogged.Happened(errors.New(c.unlogged), "room", c.id)
	}
}
