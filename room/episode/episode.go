// Package episode keeps trouble that happens often from filling the log: however often
// it happens, a [Log] writes one line when it begins and one when it is over. So
// neither an outage nor a client decides how much is logged.
package episode

import (
	"sync"
	"time"

	"github.com/rs/zerolog"
)

// Quiet is how long one kind of trouble usually has to stay away to be over.
const Quiet = 10 * time.Second

// Log logs one kind of trouble. An episode of it begins when the trouble happens, and
// is over when it has not happened again for a while. A Log is safe for concurrent use
// and runs no goroutine.
type Log struct {
	log     zerolog.Logger
	level   zerolog.Level
	message string
	quiet   time.Duration

	mu     sync.Mutex
	times  int         // guarded by mu: how often it has happened; 0 between episodes
	began  time.Time   // guarded by mu
	latest time.Time   // guarded by mu
	err    error       // guarded by mu: why it happened last
	check  *time.Timer // guarded by mu: looks whether the episode is over
}

// New returns a Log of the trouble that message names. Its lines have that level, and
// an episode is over when the trouble has stayed away for quiet.
func New(log zerolog.Logger, level zerolog.Level, message string, quiet time.Duration) *Log {
	return &Log{log: log, level: level, message: message, quiet: quiet}
}

// Happened records that the trouble has happened, because of err, which may be nil.
// The line that begins an episode shows err and pairs, which are names and values by
// turns. What happens during an episode is only logged at level debug.
func (l *Log) Happened(err error, pairs ...string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	level, now := zerolog.DebugLevel, time.Now()
	if l.times == 0 {
		level, l.began = l.level, now
		l.check = time.AfterFunc(l.quiet, l.look)
	}
	l.times, l.latest, l.err = l.times+1, now, err
	line := l.log.WithLevel(level)
	for i := 0; line.Enabled() && i+1 < len(pairs); i += 2 {
		line.Str(pairs[i], pairs[i+1])
	}
	line.AnErr("error", err).Msg(l.message)
}

// look ends the episode, or looks again when it may be over.
func (l *Log) look() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.times == 0 {
		return
	}
	if away := time.Since(l.latest); away < l.quiet {
		l.check.Reset(l.quiet - away)
		return
	}
	l.endLocked()
}

// Close ends the episode that runs, if any. Whoever has a Log closes it when nothing
// can happen any more.
func (l *Log) Close() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.times > 0 {
		l.check.Stop()
		l.endLocked()
	}
}

func (l *Log) endLocked() {
	l.log.WithLevel(l.level).Int("times", l.times).Dur("lasted", l.latest.Sub(l.began)).AnErr("latest", l.err).Msg("over: " + l.message)
	l.times, l.err = 0, nil
}
