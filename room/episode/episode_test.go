package episode

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rs/zerolog"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// expect compares what was logged since the last time.
func expect(t *testing.T, log *bytes.Buffer, want ...string) {
	t.Helper()
	got := log.String()
	log.Reset()
	if got != strings.Join(append(want, ""), "\n") {
		t.Errorf("logged\n%swant\n%s", got, strings.Join(want, "\n"))
	}
}

var errAway = errors.New("away")

func TestTwoLinesForAnEpisode(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		l := New(zerolog.New(&log).Level(zerolog.InfoLevel), zerolog.WarnLevel, "refused", 10*time.Second)
		l.Happened(errAway, "room", "42", "user", "张三")
		expect(t, &log, `{"level":"warn","room":"42","user":"张三","error":"away","message":"refused"}`)
		for i := range 200_000 {
			if i%1000 == 0 {
				time.Sleep(9 * time.Second) // never quiet for long enough
			}
			l.Happened(fmt.Errorf("away %d", i), "room", "43")
		}
		time.Sleep(10*time.Second - time.Nanosecond)
		synctest.Wait()
		expect(t, &log)
		time.Sleep(time.Nanosecond)
		synctest.Wait()
		expect(t, &log, `{"level":"warn","times":200001,"lasted":1800000,"latest":"away 199999","message":"over: refused"}`)
		time.Sleep(time.Hour)
		expect(t, &log)

		l.Happened(nil) // another one
		expect(t, &log, `{"level":"warn","message":"refused"}`)
		time.Sleep(time.Second)
		l.Close()
		expect(t, &log, `{"level":"warn","times":1,"lasted":0,"message":"over: refused"}`)
		l.Close()
		time.Sleep(time.Hour)
		expect(t, &log)
	})
}

// Who wants to see everything sets the level to debug.
func TestEachAtLevelDebug(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		l := New(zerolog.New(&log), zerolog.ErrorLevel, "refused", time.Second)
		l.Happened(errAway, "room", "42")
		l.Happened(errAway, "room", "43")
		expect(t, &log,
			`{"level":"error","room":"42","error":"away","message":"refused"}`,
			`{"level":"debug","room":"43","error":"away","message":"refused"}`)
		l.Close()
	})
}

// An episode that was closed early leaves nothing behind that would end the next one.
func TestCloseAndBegin(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		l := New(zerolog.New(&log).Level(zerolog.InfoLevel), zerolog.WarnLevel, "refused", 10*time.Second)
		l.Happened(errAway)
		time.Sleep(9 * time.Second)
		l.Close()
		l.Happened(errAway)
		log.Reset()
		time.Sleep(9 * time.Second)
		expect(t, &log)
		l.Close()
	})
}
