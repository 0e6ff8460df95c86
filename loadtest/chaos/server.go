package chaos

import (
	"context"
	"os"
	"path/filepath"
	"strconv"

	"roomd/lockmgr/redistest/launch"
)

// server is a redis-server process.
type server struct {
	*launch.Redis
	process
	persist string
}

func persistArgs(persist string) []string {
	if persist == PersistNone {
		return nil
	}
	return []string{"--appendonly", "yes", "--appendfsync", persist}
}

// Files of a server. An AOF has a folder.
const (
	appendFolder = "appendonlydir"
	dumpFile     = "dump.rdb"
)

// saved returns the path of the server's data.
func (s *server) saved() string {
	if s.persist == PersistNone {
		return filepath.Join(s.Dir(), dumpFile)
	}
	return filepath.Join(s.Dir(), appendFolder)
}

// copyData copies the current data.
func (s *server) copyData(ctx context.Context) (string, error) {
	copied := filepath.Join(s.Dir(), "copy")
	if err := os.RemoveAll(copied); err != nil {
		return "", err
	}
	if s.persist == PersistNone {
		if err := s.Admin.Save(ctx).Err(); err != nil {
			return "", err
		}
		return copied, os.Rename(s.saved(), copied)
	}
	return copied, os.CopyFS(copied, os.DirFS(s.saved()))
}

// restore replaces the data of a killed server by a copy; "" removes them.
func (s *server) restore(copied string) error {
	if err := os.RemoveAll(s.saved()); err != nil || copied == "" {
		return err
	}
	return os.Rename(copied, s.saved())
}

// follows returns the port of a server's primary, or 0 if it is a primary or does not answer.
func (s *server) follows(ctx context.Context) int {
	is, err := s.Replication(ctx)
	if err != nil || is["role"] != "slave" {
		return 0
	}
	port, _ := strconv.Atoi(is["master_port"])
	return port
}
