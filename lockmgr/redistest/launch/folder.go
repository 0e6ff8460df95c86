package launch

import (
	"errors"
	"os"
	"path/filepath"
	"time"
)

// settling is how old a folder has to be to count as left behind: its launcher may not
// have locked it yet.
const settling = time.Minute

// folder is a server's. Where there are locks, it is locked as long as we live.
type folder struct {
	path string
	lock *os.File
}

// newFolder makes a folder in parent, and removes those whose launchers were killed.
func newFolder(parent string) (*folder, error) {
	sweep(parent)
	path, err := os.MkdirTemp(parent, folderNames)
	if err != nil {
		return nil, err
	}
	f := &folder{path: path}
	if f.lock, err = os.Open(path); err == nil {
		err = lock(f.lock)
	}
	if err != nil && !errors.Is(err, errors.ErrUnsupported) {
		return nil, errors.Join(err, f.remove())
	}
	return f, nil
}

func (f *folder) remove() error {
	err := os.RemoveAll(f.path)
	if f.lock != nil {
		_ = f.lock.Close()
	}
	return err
}

// sweep removes the folders in parent whose lock it gets. It leaves what it cannot
// remove, such as another user's.
func sweep(parent string) {
	found, _ := filepath.Glob(filepath.Join(parent, folderNames+"*")) // the pattern is a good one
	for _, path := range found {
		info, err := os.Lstat(path)
		if err != nil || !info.IsDir() || time.Since(info.ModTime()) < settling {
			continue
		}
		dir, err := os.Open(path)
		if err != nil {
			continue
		}
		if lock(dir) == nil {
			_ = os.RemoveAll(path)
		}
		_ = dir.Close()
	}
}
