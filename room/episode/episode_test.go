package episode

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rs/zerolog"
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

func TestTwoLinesForAnEpisode(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log buffer
		l := New(zerolog.New(&log).Level(zerolog.InfoLevel), zerolog.WarnLevel, "refused", 10*time.Second)
		l.Happened(errAway, "room", "42", "user", "张三")
		log.expect(t, `{"level":"warn","room":"42","user":"张三","error":"away","message":"refused"}`)
		for i := range 200_000 {
			if i%1000 == 0 {
				time.Sleep(9 * time.Second) // never quiet for long enough
			}
			l.Happened(fmt.Errorf("away %d", i), "room", "43")
		}
		time.Sleep(10*time.Second - time.Nanosecond)
		log.expect(t)
		time.Sleep(time.Nanosecond)
		log.expect(t, `{"level":"warn","times":200001,"lasted":1800000,"latest":"away 199999","message":"over: refused"}`)
		time.Sleep(time.Hour)
		log.expect(t)

		l.Happened(nil) // another one
		log.expect(t, `{"level":"warn","message":"refused"}`)
		time.Sleep(time.Second)
		l.Close()
		log.expect(t, `{"level":"warn","times":1,"lasted":0,"message":"over: refused"}`)
		l.Close()
		time.Sleep(time.Hour)
		log.expect(t)
	})
}

// Who wants to see everything sets the level to debug.
func TestEachAtLevelDebug(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log buffer
		l := New(zerolog.New(&log), zerolog.ErrorLevel, "refused", time.Second)
		l.Happened(errAway, "room", "42")
		l.Happened(errAway, "room", "43")
		log.expect(t,
			`{"level":"error","room":"42","error":"away","message":"refused"}`,
			`{"level":"debug","room":"43","error":"away","message":"refused"}`)
		l.Close()
	})
}

// An episode that was closed early leaves nothing behind that would end the next one.
func TestCloseAndBegin(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log buffer
		l := New(zerolog.New(&log).Level(zerolog.InfoLevel), zerolog.WarnLevel, "refused", 10*time.Second)
		l.Happened(errAway)
		time.Sleep(9 * time.Second)
		l.Close()
		l.Happened(errAway)
		log.expect(t,
			`{"level":"warn","error":"away","message":"refused"}`,
			`{"level":"warn","times":1,"lasted":0,"latest":"away","message":"over: refused"}`,
			`{"level":"warn","error":"away","message":"refused"}`)
		time.Sleep(9 * time.Second)
		log.expect(t)
		l.Close()
	})
}
