package reload

import (
	"bytes"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"roomd/lockmgr/redistest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// logTo returns a log that writes to text what it is told, without times.
func logTo(text *bytes.Buffer) *slog.Logger {
	return slog.New(slog.NewTextHandler(text, &slog.HandlerOptions{ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
		if a.Key == slog.TimeKey {
			return slog.Attr{}
		}
		return a
	}}))
}

var said = Messages{Changed: "changed", Unusable: "unusable"}

// first is the text of the first file.
func first(texts [][]byte) (string, error) { return string(texts[0]), nil }

// pair joins the texts of two files; they fit if they begin with the same letter.
func pair(texts [][]byte) (string, error) {
	joined := string(texts[0]) + "+" + string(texts[1])
	if len(texts[0]) == 0 || len(texts[1]) == 0 || texts[0][0] != texts[1][0] {
		return "", errors.New(joined + " do not fit")
	}
	return joined, nil
}

// A file of the same size and time takes the place of another, as from an archive.
func TestTheSameSizeAndTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		path := filepath.Join(t.TempDir(), "key")
		write(t, path, "old")
		v, err := New(slog.New(slog.DiscardHandler), said, first, path)
		redistest.OK(t, err)
		before, err := os.Stat(path)
		redistest.OK(t, err)
		write(t, path+".new", "new")
		redistest.OK(t, errors.Join(os.Chtimes(path+".new", before.ModTime(), before.ModTime()), os.Rename(path+".new", path)))
		time.Sleep(2 * Interval)
		if got := v.Current(); got != "new" {
			t.Errorf("the value is %q", got)
		}
	})
}

// The files of a pair change one after the other. The old pair counts until both fit, and each
// reason why not is reported once.
func TestPairChanges(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := t.TempDir()
		a, b := filepath.Join(dir, "a"), filepath.Join(dir, "b")
		write(t, a, "x1")
		write(t, b, "x2")
		var log bytes.Buffer
		v, err := New(logTo(&log), said, pair, a, b)
		redistest.OK(t, err)
		step := func(name, want, logged string) {
			t.Helper()
			for range 3 {
				if got := v.Current(); got != want {
					t.Errorf("%s: %q, want %q", name, got, want)
				}
				time.Sleep(Interval)
			}
			if got := log.String(); got != logged {
				t.Errorf("%s: logged %q, want %q", name, got, logged)
			}
			log.Reset()
		}
		const changed = "level=INFO msg=changed file="
		unusable := func(why string) string { return "level=ERROR msg=unusable error=" + strconv.Quote(why) + "\n" }
		step("at first", "x1+x2", "")
		write(t, a, "yy1")
		step("the first has changed", "x1+x2", unusable(a+": yy1+x2 do not fit"))
		write(t, b, "yy2")
		if got := v.Current(); got != "yy1+yy2" {
			t.Errorf("both have changed: %q", got)
		}
		step("both have changed", "yy1+yy2", changed+a+"\n")
		redistest.OK(t, os.Remove(b))
		step("one is missing", "yy1+yy2", unusable(b+": no such file or directory"))
		write(t, b, "yy2")
		step("it is back", "yy1+yy2", changed+a+"\n")
		write(t, b, "zzz2")
		step("broken", "yy1+yy2", unusable(a+": yy1+zzz2 do not fit"))
		write(t, b, "")
		step("broken otherwise", "yy1+yy2", unusable(a+": yy1+ do not fit"))
	})
}

// A file that may not be read counts as soon as it may, although its content is the same.
func TestPermissionComesLater(t *testing.T) {
	if os.Getuid() == 0 {
		t.Skip("root may read every file")
	}
	synctest.Test(t, func(t *testing.T) {
		path := filepath.Join(t.TempDir(), "key")
		write(t, path, "old")
		var log bytes.Buffer
		v, err := New(logTo(&log), said, first, path)
		redistest.OK(t, err)
		write(t, path, "newer")
		_ = os.Chmod(path, 0)
		for range 3 {
			time.Sleep(Interval)
			if got := v.Current(); got != "old" {
				t.Errorf("unreadable: %q", got)
			}
		}
		_ = os.Chmod(path, 0o600)
		time.Sleep(Interval)
		if got := v.Current(); got != "newer" || strings.Count(log.String(), "\n") != 2 {
			t.Errorf("readable: %q, logged %s", got, &log)
		}
	})
}

// A pipe gives its content once. It is not read again.
func TestPipe(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, w, err := os.Pipe()
		redistest.OK(t, err)
		defer r.Close()
		_, _ = w.WriteString("secret")
		w.Close()
		path := "/dev/fd/" + strconv.Itoa(int(r.Fd()))
		if _, err := os.Stat(path); err != nil {
			t.Skip(err)
		}
		var log bytes.Buffer
		v, err := New(logTo(&log), said, first, path)
		redistest.OK(t, err)
		time.Sleep(Interval)
		if got := v.Current(); got != "secret" || log.Len() > 0 {
			t.Errorf("got %q, logged %s", got, &log)
		}
	})
}

func TestUnreadable(t *testing.T) {
	dir := t.TempDir()
	long := filepath.Join(dir, "long")
	write(t, long, strings.Repeat("x", MaxSize+1))
	for path, want := range map[string]string{
		filepath.Join(dir, "missing"): "no such file or directory",
		dir:                           "is a directory",
		long:                          "longer than 1 MiB",
	} {
		_, err := New(slog.New(slog.DiscardHandler), said, first, path)
		var of *FileError
		redistest.ErrorIf(t, !errors.As(err, &of) || of.Path != path || err.Error() != path+": "+want,
			"%s: %v", path, err)
	}
}

func write(t *testing.T, path, text string) {
	t.Helper()
	redistest.OK(t, os.WriteFile(path, []byte(text), 0o600))
}
