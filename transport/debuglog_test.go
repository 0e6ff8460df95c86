package transport

import (
	"bytes"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"roomd/lockmgr/redistest"
	"roomd/room"
	"roomd/transport/internal/session"
)

func withLog(log *bytes.Buffer, level slog.Level) Options {
	return Options{Log: slog.New(slog.NewTextHandler(log, &slog.HandlerOptions{Level: level}))}
}

// The log says at level debug who did what, with its result and duration, and at level info nothing of it.
func TestDebugLog_Requests(t *testing.T) {
	for level, want := range map[slog.Level][]string{
		slog.LevelInfo: nil,
		slog.LevelDebug: {
			`msg=request room=42 user=a action=join result=ok took=`,
			`msg=request room=43 user=a action=leave result=not_member took=`,
			`msg=request room=(invalid) user=a action=join result=bad_request took=`,
		},
	} {
		synctest.Test(t, func(t *testing.T) {
			var log bytes.Buffer
			s := start(t, room.Rules{}, withLog(&log, level))
			c := s.connect(t, "a")
			c.send(join42)
			c.send(`{"id":2,"action":"leave","room":"43"}`)
			c.send(fmt.Sprintf(`{"id":3,"action":"join","room":%q}`, strings.Repeat("x", 1000)))
			synctest.Wait()
			n := strings.Count(log.String(), "msg=request")
			redistest.ErrorIf(t, n != len(want), "%v: %d requests are logged:\n%s", level, n, &log)
			for _, line := range want {
				redistest.ErrorIf(t, !strings.Contains(log.String(), line),
					"%v: no line has %q:\n%s", level, line, &log)
			}
		})
	}
}

// Clients do not decide how much is logged, at level debug neither.
func TestDebugLog_Bounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		d := session.NewDebugLog(withLog(&log, slog.LevelDebug).Log, stopwatch())
		for range 10 * session.MaxDebugLines {
			d.Write("connected")
		}
		redistest.Equal(t, "lines in an instant:", strings.Count(log.String(), "\n"), session.MaxDebugLines)
		time.Sleep(time.Second)
		log.Reset()
		d.Write("connected")
		d.Write("connected")
		if text := log.String(); strings.Count(text, "left_out=") != 1 || !strings.Contains(text, fmt.Sprint("left_out=", 9*session.MaxDebugLines)) {
			t.Errorf("it does not say once what it left out:\n%s", text)
		}
	})
}

// stopwatch returns the time since its call, as a Server's clock does.
func stopwatch() func() time.Duration {
	began := time.Now()
	return func() time.Duration { return time.Since(began) }
}
