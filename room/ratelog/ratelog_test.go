package ratelog

import (
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// buffer is a log that can be read while it is written.
type buffer struct {
	mu   sync.Mutex
	text string // guarded by mu
}

func (b *buffer) Write(line []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.text += string(line)
	return len(line), nil
}

// logger returns a logger to the buffer, without times.
func (b *buffer) logger(level slog.Level) *slog.Logger {
	return slog.New(slog.NewJSONHandler(b, &slog.HandlerOptions{Level: level, ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
		if a.Key == slog.TimeKey {
			return slog.Attr{}
		}
		return a
	}}))
}

// expect compares what was logged since the last time.
func (b *buffer) expect(t *testing.T, want ...string) {
	t.Helper()
	synctest.Wait()
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.text != strings.Join(append(want, ""), "\n") {
		t.Errorf("logged\n%swant\n%s", b.text, strings.Join(want, "\n"))
	}
	b.text = ""
}

var errAway = errors.New("away")

func TestLog_TwoLines(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log buffer
		l := New(log.logger(slog.LevelInfo), slog.LevelWarn, "refused", 10*time.Second)
		l.Happened(errAway, "room", "42", "user", "张三")
		log.expect(t, `{"level":"WARN","msg":"refused","room":"42","user":"张三","error":"away"}`)
		for i := range 200_000 {
			if i%1000 == 0 {
				time.Sleep(9 * time.Second) // never quiet for long enough
			}
			l.Happened(fmt.Errorf("away %d", i), "room", "43")
		}
		time.Sleep(10*time.Second - time.Nanosecond)
		log.expect(t)
		time.Sleep(time.Nanosecond)
		log.expect(t, `{"level":"WARN","msg":"over: refused","times":200001,"lasted":1800000000000,"latest":"away 199999"}`)
		time.Sleep(time.Hour)
		log.expect(t)

		l.Happened(nil) // another one
		log.expect(t, `{"level":"WARN","msg":"refused"}`)
		time.Sleep(time.Second)
		l.Close()
		log.expect(t, `{"level":"WARN","msg":"over: refused","times":1,"lasted":0}`)
		l.Close()
		time.Sleep(time.Hour)
		log.expect(t)
	})
}

// At level debug an episode has a line a second, however often the trouble happens.
func TestLog_Debug(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log buffer
		l := New(log.logger(slog.LevelDebug), slog.LevelError, "refused", 10*time.Second)
		l.Happened(errAway, "room", "42")
		log.expect(t, `{"level":"ERROR","msg":"refused","room":"42","error":"away"}`)
		for range 1000 {
			l.Happened(errAway, "room", "43")
		}
		log.expect(t)
		time.Sleep(time.Second)
		l.Happened(errAway, "room", "44")
		log.expect(t, `{"level":"DEBUG","msg":"refused","room":"44","error":"away","left_out":1000}`)
		time.Sleep(time.Second)
		l.Happened(errAway, "room", "45")
		log.expect(t, `{"level":"DEBUG","msg":"refused","room":"45","error":"away"}`)
		l.Happened(errAway, "room", "46")
		l.Close()
		log.expect(t, `{"level":"ERROR","msg":"over: refused","times":1004,"lasted":2000000000,"latest":"away"}`)
		l.Happened(nil)
		log.expect(t, `{"level":"ERROR","msg":"refused"}`)
		l.Close()
	})
}

// The timer of an episode that was closed early does not end the next one.
func TestLog_CloseAndBegin(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log buffer
		l := New(log.logger(slog.LevelInfo), slog.LevelWarn, "refused", 10*time.Second)
		l.Happened(errAway)
		time.Sleep(9 * time.Second)
		l.Close()
		l.Happened(errAway)
		log.expect(t,
			`{"level":"WARN","msg":"refused","error":"away"}`,
			`{"level":"WARN","msg":"over: refused","times":1,"lasted":0,"latest":"away"}`,
			`{"level":"WARN","msg":"refused","error":"away"}`)
		time.Sleep(9 * time.Second)
		log.expect(t)
		l.Close()
	})
}
