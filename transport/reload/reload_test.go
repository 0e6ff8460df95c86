package reload

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

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
		v, err := New(func(texts [][]byte) (string, error) { return string(texts[0]), nil }, func(string, error) {}, path)
		if err != nil {
			t.Fatal(err)
		}
		before, err := os.Stat(path)
		if err != nil {
			t.Fatal(err)
		}
		write(t, path+".new", "new")
		if err := errors.Join(os.Chtimes(path+".new", before.ModTime(), before.ModTime()), os.Rename(path+".new", path)); err != nil {
			t.Fatal(err)
		}
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
		var reports []string
		v, err := New(pair, func(fresh string, err error) {
			if err != nil {
				fresh = err.Error()
			}
			reports = append(reports, fresh)
		}, a, b)
		if err != nil {
			t.Fatal(err)
		}
		step := func(name, want string, reported ...string) {
			t.Helper()
			for range 3 {
				if got := v.Current(); got != want {
					t.Errorf("%s: %q, want %q", name, got, want)
				}
				time.Sleep(Interval)
			}
			if !slices.Equal(reports, reported) {
				t.Errorf("%s: reported %q, want %q", name, reports, reported)
			}
			reports = nil
		}
		step("at first", "x1+x2")
		write(t, a, "yy1")
		step("the first has changed", "x1+x2", "yy1+x2 do not fit")
		write(t, b, "yy2")
		if got := v.Current(); got != "yy1+yy2" {
			t.Errorf("both have changed: %q", got)
		}
		step("both have changed", "yy1+yy2", "yy1+yy2")
		if err := os.Remove(b); err != nil {
			t.Fatal(err)
		}
		step("one is missing", "yy1+yy2", b+": no such file or directory")
		write(t, b, "yy2")
		step("it is back", "yy1+yy2", "yy1+yy2")
		write(t, b, "zzz2")
		step("broken", "yy1+yy2", "yy1+zzz2 do not fit")
		write(t, b, "")
		step("broken otherwise", "yy1+yy2", "yy1+ do not fit")
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
		reports := 0
		v, err := New(func(texts [][]byte) (string, error) { return string(texts[0]), nil }, func(string, error) { reports++ }, path)
		if err != nil {
			t.Fatal(err)
		}
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
		if got := v.Current(); got != "newer" || reports != 2 {
			t.Errorf("readable: %q after %d reports", got, reports)
		}
	})
}

// A pipe gives its content once. It is not read again.
func TestPipe(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, w, err := os.Pipe()
		if err != nil {
			t.Fatal(err)
		}
		defer r.Close()
		_, _ = w.WriteString("secret")
		w.Close()
		path := "/dev/fd/" + strconv.Itoa(int(r.Fd()))
		if _, err := os.Stat(path); err != nil {
			t.Skip(err)
		}
		v, err := New(func(texts [][]byte) (string, error) { return string(texts[0]), nil }, func(string, error) { t.Error("read again") }, path)
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(Interval)
		if got := v.Current(); got != "secret" {
			t.Errorf("got %q", got)
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
		_, err := New(func([][]byte) (int, error) { return 0, nil }, func(int, error) {}, path)
		var of *FileError
		if !errors.As(err, &of) || of.Path != path || err.Error() != path+": "+want {
			t.Errorf("%s: %v", path, err)
		}
	}
}

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}
