// Package ratelog keeps frequent trouble from filling the log: a [Log] writes one line when the trouble begins and
// one when it is over. So neither an outage nor a client decides how much is logged.
package ratelog

import (
	"context"
	"log/slog"
	"sync"
	"time"
)

// Quiet is the usual time without trouble after which an episode is over.
const Quiet = 10 * time.Second

// debugPause is the least time between two debug lines of an episode.
const debugPause = time.Second

// Log logs one kind of trouble. An episode begins when the trouble happens, and is over when it has not happened for
// a while. A Log is safe for concurrent use. Its goroutine runs only briefly, when an episode may be over.
type Log struct {
	log     *slog.Logger
	level   slog.Level
	message string
	quiet   time.Duration

	mu     sync.Mutex
	times  int         // guarded by mu: in this episode; 0 between episodes
	began  time.Time   // guarded by mu
	latest time.Time   // guarded by mu
	err    error       // guarded by mu: the latest
	wrote  time.Time   // guarded by mu: when the latest line was written
	silent int         // guarded by mu: how often it has happened since then
	check  *time.Timer // guarded by mu: ends the episode
}

// New returns a Log that writes message at that level. An episode ends after the time quiet without trouble.
func New(log *slog.Logger, level slog.Level, message string, quiet time.Duration) *Log {
	return &Log{log: log, level: level, message: message, quiet: quiet}
}

// Happened records that the trouble happened, because of err, which may be nil. pairs are names and values by turns.
// The line that begins an episode has err and pairs. Later lines, at level debug and at most one a second, have them,
// too, and the number of lines that were left out before.
func (l *Log) Happened(err error, pairs ...string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	level, now := slog.LevelDebug, time.Now()
	if l.times == 0 {
		level, l.began = l.level, now
		l.check = time.AfterFunc(l.quiet, l.look)
	}
	l.times, l.latest, l.err = l.times+1, now, err
	if l.times > 1 && now.Sub(l.wrote) < debugPause || !l.log.Enabled(context.Background(), level) {
		l.silent++
		return
	}
	attrs := make([]slog.Attr, 0, 2+len(pairs)/2)
	for i := 0; i+1 < len(pairs); i += 2 {
		attrs = append(attrs, slog.String(pairs[i], pairs[i+1]))
	}
	if err != nil {
		attrs = append(attrs, slog.Any("error", err))
	}
	if l.silent > 0 {
		attrs = append(attrs, slog.Int("left_out", l.silent))
	}
	l.wrote, l.silent = now, 0
	l.log.LogAttrs(context.Background(), level, l.message, attrs...)
}

// look ends the episode if it is over; otherwise it checks again later.
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

// Close ends the present episode, if any. Call it when no more trouble can happen.
func (l *Log) Close() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.times > 0 {
		l.check.Stop()
		l.endLocked()
	}
}

func (l *Log) endLocked() {
	attrs := []slog.Attr{slog.Int("times", l.times), slog.Duration("lasted", l.latest.Sub(l.began))}
	if l.err != nil {
		attrs = append(attrs, slog.Any("latest", l.err))
	}
	l.log.LogAttrs(context.Background(), l.level, "over: "+l.message, attrs...)
	l.times, l.silent, l.err = 0, 0, nil
}

// Set is a set of logs that are closed together.
type Set struct {
	log   *slog.Logger
	quiet time.Duration
	logs  []*Log
}

// NewSet returns an empty Set. quiet is the time without trouble after which an episode of its logs is over.
func NewSet(log *slog.Logger, quiet time.Duration) *Set { return &Set{log: log, quiet: quiet} }

// Info adds a Log of level info.
func (s *Set) Info(message string) *Log { return s.add(slog.LevelInfo, message, s.quiet) }

// Warn adds a Log of level warn.
func (s *Set) Warn(message string) *Log { return s.add(slog.LevelWarn, message, s.quiet) }

// Error adds a Log of level error.
func (s *Set) Error(message string) *Log { return s.add(slog.LevelError, message, s.quiet) }

// WarnOver is Warn for trouble that is noticed only once per round.
func (s *Set) WarnOver(round time.Duration, message string) *Log {
	return s.add(slog.LevelWarn, message, s.quiet+round)
}

func (s *Set) add(level slog.Level, message string, quiet time.Duration) *Log {
	l := New(s.log, level, message, quiet)
	s.logs = append(s.logs, l)
	return l
}

// Close closes the logs.
func (s *Set) Close() {
	for _, l := range s.logs {
		l.Close()
	}
}
