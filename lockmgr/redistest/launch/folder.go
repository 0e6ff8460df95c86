package launch

import (
	"errors"
	"os"
	"path/filepath"
	"time"
)

// abandonedAfter is how old an unlocked folder is at least when it counts as abandoned. The maker of a younger one may
// not have locked it yet.
const abandonedAfter = time.Minute

// folder is the folder of a server. This process keeps a lock on it where files can be locked.
type folder struct {
	path string
	lock *os.File
}

// newFolder makes a folder in parent, and removes folders whose launchers were killed.
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

// sweep removes the abandoned folders in parent. It ignores folders that it cannot remove, such as another user's.
func sweep(parent string) {
	found, _ := filepath.Glob(filepath.Join(parent, folderNames+"*")) // fails only for a bad pattern
	for _, path := range found {
		info, err := os.Lstat(path)
		if err != nil || !info.IsDir() || time.Since(info.ModTime()) < abandonedAfter {
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
